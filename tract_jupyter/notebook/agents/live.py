"""The events of a tract's agents, for the tree on display, the rows of a turn that calls agents, and a resumed call."""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from IPython.display import display, update_display

from tract_jupyter.agents import CallState
from tract_jupyter.exceptions import AgentError, TractError
from tract_jupyter.loop import TurnBegan
from tract_jupyter.models import TurnOutcome
from tract_jupyter.notebook.agents.tree import GO_ON, SHOW, drawn_tree
from tract_jupyter.notebook.chat.board import TurnBoard, check_ended, display_for, ended, gathering
from tract_jupyter.notebook.chat.source import agent_log, agent_turn, new_agent_log
from tract_jupyter.notebook.chat.work import AgentWork
from tract_jupyter.notebook.output import start_timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.agents import AgentCall
    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.notebook.agents.tree import DrawnTree
    from tract_jupyter.notebook.chat.log import TurnLog
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.chat.widget import LiveTurn
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.tract import Tract


_KEPT: Final = 200
"""The number of finished calls that stay in memory."""


class _Place(NamedTuple):
    """The display of a turn that calls agents. `call` is set if the turn itself is a call of an agent."""

    board: TurnBoard
    call: tuple[str, int] | None


_place: ContextVar[_Place | None] = ContextVar("_place", default=None)
"""The place of the turn of this thread or task."""


class LiveWork:
    """A call of an agent in this process."""

    def __init__(self, call: AgentCall, log: TurnLog) -> None:
        self.call = call
        self.log = log
        self._seen: tuple[object, ...] = ()
        self._now: AgentWork | None = None
        self._events = 0

    @property
    def actor(self) -> str:
        """The actor of its tool calls."""
        return self.call.actor

    def take(self, event: TurnEvent) -> None:
        """Add an event."""
        self.log.add(event)
        self._events += 1

    def now(self) -> AgentWork:
        """Return the current state. The object changes only with the state."""
        turn = self.log.view()
        below = tuple(work for part in turn.parts for work in getattr(part, "work", ()))
        seen = (self._events, self.call.state, self.call.ended, *map(id, below))
        if self._now is None or seen != self._seen:
            self._seen, self._now = seen, AgentWork.of(self.call, turn)
        return self._now


class AgentWatch:
    """Follows the agents of a tract.

    Attributes:
        on_change: functions that are called, in any thread, after each change.
    """

    def __init__(self, tract: Tract) -> None:
        self.tract = tract
        self.on_change: list[Callable[[], object]] = []
        self._works: dict[tuple[str, int], LiveWork] = {}
        self._stored: dict[tuple[str, int], AgentWork] = {}
        self._lock = threading.RLock()
        tract.agents.on_turn.append(self._take)
        tract.agents.on_change.append(self._changed)

    def close(self) -> None:
        """Stop following the agents."""
        agents = self.tract.agents
        with suppress(ValueError):  # it was closed before
            agents.on_turn.remove(self._take)
            agents.on_change.remove(self._changed)

    @contextmanager
    def shown_on(self, board: TurnBoard, call: tuple[str, int] | None = None) -> Iterator[None]:
        """Show the agents that a turn calls on its board, during a `with` block.

        `call` is set if the turn itself is a call of an agent.
        """
        before = _place.set(_Place(board, call))
        try:
            yield
        finally:
            _place.reset(before)

    def work(self, call: AgentCall) -> AgentWork:
        """Return the state of a call. A finished call of another process is read from the store."""
        key = (call.agent, call.number)
        with self._lock:
            live, stored = self._works.get(key), self._stored.get(key)
        if live is not None and live.call is call:
            return live.now()
        if stored is not None and stored.state == call.state.value:
            return stored
        work = AgentWork.of(call, agent_turn(self.tract, call))
        if call.state is not CallState.RUNNING:
            with self._lock:
                self._stored[key] = work
                self._forget()
        return work

    # ---

    def _take(self, call: AgentCall, event: TurnEvent) -> None:
        place = _place.get()
        if place is not None and place.call == (call.agent, call.number):
            with self._lock:
                key = (call.agent, call.number)
                if key not in self._works or self._works[key].call is not call:
                    self._works[key] = LiveWork(call, place.board.log)
            place.board.take(event)
            return
        with self._lock:
            work = self._works.get((call.agent, call.number))
            if work is None or (work.call is not call) or isinstance(event, TurnBegan):
                work = self._begin(call, event, place)
        work.take(event)
        if place is not None:
            place.board.stir()

    def _begin(self, call: AgentCall, event: TurnEvent, place: _Place | None) -> LiveWork:
        """Start to follow a call, in the row of its caller."""
        is_again = isinstance(event, TurnBegan) and event.is_resumed
        log = agent_log(self.tract, call, to_go_on=True) if is_again else None
        work = LiveWork(call, log or new_agent_log(self.tract, call))
        self._works[(call.agent, call.number)] = work
        self._stored.pop((call.agent, call.number), None)
        above = self._log_above(call, place)
        if above is not None:
            above.take_work(work, call.agent, call.input)
        self._forget()
        return work

    def _log_above(self, call: AgentCall, place: _Place | None) -> TurnLog | None:
        callers = [
            work
            for work in self._works.values()
            if work.call.chain == call.chain[:-1] and work.call.state is CallState.RUNNING
        ]
        if callers:
            return callers[-1].log
        return None if place is None else place.board.log

    def _forget(self) -> None:
        over = [key for key, work in self._works.items() if work.call.state is not CallState.RUNNING]
        for key in over[: max(len(self._works) - _KEPT, 0)]:
            del self._works[key]
        for key in list(self._stored)[: max(len(self._stored) - _KEPT, 0)]:
            del self._stored[key]

    def _changed(self) -> None:
        for look in list(self.on_change):
            look()


_LEAST_SECONDS: Final = 0.2
"""The shortest time between two updates."""
_SHARE: Final = 10
"""Updates take at most 1 / this number of the time."""


class LiveTree:
    """A tree in the output of a cell. It is updated until another tree is displayed.

    While agents work it is a widget. A static page then replaces it, and is saved with the notebook.
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
            self._timer = start_timer(max(_LEAST_SECONDS, _SHARE * self._cost), self._look)

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
            self._live = LiveTurn(
                self._act, lambda run, context: context.copy().run(run), (SHOW, GO_ON), self._display_id
            )
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


# --- a resumed call


async def resume(notebook: NotebookSession, call: AgentCall) -> None:
    """Resume a call, and show it."""
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
