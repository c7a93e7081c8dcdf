"""The tutorials: a user makes the described clicks and sees the described results."""

import pytest

from tests.browser.tutorials import SIZE, TUTORIALS, Walk


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TUTORIALS.keys() - {"quickstart"}))  # see test_quickstart.py
def test_the_clicks_of_a_tutorial_give_the_results_that_its_text_describes(
    lab_server, browser, name, screenshot
):
    walk = Walk(browser.page(SIZE), lab_server, name)
    try:
        walk.finish()
    except BaseException:
        screenshot(walk.lab, f"tutorial-{name}")
        walk.lab.close()
        raise
    screenshot(walk.lab, f"tutorial-{name}")
    walk.lab.leave()
    browser.keep(walk.lab.page)
