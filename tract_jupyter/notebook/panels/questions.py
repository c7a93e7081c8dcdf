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
    Answers,
    ReviewWidget,
    is_answer,
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
    """

    _esm = "".join(map(asset, (*REQUEST_SCRIPTS, "panels/questions.js")))
    _css = "".join(map(asset, REQUEST_STYLES))
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._tickets = tuple(tickets)
        self._answers = Answers()
        self._lock = threading.RLock()
        super().__init__(view=self._view())

    def refresh(self) -> None:
        """Draw the current state. Called in any thread; the lock keeps an older state from replacing a newer one."""
        with self._lock:
            self.view = self._view()

    def take(self, content: dict[str, Any]) -> None:
        """Pass a click to its ticket. If it came too late, show who decided."""
        wanted = content.get("pending_id")
        ticket = next((one for one in self._tickets if one.pending.pending_id == wanted), None)
        if is_answer(content) and ticket is not None:
            self.heard = content["round_id"]
            if self._answers.take(ticket, content):
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
        rows = [self._answers.data(ticket, asked_by=False) for ticket in self._tickets]
        return {"title": self._title, "rows": rows}


class QuestionList:
    """One output for the requests of one step. The records replace it."""

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
