"""The channels in real kernels: a later click, a click while code waits, a prompt, no user."""

from __future__ import annotations

import time

import pytest

from tests.kernels.rows import CODE, LATER, Row, on


@on(Row.MAIN_7, Row.SUBSHELL_7, Row.MAIN_6)
def test_a_click_after_the_cells_end_is_carried_out(kernel, outcome):
    kernel.run(LATER)
    panel = kernel.panel()
    outcome.is_open()
    panel.be_ready()
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")
    assert "approved" in kernel.run("print(p.status)").text


@on(
    (Row.MAIN_7, "await"),
    (Row.SUBSHELL_7, "await"),
    (Row.SUBSHELL_7, "block"),
    (Row.MAIN_7, "worker"),
    (Row.SUBSHELL_7, "worker"),
)
def test_a_click_reaches_code_that_waits(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    panel.be_ready()
    assert not cell.ended
    panel.click("go")
    kernel.end(cell)
    assert (cell.raised, panel.status, len(kernel.prompts)) == ("", "approved", 0)
    outcome.is_done(panel.pending_id, "panel")


@on((Row.MAIN_7, "block"), (Row.MAIN_6, "await"), (Row.MAIN_6, "block"), (Row.MAIN_6, "worker"))
def test_a_prompt_opens_after_three_seconds_if_clicks_cannot_arrive(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    shown = time.monotonic()
    panel.send_ready()
    panel.send_click("go")
    kernel.prompt()
    assert 2 < time.monotonic() - shown < 15
    kernel.type("go")
    kernel.end(cell)
    panel.until("approved")
    kernel.run("'the click arrives now'")
    assert cell.raised == ""
    outcome.is_done(panel.pending_id, "prompt")


@pytest.mark.usefixtures("no_probe")
@on((Row.MAIN_7, "await"), (Row.MAIN_7, "worker"), (Row.MAIN_6, "block"))
def test_a_front_end_without_panels_is_asked_by_input(kernel, outcome, code):
    cell = kernel.begin(code)
    assert kernel.prompt().startswith("go / approve / reject")
    kernel.type("go")
    kernel.end(cell)
    assert "x: int = 1" in cell.text
    assert cell.raised == ""
    outcome.is_done(kernel.panel().pending_id, "prompt")


@pytest.mark.usefixtures("no_probe")
@on((Row.SUBSHELL_7, "await"), (Row.SUBSHELL_7, "block"))
def test_a_panel_that_comes_after_the_prompt_may_answer_it(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    kernel.prompt()
    panel.be_ready()
    kernel.until(lambda: "This prompt has ended" in cell.text, "the end of the prompt")
    panel.click("go")
    kernel.end(cell)
    assert cell.raised == ""
    outcome.is_done(panel.pending_id, "panel")


@on(Row.MAIN_7, Row.MAIN_6)
def test_without_input_the_wait_fails_at_once_and_the_inbox_keeps_the_request(kernel, outcome):
    first, *others = [code.replace("x=1", f"x={x}") for x, code in enumerate(CODE.values(), 1)]
    for code in (first, *others, first):  # the repeated first cell uses the request that is already pending
        started = time.monotonic()
        cell = kernel.end(kernel.begin(code, stdin=False))
        assert time.monotonic() - started < 10
        assert "needs a decision, but no user is available here" in cell.error
        assert "%tract inbox" in cell.error
    assert kernel.panels == []
    kernel.run("'the kernel runs on'")
    waiting = outcome.store.review.inbox()
    assert ([stored.status for stored in waiting], outcome.effects) == (["pending"] * 3, [])
    pending_id = outcome.decide_here()
    assert outcome.decisions(pending_id) == [("go", "inbox")]
    assert (len(outcome.store.review.inbox()), outcome.effects) == (2, ["1"])


@pytest.mark.usefixtures("no_probe")
@on((Row.MAIN_7, "await"), (Row.MAIN_7, "block"), (Row.MAIN_6, "await"), (Row.MAIN_6, "block"))
def test_a_recorded_decision_is_used_once_if_no_user_is_available(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.prompt()
    kernel.type("go")
    kernel.end(cell)
    kernel.run("%tract record")
    kernel.restart()
    kernel.run("%load_ext tract_jupyter", stdin=False)
    assert kernel.end(kernel.begin(code, stdin=False)).raised == ""
    assert outcome.effects == ["1", "1"]
    newest, first = outcome.store.review.decisions(limit=2)
    assert [(d.action, d.channel) for d in (first, newest)] == [("go", "prompt"), ("go", "recorded")]
    again = kernel.end(kernel.begin(code, stdin=False))
    assert "needs a decision, but no user is available here" in again.error
    assert (outcome.effects, len(outcome.store.review.inbox())) == (["1", "1"], 1)


@on(Row.MAIN_7, Row.MAIN_6)
def test_without_a_panel_a_line_of_text_decides(kernel, outcome):
    shown = kernel.run(LATER)
    name = kernel.panel().pending_id
    assert f"%tract decide {name[:8]} decides it, here" in shown.text
    cell = kernel.begin("%tract decide")
    assert kernel.prompt().startswith("go / approve / reject")
    assert "def go(pending):" in cell.text
    kernel.type("go")
    kernel.end(cell)
    assert "[approved] write" in cell.text
    kernel.panel().until("approved")
    outcome.is_done(name, "prompt")


@on(Row.MAIN_7, Row.MAIN_6)
def test_without_panel_and_input_the_cell_prints_the_next_command(kernel, outcome):
    kernel.run(LATER)
    name = kernel.panel().pending_id
    cell = kernel.run(f"%tract decide {name[:8]} go", stdin=False)
    assert "def go(pending):" in cell.text
    assert f"%tract decide {name[:8]} go" in cell.text
    outcome.is_open()
    kernel.run(f"%tract decide {name[:8]} go", stdin=False)
    outcome.is_done(name, "command")


VALUES = {
    "review": "tract.fire('write', {'x': 1}, review=True)",
    "fire": "tract.fire('write', {'x': 1})",
    "displayed too": "p = tract.fire('write', {'x': 1}); display(p); p",
    "magic": "%tract_fire write x=1",
}


@on(*[(row, way) for row in (Row.MAIN_7, Row.MAIN_6) for way in VALUES], codes=VALUES)
def test_an_open_pending_as_the_value_of_a_cell_is_shown_as_one_panel(kernel, outcome, code):
    cell = kernel.run(code)
    panel = kernel.panel()
    assert len(kernel.panels) == 1
    assert cell.text.count("[pending] write") == 1
    assert "<DynamicPending" not in cell.text
    kernel.run(f"p = {code}" if code.startswith("%") else "p = tract.fire('write', {'x': 1}, review=True)")
    later = kernel.run("p")  # another cell shows it again, and both panels can answer
    assert later.text.count("[pending] write") == 1
    assert "<DynamicPending" not in later.text
    panel.be_ready()
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")
    assert "approved>" in kernel.run("p").text
