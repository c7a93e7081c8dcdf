"""The events of a tract's agents, for the tree and for the rows of a turn that calls agents."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.agents import CallState
from tract_jupyter.loop import TurnBegan
from tract_jupyter.notebook.chat.source import agent_log, agent_turn, new_agent_log
from tract_jupyter.notebook.chat.work import AgentWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.agents import AgentCall
    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.notebook.chat.board import TurnBoard
    from tract_jupyter.notebook.chat.log import TurnLog
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
    """A call of an agent in this process.

    Args:
        call: the call.
        log: its events so far.
    """

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

    Args:
        tract: the top tract.

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

        Args:
            board: the display of the turn.
            call: agent and number, if the turn itself is a call of an agent.
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
