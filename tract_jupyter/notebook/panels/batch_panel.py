"""The live panel of several requests: one anywidget, which hands each answer to the ticket of its row."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import traitlets

from tract_jupyter.notebook.panels.render import asset, static_css
from tract_jupyter.notebook.panels.widget import CHANNEL_NAME, ReviewWidget, read_seen
from tract_jupyter.review.decision import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.panels.batch import Batch, Row

_ACTIONS = frozenset({"approve", "reject"})
_REMEMBERED = 256  # messages; one is sent again for some seconds only


class BatchPanel(ReviewWidget):
    """Shows a page of the inbox.

    Synced state: `view` is what is drawn, `bodies` the full request of each row; by `board_id` a page knows again what
    was selected and unfolded, when it draws the panel anew.

    Args:
        batch: what it shows.
        turn: brings another page, soon and elsewhere; called in any thread.
    """

    _esm = asset("common.js") + asset("batch.js")
    _css = static_css() + asset("panel.css") + asset("batch.css")
    view = traitlets.Dict().tag(sync=True)
    bodies = traitlets.Dict().tag(sync=True)
    board_id = traitlets.Unicode("").tag(sync=True)

    def __init__(self, batch: Batch, turn: Callable[[int], None]) -> None:
        self._batch = batch
        self._turn = turn
        self._taken: deque[str] = deque(maxlen=_REMEMBERED)
        self._lock = threading.RLock()
        super().__init__(view=batch.view(), bodies=batch.bodies(), board_id=secrets.token_hex(8))

    def refresh(self) -> None:
        """Draw the batch as it is now. Called in any thread: an older state must not take a newer one's place."""
        with self._lock:
            self.bodies = self._batch.bodies()
            self.view = self._batch.view()

    def take(self, content: dict[str, Any]) -> None:
        """Hand the answer to the tickets of the rows that were selected, or turn the page."""
        key = content.get("key")
        if not isinstance(key, str) or not self._is_new(key):
            return
        self.heard = key
        if content.get("page") in {-1, 1}:
            self._turn(content["page"])
        elif content.get("action") in _ACTIONS and isinstance(content.get("rounds"), dict):
            self._decide(content)

    def fallback(self) -> dict[str, str]:
        """A table of what was decided and what was not."""
        return {"text/plain": self._batch.record_text(), "text/html": self._batch.record_html()}

    def _is_new(self, key: str) -> bool:
        with self._lock:
            if key in self._taken:
                return False
            self._taken.append(key)
            return True

    def _decide(self, content: dict[str, Any]) -> None:
        reason = content.get("reason")
        arguments = {"reason": reason} if content["action"] == "reject" and isinstance(reason, str) else {}
        opened, seen = content.get("opened") or [], read_seen(content)
        for pending_id, round_id in content["rounds"].items():
            row = self._batch.row(pending_id)
            if row is not None:
                answer = Answer(content["action"], arguments, str(round_id), seen)
                row.refuse(_answer(row, answer, is_opened=pending_id in opened))
        self.refresh()


def _answer(row: Row, answer: Answer, *, is_opened: bool) -> str:
    """Hand an answer to the row's ticket; returns why it was not taken."""
    if row.must_be_opened and not is_opened:
        return "Not taken: open it first, this is code that nobody has read yet."
    if row.ticket.submit(answer, CHANNEL_NAME):
        return ""
    if row.ticket.is_asking(answer.round_id) and row.ticket.not_seen(answer):
        return row.ticket.not_seen(answer)
    return "Not taken: somebody else decided first, or it has changed since it was shown."
