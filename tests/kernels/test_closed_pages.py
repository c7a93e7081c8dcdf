"""A page that is closed leaves no kernel blocked."""

from __future__ import annotations

from tests.kernels.rows import Row, on


@on((Row.SUBSHELL_7, "block"))
def test_a_cell_that_blocks_ends_and_a_reopened_page_decides(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    panel.be_ready()
    panel.close_page()
    kernel.end(cell)
    assert "the page that showed it was closed" in cell.error
    assert "%tract inbox" in cell.error
    outcome.is_open()
    assert "the cell that asked this has ended" in panel.state["view"]["note"]
    panel.be_ready()
    panel.click("go")
    panel.until("approved")
    outcome.is_done(panel.pending_id, "panel")


@on((Row.SUBSHELL_7, "block"))
def test_a_page_that_is_silent_for_long_counts_as_closed(kernel, outcome, code):
    kernel.run("from tract_jupyter.notebook.panels import panel; panel.SILENT_SECONDS = 1.0")
    cell = kernel.begin(code)
    kernel.panel().be_ready()
    kernel.end(cell)
    assert "the page that showed it was closed" in cell.error
    outcome.is_open()


@on((Row.SUBSHELL_7, "await"), (Row.SUBSHELL_7, "worker"), (Row.MAIN_7, "await"))
def test_code_that_does_not_block_waits_for_the_reopened_page(kernel, outcome, code):
    cell = kernel.begin(code)
    panel = kernel.panel()
    panel.be_ready()
    panel.close_page()
    panel.be_ready()
    assert not cell.ended
    panel.click("go")
    kernel.end(cell)
    assert cell.raised == ""
    outcome.is_done(panel.pending_id, "panel")


@on((Row.SUBSHELL_7, "block"))
def test_another_notebook_decides_before_the_page_is_missed(kernel, outcome, code):
    cell = kernel.begin(code)
    kernel.panel().be_ready()
    outcome.decide_here()
    kernel.end(cell)
    assert cell.raised == ""
    assert outcome.effects == ["1"]
