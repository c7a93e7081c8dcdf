"""The requests of one step in one list: a heading, and each request with its buttons."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import traitlets

from tract_jupyter.models import counted
from tract_jupyter.notebook.output import CellOutput
from tract_jupyter.notebook.panels.panel import (
    REQUEST_SCRIPTS,
    REQUEST_STYLES,
    ReviewWidget,
    is_answer,
    panel_data,
    take_answer,
)
from tract_jupyter.notebook.panels.render import RECORD_STYLES, row_html
from tract_jupyter.notebook.views.html import asset, element
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.review import record_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.review import Ticket


class QuestionPanel(ReviewWidget):
    """A widget that shows several tickets, and takes the answer to each.

    Synced state: `view` is drawn.

    Args:
        tickets: the requests in order.
    """

    _esm = "".join(map(asset, (*REQUEST_SCRIPTS, "panels/questions.js")))
    _css = "".join(map(asset, REQUEST_STYLES))
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._tickets = tuple(tickets)
        self._late: dict[str, tuple[str, str]] = {}
        """The round of the last answer that was not taken and the reason, by pending."""
        self._heard: set[str] = set()
        self._refused = 0
        self._lock = threading.RLock()
        super().__init__(view=self._view())

    def refresh(self) -> None:
        """Draw the current state. Called in any thread; the lock keeps an older state from replacing a newer one."""
        with self._lock:
            self.view = self._view()

    def take(self, content: dict[str, Any]) -> None:
        """Pass a click to its ticket. If it came too late, show who decided."""
        ticket = next(
            (
                candidate
                for candidate in self._tickets
                if candidate.pending.pending_id == content.get("pending_id")
            ),
            None,
        )
        if not is_answer(content) or ticket is None:
            return
        round_id = content["round_id"]
        with self._lock:
            is_again = round_id in self._heard
            self._heard.add(round_id)
        self.heard = round_id
        why = take_answer(ticket, content, is_again=is_again)
        if why:
            with self._lock:
                self._refused += 1
                self._late[ticket.pending.pending_id] = (ticket.round_id, why)
            self.refresh()

    def fallback(self) -> dict[str, str]:
        """Return the records, for front ends without live views."""
        title = element("p", element("b", self._title))
        rows = element("div", *map(row_html, self._tickets), class_="list")
        label = {"data_testid": "tract-questions-record", "aria_label": self._title}
        html = str(output_html(element("section", title, rows, **label), *RECORD_STYLES))
        return {"text/plain": "\n\n".join([self._title, *map(record_text, self._tickets)]), "text/html": html}

    @property
    def _title(self) -> str:
        count = sum(ticket.status.is_open for ticket in self._tickets)
        waiting = f"{counted(count, 'call')} {'waits' if count == 1 else 'wait'} for your decision"
        return waiting if count else f"{counted(len(self._tickets), 'call')} of one step"

    def _view(self) -> dict[str, Any]:
        return {"title": self._title, "rows": [self._row(ticket) for ticket in self._tickets]}

    def _row(self, ticket: Ticket) -> dict[str, Any]:
        round_id, why = self._late.get(ticket.pending.pending_id, ("", ""))
        is_told = why and (round_id == ticket.round_id or not ticket.status.is_open)
        return {
            **panel_data(ticket, asked_by=False),
            **({"late": why, "refused": self._refused} if is_told else {}),
        }


class QuestionList:
    """One output for the requests of one step. The records replace it.

    Attributes:
        tickets: the requests in order, shown by `put_up`.
    """

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self._panel: QuestionPanel | None = None
        self._output = CellOutput()
        self._decided = 0

    @property
    def ready(self) -> bool:
        """True if the script of the panel has run in a page."""
        return self._panel is not None and bool(self._panel.ready)

    def add(self, ticket: Ticket) -> None:
        """Add a request to the list."""
        self.tickets.append(ticket)

    def put_up(self) -> None:
        """Display the list."""
        self._panel = QuestionPanel(self.tickets)
        self._output.put(self._panel)

    def refresh(self) -> None:
        """Draw the current state. A saved notebook keeps the records of decided requests."""
        if self._panel is None:
            return
        self._panel.refresh()
        decided = sum(not ticket.status.is_open for ticket in self.tickets)
        if decided == len(self.tickets):
            self._output.put(self._panel.fallback(), raw=True)
        elif decided != self._decided:
            self._decided = decided
            self._output.put(self._panel)
