"""Drawing a request: a spec whose action has 30 lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.samples import RISKY
from benchmarks.timing import Row, best_of
from tract_jupyter import Tract
from tract_jupyter.notebook.panels import Panel, body_html, highlighted, record_html
from tract_jupyter.review import Ticket

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows() -> Iterator[Row]:
    """Without a kernel: the panel's comm goes nowhere."""
    with Tract.open() as tract:
        ticket = Ticket(tract.propose_operation(RISKY), lambda _: None)
        block = ticket.request.code[0]
        shown = f"{len(block.code.splitlines())} lines, {len(block.findings)} findings"

        def draw_first() -> str:
            highlighted.cache_clear()
            return body_html(ticket)

        yield Row(f"body_html: {shown}, the first time", best_of(draw_first), "ms", target=6)
        yield Row(f"body_html: {shown}, again", best_of(lambda: body_html(ticket)), "ms", target=6)
        yield Row(f"record_html: {shown}", best_of(lambda: record_html(ticket)), "ms", target=6)
        yield Row("Panel(ticket), and closing it", best_of(lambda: Panel(ticket).close()), "ms", target=6)
