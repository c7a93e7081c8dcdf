"""What has happened in a run so far: its events, sorted by what they tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import UnknownRunError
from tract_jupyter.runs.events import (
    CommitFinished,
    MainFinished,
    MainStarted,
    OperationFinished,
    OperationStarted,
    OperationWaiting,
    PhaseChanged,
    RunFinished,
    RunResumed,
    RunStarted,
    in_order,
)
from tract_jupyter.runs.terms import Hook, RunPhase

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from tract_jupyter.runs.events import RunEvent

Key = tuple[Hook, str]
"""An operation at one hook; it may run at both."""


@dataclass(slots=True)
class History:
    """The events of one run. Nothing is None that the events tell.

    Attributes:
        started_at, finished_at: the times of the first event and of the end.
        running: operations that have begun and not ended, and since when.
        waiting: the pendings that operations wait for, of this process or of one before.
        parked: those of this process: if nothing else runs, the run waits.
        ended: how operations ended, in this order.
    """

    run_id: str
    started_at: datetime
    snapshot: RunStarted
    phase: RunPhase | None = None
    running: dict[Key, OperationStarted] = field(default_factory=dict)
    waiting: dict[Key, OperationWaiting] = field(default_factory=dict)
    parked: set[Key] = field(default_factory=set)
    ended: dict[Key, OperationFinished] = field(default_factory=dict)
    commits: dict[Hook, CommitFinished] = field(default_factory=dict)
    main_started: MainStarted | None = None
    main: MainFinished | None = None
    end: RunFinished | None = None
    finished_at: datetime | None = None

    @classmethod
    def of(cls, events: Iterable[RunEvent]) -> History:
        """Read events, in any order, each once or more often. The log may end anywhere, as after a crash.

        Raises:
            UnknownRunError: its beginning is missing.
        """
        ordered = in_order(events)
        if not ordered or not isinstance(ordered[0].data, RunStarted):
            raise UnknownRunError("the beginning of the run is missing, so nothing can be told about it")
        first, snapshot = ordered[0], ordered[0].data
        history = cls(first.run_id, first.at, snapshot)
        for event in ordered[1:]:
            history._take(event.data)
        if history.end is not None:
            history.finished_at = ordered[-1].at
        return history

    def rewrites(self, hook: Hook, target: str) -> list[dict[str, Any]]:
        """How a commit rewrote the `user`'s message, or the `reply`."""
        commit = self.commits.get(hook)
        made = [] if commit is None else commit.report.get("rewrites", [])
        return [rewrite for rewrite in made if rewrite.get("target") == target]

    @property
    def reply(self) -> str | None:
        """The reply as it stands at the end: rewritten, or as the main call gave it."""
        rewritten = [rewrite.get("after") for rewrite in self.rewrites(Hook.AFTER, "reply")]
        if rewritten or self.main is None:
            return rewritten[-1] if rewritten else None
        given = self.main.reply
        return given.text if given.text or given.error is None else None

    @property
    def user_commit(self) -> str | None:
        """The commit of the user's message, as it stands at the end."""
        parts = [rewrite.get("part") for hook in Hook for rewrite in self.rewrites(hook, "user")]
        return parts[-1] if parts else self.snapshot.user_commit

    @property
    def reply_commit(self) -> str | None:
        """The commit of the reply, as it stands at the end."""
        parts = [rewrite.get("part") for rewrite in self.rewrites(Hook.AFTER, "reply")]
        return parts[-1] if parts else None if self.main is None else self.main.reply_commit

    @singledispatchmethod
    def _take(self, data: object) -> None:
        """Attempts and progress tell nothing that lasts."""

    @_take.register
    def _(self, data: PhaseChanged) -> None:
        self.phase = data.phase

    @_take.register
    def _(self, data: OperationStarted) -> None:
        key = (data.hook, data.operation_id)
        self.running[key] = data
        self.parked.discard(key)

    @_take.register
    def _(self, data: OperationWaiting) -> None:
        key = (data.hook, data.operation_id)
        self.running.pop(key, None)
        self.waiting[key] = data
        self.parked.add(key)

    @_take.register
    def _(self, data: OperationFinished) -> None:
        key = (data.hook, data.operation_id)
        self.running.pop(key, None)
        self.waiting.pop(key, None)
        self.parked.discard(key)
        self.ended[key] = data

    @_take.register
    def _(self, data: CommitFinished) -> None:
        self.commits[data.hook] = data

    @_take.register
    def _(self, data: MainStarted) -> None:
        self.main_started = data

    @_take.register
    def _(self, data: MainFinished) -> None:
        self.main = data

    @_take.register
    def _(self, _: RunResumed) -> None:
        self.running.clear()  # they ended with their process
        self.parked.clear()

    @_take.register
    def _(self, data: RunFinished) -> None:
        self.end, self.phase = data, RunPhase.FINISHED
