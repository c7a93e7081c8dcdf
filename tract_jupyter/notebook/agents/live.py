"""The tree of agents on display, live and in the saved notebook, and a resumed call of an agent."""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from typing import TYPE_CHECKING, Final

from IPython.display import display, update_display

from tract_jupyter.agents import CallState
from tract_jupyter.exceptions import AgentError, TractError
from tract_jupyter.models import TurnOutcome
from tract_jupyter.notebook.agents.tree import GO_ON, SHOW, drawn_tree
from tract_jupyter.notebook.chat.board import TurnBoard, check_ended, display_for, ended, gathering
from tract_jupyter.notebook.chat.source import agent_log, new_agent_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.agents import AgentCall
    from tract_jupyter.notebook.agents.tree import DrawnTree
    from tract_jupyter.notebook.agents.watch import AgentWatch
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.chat.widget import LiveTurn
    from tract_jupyter.notebook.session import NotebookSession

_LEAST_SECONDS: Final = 0.2
"""The shortest time between two updates."""
_SHARE: Final = 10
"""Updates take at most 1 / this number of the time."""


class LiveTree:
    """A tree in the output of a cell. It is updated until another tree is displayed.

    While agents work it is a widget. A static page then replaces it, and is saved with the notebook.

    Args:
        watch: reports changes.
    """

    def __init__(self, watch: AgentWatch) -> None:
        self._watch = watch
        self._context = contextvars.copy_context()
        self._display_id = secrets.token_hex(16)
        self._live: LiveTurn | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self._is_left = False
        self._cost = 0.0

    def put_up(self) -> None:
        """Display the tree in the running cell."""
        view = self._view()
        with self._lock:
            if view.is_over:
                display(view, display_id=self._display_id)
            else:
                self._begin(view, is_new=True)
        self._watch.on_change.append(self._changed)

    def leave(self) -> None:
        """Stop the updates. The last state stays on display."""
        with self._lock:
            self._is_left = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if self._changed in self._watch.on_change:
            self._watch.on_change.remove(self._changed)
        self._draw()

    # ---

    def _changed(self) -> None:
        """Schedule an update. Called often, and in any thread."""
        with self._lock:
            if self._timer is not None or self._is_left:
                return
            self._timer = threading.Timer(max(_LEAST_SECONDS, _SHARE * self._cost), self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            if self._is_left:
                return
        self._draw()

    def _draw(self) -> None:
        began = time.monotonic()
        try:
            view = self._view()
        except TractError:  # the store is closed or locked: keep the last drawing
            return
        with self._lock:
            if view.is_over or self._is_left:
                self._end(view)
            elif self._live is None:
                self._begin(view, is_new=False)
            else:
                self._live.draw(view, at_once=True)
            self._cost = time.monotonic() - began

    def _begin(self, view: DrawnTree, *, is_new: bool) -> None:
        from tract_jupyter.notebook.chat.widget import LiveTurn

        def put() -> None:
            self._live = LiveTurn(self._act, _at_once, (SHOW, GO_ON), self._display_id)
            self._live.put_up(again=not is_new)
            self._live.draw(view, at_once=True)

        self._context.copy().run(put)

    def _end(self, view: DrawnTree) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.close(view)
        else:
            self._context.copy().run(update_display, view, display_id=self._display_id)

    def _view(self) -> DrawnTree:
        return drawn_tree(self._watch, f"agents-{self._display_id[:8]}")

    def _act(self, action: Action) -> None:
        """Carry out a click on a button, in its own thread, because the main thread may wait for an agent."""
        if action == "stop":
            self._watch.tract.agents.stop()


def _at_once(run: Callable[[], None], context: contextvars.Context) -> None:
    context.copy().run(run)


# --- a resumed call


async def resume(notebook: NotebookSession, call: AgentCall) -> None:
    """Resume a call, and show it.

    Raises:
        Exception: the call has no answer; its display shows the reason.
    """
    tract, name = notebook.tract, call.agent
    log = agent_log(tract, call, to_go_on=True) or new_agent_log(tract, call)
    notebook.lend_variables()

    def stop(action: Action = "stop") -> None:
        if action == "stop":
            tract.agents.stop(name)

    board = TurnBoard(log, display_for(notebook, stop, log))

    def work() -> str:
        try:
            with gathering(notebook, board), notebook.agent_watch.shown_on(board, (name, call.number)):
                return str(tract.agents.resume(name, call.number))
        except AgentError:
            if not board.is_up or not log.has_ended:
                raise
            return ""  # the display tells how it ended
        finally:
            if board.is_up:
                board.close()

    await ended(notebook, work, board, stop, "call")
    stored = [other for other in tract.agents.calls_of(name) if other.number == call.number]
    if stored and stored[-1].state is CallState.WAITING:
        check_ended(TurnOutcome.WAITING)
