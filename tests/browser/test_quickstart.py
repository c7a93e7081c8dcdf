"""The tutorial of the README: a user completes it and saves the notebook."""

import pytest

from tests.browser.contrast import poor_contrast
from tests.browser.notebooks import read_notebook
from tests.browser.server import DARK, LIGHT
from tests.browser.tutorials import NOTEBOOKS, SIZE, Walk, find_cell


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def walk(request, lab_server, browser):
    walk = Walk(browser.page(SIZE), lab_server, "quickstart")
    walk.clean, walk.june = (find_cell(walk.cells, text) for text in ("Clean this table", "in June?"))
    walk.lab.theme(request.param)
    yield walk
    walk.lab.leave()
    browser.keep(walk.lab.page)


def test_a_person_walks_through_the_tutorial(walk, screenshot, request):
    lab = walk.lab
    opened, ours = lab.save(), read_notebook(NOTEBOOKS / "quickstart.ipynb")
    for notebook in (opened, ours):
        notebook.metadata.language_info.pop("version")  # the secret of the user who opens it
    assert opened == ours  # opening the notebook changes nothing
    walk.run_to(walk.clean)
    figures = lab.output(walk.clean).locator(".result > img[src^='data:image/png;']")
    assert figures.filter(visible=True).count() == 1
    ran = " ".join(lab.output(walk.clean).locator(".tab .code").all_text_contents())
    assert "nlargest(5)" in ran
    assert lab.execute("print(len(clean), 'june' in globals())") == "409 False\n"
    table = walk.lab.path.parent / "data" / "sightings.csv"
    assert table.read_bytes() == (NOTEBOOKS / "data" / "sightings.csv").read_bytes()
    walk.run_to(walk.june)
    walk.show(walk.clean)
    screenshot(lab, f"quickstart-{request.node.callspec.id}")
    walk.finish()
    assert lab.execute("print([len(turn.messages) > 0 for turn in tract.loop.turns()])") == "[True]\n"
    saved = lab.save().cells
    for number in (walk.clean, walk.june):
        for output in saved[number].outputs:
            assert not any("widget" in kind for kind in output.get("data", {})), number


def test_only_the_overwrite_needs_approval_and_undo_restores_the_file(lab_server, browser, screenshot):
    """The user decides about the overwritten file. Read-only scripts and plots need no approval."""
    walk = Walk(browser.page(SIZE), lab_server, "quickstart")
    lab = walk.lab
    clean, june = (find_cell(walk.cells, text) for text in ("Clean this table", "in June?"))
    table = lab.path.parent / "data" / "sightings.csv"
    before = table.read_bytes()
    for number in range(clean):
        if walk.cells[number].cell_type == "code":
            assert lab.run_cell(number), lab.text(number)
    lab.run_cell(clean, wait=False)
    row = lab.output(clean).locator(".q")
    keep = row.locator("[data-action=keep][aria-disabled=false]")
    keep.wait_for()
    assert "Overwrites data/sightings.csv" in row.locator(".effects .sentence").inner_text()
    assert row.locator(".what .chip").inner_text() == "overwrites a file"
    row.locator("details.fx > summary").first.click()
    row.locator(".fx-sample").first.wait_for()
    walk.show(clean)
    screenshot(lab, "effects-light", clean)
    lab.theme(DARK)
    screenshot(lab, "effects-dark", clean)
    assert not poor_contrast(lab.output(clean))
    lab.theme(LIGHT)
    lab.page.set_viewport_size({"width": 700, "height": 900})
    screenshot(lab, "effects-700", clean)
    fits = "one => one.scrollWidth <= one.clientWidth"  # JupyterLab sets the width with a delay
    assert lab.page.wait_for_function(fits, arg=row.element_handle(), timeout=10_000)
    lab.page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    row.focus()
    lab.page.keyboard.press("Control+Enter")
    assert lab.wait_cell(clean), lab.text(clean)
    assert lab.run_cell(june), lab.text(june)
    assert "The great tit, with 83 birds" in lab.output(june).inner_text()
    assert lab.execute("print(sum(one.channel == 'panel' for one in tract.review.decisions()))") == "1\n"
    assert len(table.read_bytes().splitlines()) == 410
    assert lab.execute("print(len(clean))") == "409\n"
    title = lab.output(clean).locator("summary", has_text="Kept: Creates")
    assert title.evaluate("one => one.scrollWidth <= one.clientWidth && one.clientHeight < 40")  # one line
    screenshot(lab, "effects-kept", clean)
    lab.execute("first, second = tract.loop.turns()\ntract.undo(second)\ntract.undo(first)")
    assert table.read_bytes() == before
    assert lab.execute("print('clean' in globals())") == "False\n"
    lab.leave()
    browser.keep(lab.page)
