"""The tutorial on agents, as a person clicks through it."""

import shutil
from pathlib import Path

import nbformat
import pytest

TUTORIAL = Path(__file__).parent.parent.parent / "notebooks" / "agents.ipynb"


@pytest.mark.slow
def test_the_tutorial_on_agents(open_lab, screenshot):
    cells = [cell for cell in nbformat.read(TUTORIAL, as_version=4).cells if cell.cell_type == "code"]
    lab = open_lab(*(cell.source for cell in cells), viewport=(1100, 1300))
    shutil.copy(TUTORIAL.parent / "scripted_model.py", lab.path.parent)
    shutil.copytree(TUTORIAL.parent / "data", lab.path.parent / "data")
    (asks,) = (n for n, cell in enumerate(cells) if cell.source.startswith("%%tract_chat"))
    for index in range(len(cells)):
        if index == asks:
            lab.run_cell(index, wait=False)
            out = lab.output(index)
            out.locator("section.q").first.wait_for()
            screenshot(lab, "agents-tutorial-create", index)
            for name in ("species_expert", "places_expert"):
                lab.button(f"Create agent {name}", index).first.click()
            lab.button("Change agent places_expert", index).first.wait_for()
            screenshot(lab, "agents-tutorial-update", index)
            lab.button("Change agent places_expert", index).first.click()
            assert lab.wait_cell(index), lab.text(index)
        else:
            assert lab.run_cell(index), lab.text(index)
        screenshot(lab, f"agents-tutorial-{index:02}", index)
    told = " ".join(lab.output(asks).inner_text().split())
    assert "By place it is Wasserburg 338 (31 %)" in told
    assert "version 2" in lab.text(asks + 2)
    assert (
        (lab.path.parent / "agents" / "places_expert.agent")
        .read_text()
        .startswith("---\nname: places_expert")
    )
    assert lab.execute("print(tract.agents.names)").strip() == "['places_expert']"
