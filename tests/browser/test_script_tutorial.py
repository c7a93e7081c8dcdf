"""The tutorial on scripts, as a person clicks through it."""

import shutil
from pathlib import Path

import nbformat
import pytest

TUTORIAL = Path(__file__).parent.parent.parent / "notebooks" / "scripts.ipynb"


@pytest.mark.slow
def test_the_tutorial_on_scripts(open_lab, screenshot):
    cells = [cell for cell in nbformat.read(TUTORIAL, as_version=4).cells if cell.cell_type == "code"]
    lab = open_lab(*(cell.source for cell in cells), viewport=(1100, 1500))
    shutil.copy(TUTORIAL.parent / "scripted_model.py", lab.path.parent)
    asked = 0
    for index, cell in enumerate(cells):
        if "tools.commit(" in cell.source or "tools.register_tag(" in cell.source:
            asked += 1
            lab.run_cell(index, wait=False)
            lab.output(index).locator(".q").evaluate("row => row.scrollIntoView({ block: 'end' })")
            lab.output(index).locator("[data-action=approve][data-approves]").first.click()
            assert lab.wait_cell(index)
            lab.wait_output(index, "Script completed")
        else:
            fails = "raises-exception" in cell.metadata.get("tags", ())
            assert lab.run_cell(index) is not fails
        screenshot(lab, f"scripts-{index:02}", index)
    assert asked == 2
