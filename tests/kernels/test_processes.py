"""Several processes on one store: decisions in another process, and kernels that end while a cell waits."""

from __future__ import annotations

import pytest

from tests.kernels.rows import CODE, LATER, Row, on

A_FEW_SECONDS = 10.0


@on(
    (Row.MAIN_7, "await"),
    (Row.SUBSHELL_7, "block"),
    (Row.MAIN_7, "worker"),
    (Row.MAIN_6, "await"),
    (Row.MAIN_6, "block"),
    (Row.MAIN_6, "worker"),
)
def test_a_decision_in_another_process_ends_the_wait_of_the_cell(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    outcome.until_waited_for(kernel)
    pending_id = outcome.decide_here()
    kernel.end(cell, A_FEW_SECONDS)
    assert (cell.raised, panel.status, list(kernel.prompts)) == ("", "approved", [])
    outcome.is_done(pending_id, "inbox")


@on((Row.SUBSHELL_7, "block"))
def test_however_long_the_cell_waits_for_its_panel_another_process_can_decide(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.panel().be_ready()
    assert not kernel.happens(lambda: kernel.prompts, 7)  # longer than a lease
    pending_id = outcome.decide_here()
    kernel.end(cell, A_FEW_SECONDS)
    outcome.is_done(pending_id, "inbox")


@on(Row.MAIN_7, Row.MAIN_6)
def test_a_panel_on_display_shows_the_decision_and_run_of_another_process(kernel, outcome):
    kernel.run(LATER)
    pending_id = outcome.decide_here()
    assert outcome.effects == ["1"]
    kernel.panel().until("approved")
    outcome.is_done(pending_id, "inbox")


@pytest.mark.usefixtures("no_probe")
@on((Row.MAIN_7, "block"), (Row.MAIN_6, "await"))
def test_an_answer_typed_after_a_decision_in_another_process_runs_nothing(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.prompt()
    pending_id = outcome.decide_here()
    kernel.type("go")
    kernel.end(cell, A_FEW_SECONDS)
    assert cell.raised == ""
    outcome.is_done(pending_id, "inbox")


@pytest.mark.usefixtures("no_probe")
@on((Row.MAIN_7, "block"), (Row.MAIN_6, "await"))
def test_another_process_can_decide_after_a_prompt_is_not_answered(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.prompt()
    outcome.until_nobody_waits(kernel)
    pending_id = outcome.decide_here()
    assert outcome.effects == ["1"]
    kernel.type("go")
    kernel.end(cell, A_FEW_SECONDS)
    assert cell.raised == ""
    outcome.is_done(pending_id, "inbox")


@pytest.mark.parametrize("way", ["later", "await"])
@on(Row.MAIN_7, Row.MAIN_6)
def test_a_restarted_kernel_has_the_open_request_in_its_inbox(kernel, outcome, way):
    kernel.begin({"later": LATER, **CODE}[way])
    pending_id = kernel.panel().pending_id
    if way != "later":
        outcome.until_waited_for(kernel)
    kernel.restart()
    outcome.is_open()
    decide_in_the_inbox(kernel, outcome, pending_id)


@on(Row.MAIN_7, Row.MAIN_6)
def test_the_request_of_a_crashed_kernel_can_be_decided_at_once(kernel, outcome):
    kernel.begin(CODE["block"])
    pending_id = kernel.panel().pending_id
    outcome.until_waited_for(kernel)
    kernel.crash()
    decide_in_the_inbox(kernel, outcome, pending_id)


def decide_in_the_inbox(kernel, outcome, pending_id):
    """Decide the request in the inbox of the new kernel."""
    kernel.run("%load_ext tract_jupyter")
    kernel.run("%tract inbox")
    panel = kernel.panel()
    assert panel.pending_id == pending_id
    panel.be_ready()
    panel.click("go")
    panel.until("approved", A_FEW_SECONDS)
    outcome.is_done(pending_id, "panel")
