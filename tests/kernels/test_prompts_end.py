"""A prompt that took the place of a panel ends when something else decides, or can decide."""

from __future__ import annotations

import pytest

from tests.kernels.rows import Row, on

ENDED = "This prompt has ended"
WAYS = [(Row.SUBSHELL_7, "await"), (Row.SUBSHELL_7, "block"), (Row.SUBSHELL_7, "worker")]

pytestmark = pytest.mark.usefixtures("no_probe")


@on(*WAYS, (Row.MAIN_7, "await"), (Row.MAIN_7, "block"), (Row.MAIN_6, "await"), (Row.MAIN_6, "block"))
def test_a_decision_from_elsewhere_ends_the_prompt(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.prompt()
    pending_id = outcome.decide_here()
    kernel.end(cell)
    assert ENDED in cell.text
    assert cell.raised == ""
    assert outcome.decisions(pending_id) == [("go", "inbox")]
    assert outcome.effects == ["1"]


@on(*WAYS)
def test_a_late_panel_ends_the_prompt_and_decides(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    kernel.prompt()
    panel.be_ready()
    kernel.until(lambda: ENDED in cell.text, "the end of the prompt")
    assert not cell.ended
    panel.click("go")
    kernel.end(cell)
    assert (cell.raised, panel.status) == ("", "approved")
    outcome.is_done(panel.pending_id, "panel")


@on((Row.SUBSHELL_7, "block"), (Row.MAIN_7, "block"))
def test_the_end_of_the_time_ends_the_prompt(kernel, outcome, code):
    kernel.run("tract.reviewer.timeout, tract.reviewer.on_timeout = 2.0, 'deny'")
    cell = kernel.begin(code)
    kernel.prompt()
    kernel.end(cell)
    assert ENDED in cell.text
    assert "o decision within 2 s" in cell.error + cell.text
    assert outcome.effects == []


@on((Row.SUBSHELL_7, "block"), (Row.MAIN_7, "await"))
def test_an_interrupt_ends_the_prompt_and_the_request_waits(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.prompt()
    kernel.interrupt()
    kernel.end(cell)
    assert cell.raised
    assert len(outcome.store.review.inbox()) == 1
    kernel.run("'the kernel runs on'")
