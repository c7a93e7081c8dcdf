"""The live panel: one anywidget for one ticket.

A panel is one comm, so an answer with all its inputs arrives as one message; a tree of widgets would send what was
typed and the click separately, and lose the race. Its callback may run in any thread: it hands the answer to the
ticket and touches nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from tract_jupyter.notebook.panels.forms import action_form
from tract_jupyter.notebook.panels.render import asset, body_html, record_html, record_text
from tract_jupyter.review.decision import Answer

if TYPE_CHECKING:
    from tract_jupyter.review.ticket import Ticket

CHANNEL_NAME = "panel"


class Panel(anywidget.AnyWidget):
    """Shows a ticket and takes the answer.

    Synced state: `view` is everything that is drawn; `ready` and `heard` acknowledge what the front end sent; `page`
    is the loading of the page that showed it first.
    """

    _esm = asset("panel.js")
    _css = asset("record.css") + asset("panel.css")
    view = traitlets.Dict().tag(sync=True)
    ready = traitlets.Bool(default_value=False).tag(sync=True)
    heard = traitlets.Unicode("").tag(sync=True)
    page = traitlets.Unicode("").tag(sync=True)

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        super().__init__(view=_view(ticket))
        self.on_msg(self._on_message)
        _honour_the_front_ends_subshell(self.comm)

    def refresh(self) -> None:
        """Draw the ticket as it is now."""
        self.view = _view(self._ticket)

    def _on_message(self, _panel: Any, content: Any, _buffers: Any) -> None:
        if not isinstance(content, dict):
            return
        if content.get("type") == "ready":
            self.page = self.page or str(content.get("page", ""))
            self.ready = True
        elif content.get("type") == "decide":
            self._take(content)

    def _take(self, content: dict[str, Any]) -> None:
        action, arguments, round_id = (content.get(key) for key in ("action", "arguments", "round_id"))
        if isinstance(action, str) and isinstance(arguments, dict) and isinstance(round_id, str):
            self.heard = round_id
            self._ticket.submit(Answer(action, arguments, round_id), CHANNEL_NAME)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The live view, with the record for whatever cannot show one."""
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        fallback = {"text/plain": record_text(self._ticket), "text/html": record_html(self._ticket)}
        return {**(data or {}), **fallback}, metadata


def _view(ticket: Ticket) -> dict[str, Any]:
    return {
        "pending_id": ticket.pending.pending_id,
        "round_id": ticket.round_id,
        "title": ticket.request.title,
        "status": ticket.status.value,
        "is_open": ticket.status.is_open,
        "body_html": body_html(ticket),
        "keep_inputs": bool(ticket.request.note),
        "actions": [action_form(action) for action in ticket.request.actions],
    }


def _honour_the_front_ends_subshell(comm: Any) -> None:
    """Let a click reach a kernel whose main thread is blocked.

    ipykernel 7.4 sends a comm's messages to the shell that last published on it, which is the blocked one; None makes
    it use the subshell that the front end asked for. The attribute is private: without it, the probe for `ready` fails
    and the prompt takes over.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = None  # noqa: SLF001 # see above
