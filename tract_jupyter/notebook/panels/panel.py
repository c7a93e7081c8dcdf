"""The live panel: one anywidget for one ticket.

A panel is one comm, so an answer with all its inputs arrives as one message; a tree of widgets would send what was
typed and the click separately, and lose the race. Its callback may run in any thread: it hands the answer to the
ticket and touches nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from tract_jupyter.notebook.panels.forms import action_forms
from tract_jupyter.notebook.panels.outcome import decided_text
from tract_jupyter.notebook.panels.render import asset, body_html, record_html, static_css
from tract_jupyter.notebook.panels.text import record_text
from tract_jupyter.notebook.panels.widget import CHANNEL_NAME, ReviewWidget, read_arguments, read_seen
from tract_jupyter.review.decision import Answer

if TYPE_CHECKING:
    from tract_jupyter.review.ticket import Ticket

_UNREADABLE = "Nothing was decided: the values of this answer could not be read. Check them, and try again."


class Panel(ReviewWidget):
    """Shows a ticket and takes the answer.

    Synced state: `view` is everything that is drawn.
    """

    _esm = asset("common.js") + asset("forms.js") + asset("panel.js")
    _css = static_css() + asset("panel.css")
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._refused = 0
        super().__init__(view=_view(ticket))

    def refresh(self) -> None:
        """Draw the ticket as it is now."""
        self.view = _view(self._ticket)

    def take(self, content: dict[str, Any]) -> None:
        """Hand a click to the ticket; one that came too late is told who was faster."""
        action, round_id = content.get("action"), content.get("round_id")
        arguments = read_arguments(content.get("arguments"))
        if not isinstance(action, str) or not isinstance(round_id, str):
            return
        is_again, self.heard = self.heard == round_id, round_id
        answer = Answer(action, arguments or {}, round_id, read_seen(content))
        if arguments is None:
            self._refuse(_UNREADABLE)
        elif not self._ticket.submit(answer, CHANNEL_NAME):
            unseen = self._ticket.not_seen(answer) if self._ticket.is_asking(round_id) else ""
            if unseen:
                self._refuse(unseen)
            elif not is_again:
                self.view = {**_view(self._ticket), "late": _too_late(self._ticket)}

    def _refuse(self, why: str) -> None:
        """Say why nothing was decided; the same can be answered once more."""
        self._refused += 1  # or the second time would change nothing, and not be drawn
        self.view = {**_view(self._ticket), "late": why, "refused": self._refused}

    def fallback(self) -> dict[str, str]:
        """The record, for whatever cannot show a live view."""
        return {"text/plain": record_text(self._ticket), "text/html": record_html(self._ticket)}


def _too_late(ticket: Ticket) -> str:
    decision = ticket.last_decision
    if decision is None or ticket.status.is_open:
        return "This was not taken: it answers an earlier showing, or another answer came first."
    return f"Somebody else decided first: {decided_text(decision)}."


def _view(ticket: Ticket) -> dict[str, Any]:
    return {
        "pending_id": ticket.pending.pending_id,
        "round_id": ticket.round_id,
        "title": ticket.request.title,
        "status": ticket.status.value,
        "is_open": ticket.status.is_open,
        "body_html": body_html(ticket),
        "needed": len(ticket.needed) if ticket.status.is_open else 0,
        "keep_inputs": bool(ticket.request.note),
        "actions": action_forms(ticket),
        "late": "",
    }
