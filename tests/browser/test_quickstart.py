"""The tutorial from the README: a user's walk through it, and the saved notebook."""

import pytest

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
    assert opened == ours  # opening it changes nothing
    walk.run_to(walk.clean)
    assert lab.output(walk.clean).locator(".result img[src^='data:image/png;']").is_visible()
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
