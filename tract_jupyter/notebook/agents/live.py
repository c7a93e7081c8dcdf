"""The tree of agents on display: a live widget while agents work, and a static page for the saved notebook."""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from typing import TYPE_CHECKING, Final

from IPython.display import display, update_display

from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.agents.tree import GO_ON, SHOW, drawn_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.agents.tree import DrawnTree
    from tract_jupyter.notebook.agents.watch import AgentWatch
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.chat.widget import LiveTurn

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
