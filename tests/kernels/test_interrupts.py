"""The stop button while code waits: the wait ends, the kernel continues, the request stays open."""

from __future__ import annotations

import pytest

from tests.kernels.rows import Row, on

STOPPED = {"KeyboardInterrupt", "CancelledError"}
SOON = 8.0


def stop(kernel, cell, outcome):
    """Interrupt a waiting cell. Check that the kernel runs the next cell and nothing was decided."""
    outcome.until_waited_for(kernel)
    kernel.interrupt()
    kernel.end(cell, SOON)
    assert cell.raised in STOPPED
    assert "on" in kernel.run("print('on')").text
    outcome.is_open()


@on((Row.MAIN_7, "await"), (Row.SUBSHELL_7, "await"), (Row.SUBSHELL_7, "block"), (Row.SUBSHELL_7, "worker"))
def test_a_live_panel_can_be_clicked_after_an_interrupt(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    panel.be_ready()
    stop(kernel, cell, outcome)
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")


@on((Row.MAIN_6, "await"), (Row.MAIN_6, "block"))
def test_a_panel_can_be_clicked_after_an_interrupt_before_its_message_arrived(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    panel.send_ready()
    stop(kernel, cell, outcome)
    assert not kernel.prompts
    panel.be_ready()
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")


@pytest.mark.usefixtures("no_probe")
@on((Row.MAIN_7, "await"), (Row.MAIN_7, "block"), (Row.MAIN_6, "await"), (Row.MAIN_6, "block"))
def test_an_interrupted_prompt_can_be_decided_in_the_inbox(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.prompt()
    stop(kernel, cell, outcome)
    kernel.run("%tract inbox")
    panel = kernel.panel(2)
    panel.be_ready()
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")
    first = kernel.panel(1)
    first.send_click("go")
    kernel.run("'the click on the first panel has arrived'")
    outcome.is_done(panel.pending_id, "panel")


@pytest.mark.usefixtures("no_probe")
@on((Row.MAIN_7, "worker"), (Row.MAIN_6, "worker"))
def test_a_panel_can_be_clicked_after_an_interrupt_during_a_prompt_of_a_thread(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    kernel.prompt()
    stop(kernel, cell, outcome)
    panel.be_ready()
    panel.click("go")
    panel.until("approved", SOON)
    outcome.is_done(panel.pending_id, "panel")


@on(Row.MAIN_7, Row.MAIN_6)
def test_interrupted_while_a_cell_that_awaits_something_else_blocks(kernel, outcome):
    cell = kernel.begin("import asyncio\nawait asyncio.sleep(0)\ntools.fire_write(x=1)")
    panel = kernel.panel()
    panel.send_ready()
    stop(kernel, cell, outcome)
    panel.be_ready()
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")


@on((Row.SUBSHELL_7, "await"), (Row.MAIN_6, "await"))
def test_an_interrupted_await_is_one_line_that_says_how_to_decide(kernel, code):
    cell = kernel.begin(code)
    kernel.panel().send_ready()
    kernel.interrupt()
    kernel.end(cell, SOON)
    assert (
        cell.error == f"Interrupted: 'write' waits. %tract decide {kernel.panel().pending_id[:8]} decides it."
    )
