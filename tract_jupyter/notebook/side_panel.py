"""The side panel of the pages: open requests, the running turn, follow-ups, and the state of the tract.

Its widgets exist only while a page shows the panel. Without such a page, the pages only receive the number of open
requests if it changes. All reading and drawing happens in one timer thread, because a request is reported under a lock.
"""

from __future__ import annotations

import contextvars
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import counted, one_line
from tract_jupyter.notebook.output import start_timer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.notebook.cells.pages import Page
    from tract_jupyter.notebook.chat.board import TurnBoard
    from tract_jupyter.notebook.panels.inbox import LiveInbox
    from tract_jupyter.notebook.panels.panel import ReviewWidget, StatePanel
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.review import Ticket
    from tract_jupyter.tract import Tract

_DELAY: Final = 0.05
_TURN_DELAY: Final = 0.25
"""Seconds between a change and its display."""
_COUNT_DELAY: Final = 1.0
"""Seconds between two counts of open requests."""
_MOST_FOLLOW_UPS: Final = 20
_LONGEST: Final = 20_000
_TITLE: Final = 200


class SidePanel:
    """The side panel of one kernel."""

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._pages: list[Page] = []
        """The pages that show the panel."""
        self._tickets: dict[str, Ticket] = {}
        """The open requests that this kernel has shown."""
        self._inbox: LiveInbox | None = None
        self._state: StatePanel | None = None
        self._count = 0
        self._running: tuple[str, TurnBoard] | None = None
        self._follow_ups: list[str] = []
        self._facts: tuple[object, str] = (None, "")
        self._timer: threading.Timer | None = None
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        """For the timer and the pages. It is never held during a call of another object."""
        self._drawing = threading.Lock()

    # --- messages of pages

    def connected(self, page: Page) -> None:
        """Send the number of open requests to a new page."""
        if self._count:
            page.send("waiting", count=self._count)
        self.stir()

    def show(self, page: Page, *, is_open: bool) -> None:
        """Show the panel on a page, or end it there."""
        with self._lock:
            self._pages = [one for one in self._pages if one is not page] + ([page] if is_open else [])
            self._context = contextvars.copy_context()
        if is_open and self._state is not None:
            self._publish(page)
        self.stir()

    def stop(self) -> None:
        """Stop the running turn."""
        tract = self._notebook.opened
        if tract is not None:
            tract.loop.stop()

    # --- changes

    def take(self, ticket: Ticket) -> None:
        """Note a new request, or a change of one."""
        pending_id = ticket.pending.pending_id
        if ticket.status.is_open:
            self._tickets[pending_id] = ticket
        else:
            self._tickets.pop(pending_id, None)
        self.stir()

    def cell_ended(self, _result: object = None) -> None:
        """Show the state after a cell that used the tract."""
        if self._notebook.waiting.is_used:
            self._facts = (None, "")
            self.stir()

    @contextmanager
    def showing(self, text: str, board: TurnBoard) -> Iterator[None]:
        """Show a turn while it runs."""
        self._running = one_line(text, _TITLE), board
        self.stir()
        try:
            yield
        finally:
            self._running = None
            self.stir()

    def turn_moved(self) -> None:
        """Show the running turn again, if a page shows the panel."""
        if self._pages:
            self.stir(_TURN_DELAY)

    @property
    def has_follow_up(self) -> bool:
        """True if the user has queued a message."""
        return bool(self._follow_ups)

    def take_follow_up(self) -> str:
        """Return the next message that the user queued, and remove it."""
        return self._follow_ups.pop(0)

    def act(self, action: str, content: dict[str, Any]) -> None:
        """Perform an action of the panel."""
        text, number = content.get("text"), content.get("number")
        if action == "stop":
            self.stop()
        elif action == "open":
            self._notebook.tract  # noqa: B018 # opens the store
        elif action == "queue" and isinstance(text, str) and text.strip():
            if len(self._follow_ups) < _MOST_FOLLOW_UPS and len(text) <= _LONGEST:
                self._follow_ups.append(text.strip())
        elif (
            action == "remove" and isinstance(number, int) and self._follow_ups[number : number + 1] == [text]
        ):
            del self._follow_ups[number]
        self.stir(0)

    def close(self) -> None:
        """Remove the widgets, and forget the requests."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._pages, self._timer = [], None
        self._tickets.clear()
        with self._drawing:
            self._close_widgets()

    # --- drawing

    def stir(self, delay: float = _DELAY) -> None:
        """Draw the panel soon. Changes until then are drawn together."""
        if self._state is None and not self._notebook.has_pages:
            return
        with self._lock:
            if self._timer is not None and self._timer.interval > delay:
                self._timer.cancel()
                self._timer = None
            if self._timer is None:
                context = self._context.copy()
                self._timer = start_timer(delay, context.run, self._refresh)

    def _refresh(self) -> None:
        with self._lock:
            self._timer = None
        with self._drawing, suppress(TractError):  # reported at the next use of the store
            self._tell_count()
            if self._pages:
                self._draw()
            else:
                self._close_widgets()
        if self._count:  # no message says that an approved action begins
            self.stir(_COUNT_DELAY)

    def _tell_count(self) -> None:
        tract = self._notebook.opened
        count = 0 if tract is None else tract.reviewer.ledger.count_waiting()
        if count != self._count:
            self._count = count
            self._notebook.cells.pages.everywhere("waiting", count=count)

    def _draw(self) -> None:
        from tract_jupyter.notebook.panels.inbox import LiveInbox
        from tract_jupyter.notebook.panels.panel import StatePanel

        tract, is_new = self._notebook.opened, self._state is None
        if self._state is None:
            self._state = StatePanel(self.act, self._view(tract))
        if self._inbox is None and tract is not None:
            self._inbox, is_new = LiveInbox(tract, self._tickets), True
        if is_new:
            for page in tuple(self._pages):
                self._publish(page)
        if self._inbox is not None:
            self._inbox.reread()
        self._state.view = self._view(tract)

    def _publish(self, page: Page) -> None:
        page.send("panel", models=[one.model_id for one in self._widgets()])

    def _close_widgets(self) -> None:
        for widget in self._widgets():
            widget.close()
        self._inbox = self._state = None

    def _widgets(self) -> list[ReviewWidget]:
        inbox = None if self._inbox is None else self._inbox.widget
        return [one for one in (inbox, self._state) if one is not None]

    def _view(self, tract: Tract | None) -> dict[str, Any]:
        running = self._running
        return {
            "has_store": tract is not None or self._notebook.has_store,
            "is_open": tract is not None,
            "running": None if running is None else running[0],
            "foot": "" if running is None else str(running[1].log.view().foot().html),
            "queue": list(self._follow_ups),
            "facts": "" if tract is None else self._facts_of(tract),
        }

    def _facts_of(self, tract: Tract) -> str:
        """Return the state of the tract. It is read again if the branch has moved, and after a cell."""
        from tract_jupyter.notebook.views.overview import TractView

        key = tract.head, tract.current_branch, tract.costs().requests, self._running is None
        if self._facts[0] != key:
            self._facts = key, str(TractView.of(tract).side_html(_agents(tract)))
        return self._facts[1]


def _agents(tract: Tract) -> str:
    agents = list(tract.agents)
    working = sum(call.state.value == "running" for agent in agents for call in agent.calls)
    if not agents:
        return ""
    return f"{counted(len(agents), 'agent')}, {working} working" if working else counted(len(agents), "agent")
