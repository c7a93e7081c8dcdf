"""The schedule of a hook: which operation may start, and what its result means for others.

A state machine without a clock or threads:

```
PENDING ─► READY ─► RUNNING ─► SETTLED       PENDING ─► SETTLED: a dependency failed (R61), or the run was aborted (G27)
             ▲         ▼
             └────── PARKED                  before another attempt, or until the user decides: it holds no slot
```
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import ContentError, PlanError
from tract_jupyter.models import brief_repr
from tract_jupyter.runs.model import OperationResult, ResultError, Skip
from tract_jupyter.runs.terms import (
    MAX_DEBUG,
    MAX_SNAPSHOT,
    Blocked,
    ErrorCode,
    OperationStatus,
    PlanErrorCode,
    SkippedReason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.runs.plan import PhasePlan


def ready_order(nodes: Iterable[tuple[str, float, Sequence[str]]]) -> tuple[list[str], list[str]]:
    """Order ids by dependencies, then by (order, id) (R60, G9). Ids are compared by code point (G8).

    An id with a smaller order comes first as soon as its dependencies are placed.

    Args:
        nodes: id, order, and the ids of the dependencies; dependencies outside the nodes are ignored.

    Returns:
        The ordered ids, and the sorted ids that are part of a cycle or depend on one.
    """
    nodes_by_id: dict[str, tuple[float, Sequence[str]]] = {}
    for key, order, depends_on in nodes:
        nodes_by_id[key] = order, depends_on
    dependents: defaultdict[str, list[str]] = defaultdict(list)
    unmet: dict[str, int] = {}
    ready: list[tuple[float, str]] = []  # a heap
    for key, (order, depends_on) in nodes_by_id.items():
        inner = nodes_by_id.keys() & depends_on
        unmet[key] = len(inner)
        for dependency in inner:
            dependents[dependency].append(key)
        if not inner:
            heapq.heappush(ready, (order, key))
    ordered = []
    while ready:
        _, key = heapq.heappop(ready)
        ordered.append(key)
        for dependent in dependents[key]:
            unmet[dependent] -= 1
            if not unmet[dependent]:
                heapq.heappush(ready, (nodes_by_id[dependent][0], dependent))
    return ordered, sorted(nodes_by_id.keys() - ordered)


class _State(Enum):
    PENDING = auto()
    READY = auto()
    RUNNING = auto()
    PARKED = auto()
    SETTLED = auto()


@dataclass(frozen=True)
class Limits:
    """The limits of a run, in addition to its plan's concurrency.

    Attributes:
        per_provider: the number of operations with this `config.provider` that may run at once.
        timeout_ms: the time of all operations of a hook together; None for no limit.
        grace_ms: the time that an operation has to stop after the signal. Then the run continues without it.
            None to wait forever.
        log_characters: the size of each summary and of an operation's debug data, as JSON (R33).
        snapshot_characters: the size of each text that they quote; 0 for none.
    """

    per_provider: Mapping[str, int] = field(default_factory=dict)
    timeout_ms: float | None = None
    grace_ms: float | None = 30_000
    log_characters: int = MAX_DEBUG
    snapshot_characters: int = MAX_SNAPSHOT

    def __post_init__(self) -> None:
        for name in ("log_characters", "snapshot_characters"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise ContentError(
                    f"{name} must be a whole number of 0 or more, not {brief_repr(getattr(self, name))}."
                )
        bad = sorted(name for name, most in self.per_provider.items() if most < 1)
        if bad:
            message = (
                f"The limit of provider {bad[0]!r} must be 1 or more, or its operations could never start."
            )
            raise PlanError(PlanErrorCode.INVALID_CONCURRENCY, message)


_ANY: Final = float("inf")


class Schedule:
    """The states and results of the operations of a plan.

    Args:
        plan: the operations.
        per_provider: the number of operations of each provider that may run at once.
        prior: the results that a resumed run has already. These operations do not run again.
        capacity: the number of operations that the workers can run at once; None for any number.
    """

    def __init__(
        self,
        plan: PhasePlan,
        per_provider: Mapping[str, int] | None = None,
        prior: Mapping[str, OperationResult] | None = None,
        capacity: int | None = None,
    ) -> None:
        self._plan = plan
        self._limits = dict(per_provider or {})
        self._prior = {key: result for key, result in prior.items() if key in plan.by_id} if prior else {}
        self._most = min(plan.concurrency or _ANY, capacity or _ANY)
        self._state = dict.fromkeys(plan.by_id, _State.PENDING)
        self._unmet: dict[str, int] = {}
        self._dependents: defaultdict[str, list[str]] = defaultdict(list)
        # a lane for each limited provider, and one for all others
        self._lane: dict[str, str | None] = dict.fromkeys(plan.by_id)
        if self._limits:
            for key, operation in plan.by_id.items():
                self._lane[key] = (
                    operation.config.provider if operation.config.provider in self._limits else None
                )
        # a heap for each lane, by (order, id) (G8)
        self._ready: defaultdict[str | None, list[tuple[float, str]]] = defaultdict(list)
        self._running: Counter[str | None] = Counter()
        self._to_follow: deque[str] = deque()
        # results that `take_settled` has not returned yet
        self.fresh: list[OperationResult] = []
        # blocked operations with dependencies that have not ended: their list of blockers is not final
        self.untold: set[str] = set()
        self._started: dict[str, None] = {}
        self.results: dict[str, OperationResult] = {}

    # --- opening

    def open(self, *, aborted: bool = False) -> None:
        """Settle the operations with a known result, and make ready those without dependencies.

        An aborted run starts nothing. Then the abort is the reason, even if a dependency is missing.
        """
        for key, result in self._prior.items():
            is_waiting = result.status is OperationStatus.WAITING
            self._state[key] = _State.PARKED if is_waiting else _State.SETTLED
            self.results[key] = result
        for key, skip in self._plan.skips.items():
            if key not in self._prior:
                self._place(key, self._skipped(key, skip))
        if aborted:
            self.abort()
            return
        # all of them before `_follow`: `missing` wins over `not_done`
        pending = [key for key, state in self._state.items() if state is _State.PENDING]
        for key in pending:
            missing = self._missing(key) if self._plan.by_id[key].config.depends_on else None
            if missing is not None:
                self._place(key, self._blocked_result(key, missing))
        self._connect(pending)
        self._follow()

    def _missing(self, key: str) -> Skip | None:
        """Return the skip for dependencies that are unknown, of another hook, or settled by the plan (G5)."""
        missing = [
            dependency
            for dependency in self._depends_on(key)
            if dependency not in self._state or self._is_skipped(dependency)
        ]
        if not missing:
            return None
        skips = [self._plan.skips.get(dependency) for dependency in missing]
        not_due = all(skip and skip.reason == SkippedReason.ACTIVATION_NOT_REACHED for skip in skips)
        return Skip(
            reason=SkippedReason.DEPENDENCY_FAILED,
            dep=Blocked.NOT_DONE if not_due else Blocked.MISSING,
            blocked_by=tuple(sorted(missing)),
            blocked_by_reason=SkippedReason.ACTIVATION_NOT_REACHED if not_due else None,
        )

    def _is_skipped(self, key: str) -> bool:
        return key in self._plan.skips and key not in self._prior

    def _connect(self, keys: Iterable[str]) -> None:
        """Count the pending dependencies of each id, and follow the results that exist already."""
        for key in keys:
            if self._state[key] is not _State.PENDING:
                continue
            depends_on = self._plan.by_id[key].config.depends_on
            self._unmet[key] = len(depends_on)
            for dependency in depends_on:
                self._dependents[dependency].append(key)
            if not depends_on:
                self._make_ready(key)
        for key in self._prior:
            if self._state[key] is _State.SETTLED:
                self._to_follow.append(key)

    def _depends_on(self, key: str) -> tuple[str, ...]:
        return self._plan.by_id[key].config.depends_on

    # --- starting

    def start(self) -> str | None:
        """Take the id of the next operation: the smallest (order, id) with a free slot (G10)."""
        if self._most != _ANY and self._running.total() >= self._most:
            return None
        best: list[tuple[float, str]] | None = None
        for lane, queue in self._ready.items():
            is_free = lane is None or self._running[lane] < self._limits[lane]
            if queue and is_free and (best is None or queue < best):
                best = queue  # lists compare by their first item, which is the smallest one
        if best is None:
            return None
        _, key = heapq.heappop(best)
        self._state[key] = _State.RUNNING
        self._running[self._lane[key]] += 1
        return key

    def began(self, key: str) -> None:
        """Record that a worker has the operation."""
        self._started.setdefault(key)

    def _make_ready(self, key: str) -> None:
        self._state[key] = _State.READY
        heapq.heappush(self._ready[self._lane[key]], (self._plan.by_id[key].config.order, key))

    # --- transitions

    def park(self, key: str, result: OperationResult | None = None) -> None:
        """Free the slot of a running operation that waits for another attempt or, with a result, for the user."""
        self._leave(key)
        self._state[key] = _State.PARKED
        if result is not None:
            self.results[key] = result
            self.fresh.append(result)

    def resume(self, key: str) -> None:
        """Put a parked operation back into the queue, unless it is settled."""
        if self._state[key] is _State.PARKED:
            self._make_ready(key)

    def settle(self, key: str, result: OperationResult) -> None:
        """Store the final result of an operation, and settle or start its dependents (R61, G12)."""
        self._leave(key)
        self._place(key, result)
        self._follow()

    def skip(self, key: str, skip: Skip) -> None:
        """Settle a started operation that had no reason to run (R36)."""
        self.settle(key, self._skipped(key, skip))

    def abort(self, *, is_late: bool = False) -> None:
        """Start nothing more. Operations that never ran are skipped (G27), and paused ones are aborted.

        Args:
            is_late: True if a deadline has passed. Then a paused operation ends with the error `timeout` (E14).
        """
        for key, state in self._state.items():
            if state in (_State.PENDING, _State.READY, _State.PARKED):
                ran = key in self._started or state is _State.PARKED
                skip = Skip.because(SkippedReason.RUN_ABORTED)
                self._place(key, self._stopped(key, is_late=is_late) if ran else self._skipped(key, skip))
        self._ready.clear()
        self._to_follow.clear()

    def take_settled(self) -> list[OperationResult]:
        """Return the results since the last call, in the order in which they came.

        A blocked operation is settled when its first dependency fails (G12). Its result is returned when all its
        dependencies have ended, so its list of blockers does not depend on their speed.
        """
        if not self.untold:
            settled, self.fresh = self.fresh, []
            return settled
        settled = [one for one in self.fresh if one.operation_id not in self.untold]
        blocked = deque(one.operation_id for one in self.fresh if one.operation_id in self.untold)
        waiting = 0  # in a row
        while waiting < len(blocked):
            key = blocked.popleft()
            if all(map(self._has_ended, self._depends_on(key))):
                self.untold.discard(key)
                self.results[key] = self._blocked_result(key, self._not_done(key))
                settled.append(self.results[key])
                waiting = 0  # one before it may depend on it
            else:
                blocked.append(key)
                waiting += 1
        self.fresh = [self.results[key] for key in blocked]
        return settled

    def _has_ended(self, key: str) -> bool:
        result = self.results.get(key)
        return result is not None and result.status.is_terminal and key not in self.untold

    def _leave(self, key: str) -> None:
        if self._state[key] is _State.RUNNING:
            self._running[self._lane[key]] -= 1

    def _place(self, key: str, result: OperationResult) -> None:
        self._state[key] = _State.SETTLED
        self.results[key] = result
        self.fresh.append(result)
        self._to_follow.append(key)

    def _follow(self) -> None:
        while self._to_follow:
            key = self._to_follow.popleft()
            is_done = self.results[key].is_done
            for dependent in self._dependents.get(key, ()):
                if self._state[dependent] is not _State.PENDING:
                    continue
                if not is_done:
                    self.untold.add(dependent)
                    self._place(dependent, self._blocked_result(dependent, self._not_done(dependent)))
                    continue
                self._unmet[dependent] -= 1
                if not self._unmet[dependent]:
                    self._make_ready(dependent)

    # --- results of operations that did not run

    def _not_done(self, key: str) -> Skip:
        """Return the skip that names the dependencies that ended without `done`."""
        results = [(one, self.results[one]) for one in self._depends_on(key) if self._has_ended(one)]
        blockers = [(one, result) for one, result in results if not result.is_done]
        reasons = {result.skip.reason if result.skip else None for _, result in blockers}
        return Skip(
            reason=SkippedReason.DEPENDENCY_FAILED,
            dep=Blocked.NOT_DONE,
            blocked_by=tuple(sorted(one for one, _ in blockers)),
            blocked_by_reason=reasons.pop() if len(reasons) == 1 else None,
        )

    def _blocked_result(self, key: str, skip: Skip) -> OperationResult:
        """R61: skip an optional operation, fail a required one."""
        if not self._plan.by_id[key].config.required:
            return self._skipped(key, skip)
        names = ", ".join(skip.blocked_by)
        problem = "not part of this run" if skip.dep is Blocked.MISSING else "not done"
        error = ResultError(
            code=ErrorCode.DEPENDENCY_FAILED,
            message=f"It could not start because a dependency is {problem}: {names}"[:2_000],
            details=skip.to_dict(),
        )
        return OperationResult(operation_id=key, status=OperationStatus.ERROR, required=True, error=error)

    def _skipped(self, key: str, skip: Skip) -> OperationResult:
        required = self._plan.by_id[key].config.required
        return OperationResult(operation_id=key, status=OperationStatus.SKIPPED, required=required, skip=skip)

    def _stopped(self, key: str, *, is_late: bool) -> OperationResult:
        required = self._plan.by_id[key].config.required
        if not is_late:
            return OperationResult(operation_id=key, status=OperationStatus.ABORTED, required=required)
        error = ResultError(
            code=ErrorCode.TIMEOUT, message="The run's deadline passed before the next attempt."
        )
        return OperationResult(operation_id=key, status=OperationStatus.ERROR, required=required, error=error)
