"""A merge with conflicts that a user decides in JupyterLab, and the line with the number of open requests."""

import pytest

from tests.browser.contrast import poor_contrast
from tests.browser.server import DARK

TALK = """\
%load_ext tract_jupyter
first = tract.user("Meet on Monday at ten.\\nBring the papers.\\nThanks").commit_hash
second = tract.user("The room is number 4.").commit_hash
tract.branch("topic")
tract.user("Meet on Tuesday at ten.\\nBring the papers.\\nThanks a lot", edit=first)
tract.annotate(second, "skip")
tract.switch("main")
tract.user("Meet on Monday at eleven.\\nBring the papers.\\nThanks", edit=first)
tract.user("The room is number 5.", edit=second)
"""


@pytest.fixture
def lab(open_lab):
    lab = open_lab(TALK, "%tract merge topic", "%tract log", "print(tract.compile().to_dicts())")
    assert lab.run_cell(0)
    return lab


def test_each_conflict_is_decided_and_merged(lab, screenshot):
    assert lab.run_cell(1)
    panel = lab.output(1).locator("[data-testid=tract-panel]")
    choices = panel.locator(".choice")
    choices.first.wait_for()
    assert choices.count() == 2
    merge = lab.button("Merge", 1)
    screenshot(lab, "merge", 1)
    panel.get_by_text("Decide 2 conflicts first").wait_for()
    assert merge.get_attribute("aria-disabled") == "true"
    choices.nth(1).get_by_role("button", name="Take theirs").click()
    panel.get_by_text("Decide 1 conflict first").wait_for()
    choices.nth(0).get_by_role("button", name="Edit…").click()
    text = choices.nth(0).get_by_role("textbox")
    assert text.input_value().startswith("Meet on Monday at eleven.")
    text.fill("Meet on Tuesday at eleven.")
    for theme in (None, DARK):
        if theme:
            lab.theme(theme)
        screenshot(lab, f"merge-decided{'-dark' if theme else ''}", 1)
        assert not poor_contrast(lab.output(1))
    merge.click()
    lab.output(1).locator("summary b", has_text="Merged topic into main").wait_for()
    screenshot(lab, "merge-done-dark", 1)
    assert lab.run_cell(3)
    assert "Meet on Tuesday at eleven." in lab.text(3)
    assert "room" not in lab.text(3)


def test_the_newest_cell_ends_with_the_number_of_open_requests(lab, screenshot):
    assert lab.run_cell(1)
    merge = lab.button("Merge", 1)
    merge.wait_for()
    assert lab.output(1).locator("[data-testid=tract-waiting]").count() == 0
    assert lab.page.title().startswith("(1) ")
    assert lab.run_cell(2)
    line = lab.output(2).locator("[data-testid=tract-waiting]")
    line.get_by_text("1 waiting").wait_for()
    screenshot(lab, "waiting", 2)
    assert not poor_contrast(line)
    lab.button("1 waiting", 2).click()
    assert merge.evaluate("one => one.closest('.q') === document.activeElement")
    lab.reject(1, "not now")
    line.wait_for(state="detached")
    lab.page.wait_for_function("!document.title.startsWith('(')")


def test_a_click_on_the_number_opens_the_request_of_another_kernel(lab):
    assert lab.run_cell(1)
    lab.button("Merge", 1).wait_for()
    lab.restart()
    lab.set_source(0, TALK.splitlines()[0])
    lab.set_source(1, "")
    assert lab.run_cell(0)
    assert lab.run_cell(1)
    assert lab.run_cell(2)
    lab.button("1 waiting", 2).press("Enter")
    lab.button("Merge", 2).wait_for()
