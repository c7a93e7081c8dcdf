"""The tutorial, as the README opens it."""

from pathlib import Path

import nbformat

QUICKSTART = Path(__file__).parent.parent.parent / "notebooks" / "quickstart.ipynb"


def test_the_tutorial_runs_and_its_panel_can_be_clicked(open_lab, screenshot):
    cells = nbformat.read(QUICKSTART, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    lab = open_lab(*sources)
    assert lab.run_all()
    define = next(i for i, source in enumerate(sources) if "--json" in source)
    lab.button("Activate", define).click()
    lab.wait_output(define, "approved by")
    assert lab.run_cell(define + 1)
    lab.button("Count", define + 1).click()
    lab.wait_output(define + 1, "count chosen by")
    screenshot(lab, "quickstart")
