"""A request can be approved only after all of it was on display, in a real JupyterLab."""

from contextlib import suppress

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

LOAD = "%load_ext tract_jupyter"
LONG = """from tract_jupyter.operations.spec import spec_from_dict
spec = {
    "name": "long", "description": "Two thousand lines.", "fields": {}, "unhandled": "ask",
    "actions": {"go": {"description": "Go", "code": "\\n".join(f"x_{n} = {n}" for n in range(1_999)) + "\\npending.approve()"}},
}
p = tract.propose_operation(spec_from_dict(spec))
t = tract.reviewer.show(p)"""
VALUE = '''%%tract_operation keep --activate --ask
"""Keep a text."""
text: str

def save(pending):
    """Save it."""
    pending.approve()
'''
FIRE = 'p = tract.fire("keep", {"text": "".join(f"{n:09} " for n in range(10_000))})'
NOTHING_YET = "print(p.status)"


def read_on(lab, cell):
    """Read to the end like a user who presses one button, and return the displayed texts."""
    from playwright.sync_api import expect

    output, said = lab.output(cell), []
    lab.unfold(cell)
    more, left = output.locator(".next"), output.locator(".reading .left")
    while more.is_visible():
        before = left.inner_text()
        said.append(before)
        with suppress(PlaywrightTimeoutError):  # the last lines may already count as read
            more.click(timeout=5_000)
        expect(left).not_to_have_text(before, timeout=60_000)
        assert len(said) < 200
    return said


@pytest.mark.parametrize(
    ("viewport", "name", "lines"), [((1100, 1400), "light", 2_000), ((800, 1000), "narrow", 500)]
)
def test_an_operation_of_many_lines(open_lab, screenshot, viewport, name, lines):
    code = LONG.replace("1_999", str(lines - 1))
    lab = open_lab(LOAD, code, NOTHING_YET, viewport=viewport, reads=False)
    lab.run_cell(0)
    lab.run_cell(1)
    activate = lab.button("Activate", 1)
    activate.wait_for()
    lab.output(1).get_by_text("lines first").wait_for()
    assert activate.get_attribute("aria-disabled") == "true"
    screenshot(lab, f"reading-code-{name}", 1)
    lab.unfold(1)
    code = lab.output(1).locator(".code").first
    assert code.locator(".c").count() == lines + 1  # plus the line of the definition
    lab.output(1).locator(".scroll").evaluate(
        "box => { box.scrollTop = box.scrollHeight; }"
    )  # a jump to the end leaves a gap
    lab.page.wait_for_timeout(700)
    assert activate.get_attribute("aria-disabled") == "true"
    activate.dispatch_event("click")
    said = read_on(lab, 1)
    assert len(said) > 10
    assert lab.output(1).locator(".reading .left").inner_text().endswith("lines were shown")
    screenshot(lab, f"reading-code-read-{name}", 1)
    lab.run_cell(2)
    assert lab.text(2) == "pending\n"
    activate.click()
    lab.wait_output(1, "approved by")


AWAY = """async panel => {
  const due = [], later = window.setTimeout, place = panel.parentElement;
  window.setTimeout = (run, delay, ...rest) => delay === 300 ? -due.push(run) : later(run, delay, ...rest);
  panel.querySelector(".scroll").scrollTop = 900;
  for (let n = 0; n < 5; n++) await new Promise(requestAnimationFrame);
  window.setTimeout = later;
  panel.remove();
  const count = due.length;
  for (const run of due) run();
  place.append(panel);
  return count;
}"""
"""Removes a panel when its lines were visible long enough, and puts it back, like JupyterLab with cells."""


def test_lines_of_a_panel_removed_while_reading_can_be_read_later(open_lab):
    lab = open_lab(LOAD, LONG.replace("1_999", "199"), reads=False)
    lab.run_cell(0)
    lab.run_cell(1)
    lab.unfold(1)
    lab.output(1).get_by_text("Read on: ").wait_for()
    assert lab.output(1).locator(".tract[data-testid=tract-question]").evaluate(AWAY) > 3
    read_on(lab, 1)
    lab.button("Activate", 1).click()
    lab.wait_output(1, "approved by")


def test_a_value_of_a_hundred_thousand_characters(open_lab, screenshot):
    lab = open_lab(LOAD, VALUE, FIRE, "print(p.status)", "%tract inbox", viewport=(1100, 1400), reads=False)
    for cell in range(3):
        lab.run_cell(cell)
    approve = lab.button("Run save", 2)
    approve.wait_for()
    lab.output(2).get_by_text("lines first").wait_for()
    assert approve.get_attribute("aria-disabled") == "true"
    lab.unfold(2)
    assert lab.output(2).locator(".long").inner_text().count("00000") > 1
    screenshot(lab, "reading-value", 2)
    read_on(lab, 2)
    screenshot(lab, "reading-value-read", 2)
    lab.run_cell(3)
    assert lab.text(3) == "pending\n"
    approve.click()
    lab.wait_output(2, "save chosen by")


WIDE = """from tract_jupyter.operations.spec import spec_from_dict
text = " ".join(f"word{n}" for n in range(40))
tract.reviewer.show(tract.propose_operation(spec_from_dict({
    "name": "wide", "description": text, "fields": {"text": {"type": "str", "default": text, "description": text}},
    "unhandled": "ask", "actions": {"go": {"description": text, "code": f"x = {text!r}\\npending.approve()"}},
})))"""


def test_lines_taller_than_the_window_can_be_read_to_the_end(open_lab, screenshot):
    lab = open_lab(LOAD, WIDE, viewport=(320, 256), reads=False)  # a screen of 1280 by 1024 at 400 %
    lab.page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    lab.run_cell(0)
    lab.run_cell(1)
    activate, more = lab.button("Activate", 1), lab.output(1).locator(".next")
    activate.wait_for()
    lab.output(1).get_by_text("lines first").wait_for()
    lab.unfold(1)
    lines = lab.output(1).locator("[data-line]")
    assert max(line.bounding_box()["height"] for line in lines.all()) > 300
    more.evaluate("button => button.click()")
    screenshot(lab, "reading-tall")
    press_until(lab, more, lambda: activate.get_attribute("aria-disabled") == "false", most=200)
    lab.page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    activate.dispatch_event("click")
    lab.wait_output(1, "approved by")


NOTE = VALUE.replace("keep", "note")
NOT_TYPED = "get_ipython().run_cell_magic('tract_operation', {!r}, {!r})".format(
    NOTE.partition("\n")[0].partition(" ")[2], NOTE.partition("\n")[2]
)
FIRE_TWO = """for text in ("short", "x" * 5_000):
    tract.reviewer.keep(tract.fire("note", {"text": text}, review=True))"""


def press_until(lab, button, is_so, most=80):
    """Press the button for unread lines until all are read. Each stretch must be visible for a moment."""
    for _ in range(most):
        if is_so():
            return
        button.dispatch_event("click")
        lab.page.wait_for_timeout(500)
    raise AssertionError(f"{button} did not lead on")


def test_the_rows_of_the_inbox_are_read_to_the_end_too(open_lab, screenshot):
    lab = open_lab(LOAD, NOT_TYPED, FIRE_TWO, "%tract inbox", viewport=(1000, 1300), reads=False)
    for cell in range(4):
        lab.run_cell(cell)
    board = lab.output(3).locator("[data-testid=tract-batch]")
    rows = board.locator(".item")
    for number in (0, 1):
        rows.nth(number).get_by_role("checkbox").check()
    approve = board.get_by_role("button", name="Run 2 × note", exact=True)
    board.get_by_text("Read on: ").wait_for()
    assert approve.get_attribute("aria-disabled") == "true"
    screenshot(lab, "reading-inbox", 3)
    code = board.locator(".code").first
    press_until(lab, approve, code.is_visible)  # unfolds the unread part and decides nothing
    rows.nth(0).get_by_role("checkbox").uncheck()
    lone = board.get_by_role("button", name="Run note", exact=True)
    press_until(lab, lone, lambda: lone.get_attribute("aria-disabled") == "false")
    screenshot(lab, "reading-inbox-read", 3)
    lone.click()
    rows.nth(1).get_by_text("save chosen by").first.wait_for(state="attached")
