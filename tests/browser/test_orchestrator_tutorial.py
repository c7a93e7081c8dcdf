"""The tutorial on the orchestrator, as a person clicks through it."""

import shutil
from pathlib import Path

import nbformat
import pytest

TUTORIAL = Path(__file__).parent.parent.parent / "notebooks" / "orchestrator.ipynb"
HOOPOE = "From March to July mostly great tits. The hoopoe was seen 12 times, mostly in May."


@pytest.mark.slow
def test_the_tutorial_on_the_orchestrator(open_lab, screenshot):
    cells = [cell for cell in nbformat.read(TUTORIAL, as_version=4).cells if cell.cell_type == "code"]
    lab = open_lab(*(cell.source for cell in cells), viewport=(1100, 1300))
    shutil.copy(TUTORIAL.parent / "scripted_model.py", lab.path.parent)
    shutil.copytree(TUTORIAL.parent / "data", lab.path.parent / "data")
    (asks,) = (
        n for n, cell in enumerate(cells) if "its budget" in cell.source and "%tract_orch" in cell.source
    )
    for index in range(len(cells)):
        if index == asks:
            lab.run_cell(index, wait=False)
            out = lab.output(index)
            out.locator("section.q").wait_for()
            screenshot(lab, "orchestrator-tutorial-asked", index)
            lab.change(index, "content", f'"{HOOPOE}"')
            assert out.get_by_label("content", exact=True).last.bounding_box()["width"] > 200
            screenshot(lab, "orchestrator-tutorial-changed", index)
            lab.button("Run compress", index).first.click()
            assert lab.wait_cell(index), lab.text(index)
        else:
            assert lab.run_cell(index), lab.text(index)
        screenshot(lab, f"orchestrator-tutorial-{index:02}", index)
    assert "You changed my summary" in lab.text(asks)
    assert HOOPOE in lab.text(asks + 2)
    assert "1 proposal told, and not done" in lab.text(len(cells) - 4)
    assert (
        lab.execute("print(tract.head == diary, run.tokens_after < run.tokens_before)").strip() == "True True"
    )
