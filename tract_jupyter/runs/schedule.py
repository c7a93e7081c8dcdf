"""Which operation may start, and what follows from how one ends: a state machine without clock or threads.

```
PENDING ─► READY ─► RUNNING ─► SETTLED       PENDING ─► SETTLED: a dependency failed (R61), or the run was aborted (G27)
             ▲         ▼
             └────── PARKED                  before another attempt, or until a person has decided: holds no slot
```
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import ContentError, PlanError
from tract_jupyter.models.text import brief_repr
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

    from tract_jupyter.runs.model import Operation
    from tract_jupyter.runs.plan import PhasePlan


class ReadyQueue:
    """Hands out ids, the smallest `order` first, then by code point, however late they came in (G8, R60)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, order: float, key: str) -> None:
        """Add an id that is ready."""
        heapq.heappush(self._heap, (order, key))

    @property
    def first(self) -> tuple[float, str]:
        """`(order, id)` of the one that `pop` would give; there must be one."""
        return self._heap[0]

    def pop(self) -> str:
        """Take the first id out; there must be one."""
        return heapq.heappop(self._heap)[1]


def ready_order(nodes: Iterable[tuple[str, float, Sequence[str]]]) -> tuple[list[str], list[str]]:
    """Order ids so that each comes after its dependencies, and by (order, id) among those that are ready (R60, G9).

    Args:
        nodes: id, order, and the ids that it depends on; ids that are not among the nodes do not count.

    Returns:
        The ids in order, and those that never become ready, sorted: they are on a circle or depend on one.
    """
    known = {key: (order, depends_on) for key, order, depends_on in nodes}
    dependents: defaultdict[str, list[str]] = defaultdict(list)
    unmet: dict[str, int] = {}
    ready = ReadyQueue()
    for key, (order, depends_on) in known.items():
        inner = {one for one in depends_on if one in known}
        unmet[key] = len(inner)
        for one in inner:
            dependents[one].append(key)
        if not inner:
            ready.push(order, key)
    ordered = []
    while ready:
        key = ready.pop()
        ordered.append(key)
        for dependent in dependents[key]:
            unmet[dependent] -= 1
            if not unmet[dependent]:
                ready.push(known[dependent][0], dependent)
    return ordered, sorted(key for key, count in unmet.items() if count)


class OperationState(Enum):
    """Where an operation stands."""

    PENDING = auto()
    READY = auto()
    RUNNING = auto()
    PARKED = auto()
    SETTLED = auto()


@dataclass(frozen=True)
class Limits:
    """What holds besides the plan's concurrency.

    Attributes:
        per_provider: how many operations with this `config.provider` may run at once.
        timeout_ms: of all operations of the hook together; None for no end.
        grace_ms: how long an operation may go on after it was told to stop, before the run goes on without it;
            thirty seconds if left out, None to wait for it.
        log_characters: of each summary, and of what an operation leaves for debugging, as JSON (R33).
        snapshot_characters: of each text that is quoted in them; 0 for none.
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
                    f"{name} is a whole number from 0 on, not {brief_repr(getattr(self, name))}"
                )
        bad = sorted(name for name, most in self.per_provider.items() if most < 1)
        if bad:
            message = f"The limit of provider {bad[0]!r} is below one, so its operations could never start."
            raise PlanError(PlanErrorCode.INVALID_CONCURRENCY, message)


class Schedule:
    """The operations of a plan on their way to their results.

    Args:
        plan: what is to run.
        per_provider: the most of each provider that run at once.
        prior: results that are there already, of a run that goes on: they are not run again.
        capacity: how many can run at once where they run; None for any number.
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
        self._prior = {key: result for key, result in (prior or {}).items() if key in plan.by_id}
        limits = [limit for limit in (plan.concurrency, capacity) if limit is not None]
        self._most = min(limits, default=float("inf"))
        self._state = dict.fromkeys(plan.by_id, OperationState.PENDING)
        self._unmet: dict[str, int] = {}
        self._dependents: defaultdict[str, list[str]] = defaultdict(list)
        # one queue for each limited provider, and one for all the others
        self._ready: defaultdict[str | None, ReadyQueue] = defaultdict(ReadyQueue)
        self._running: Counter[str | None] = Counter()
        self._to_follow: deque[str] = deque()
        self._fresh: list[OperationResult] = []
        self._blocked: set[str] = set()  # by dependencies that ended; which ones is told once all have
        self._started: dict[str, None] = {}
        self.results: dict[str, OperationResult] = {}

    # --- how it begins

    def open(self, *, aborted: bool = False) -> None:
        """Settle what is clear from the beginning, and make ready what waits for nothing.

        A run that is aborted already starts nothing; then that is the reason, also where a dependency is missing.
        """
        for key, result in self._prior.items():
            is_waiting = result.status is OperationStatus.WAITING
            self._state[key] = OperationState.PARKED if is_waiting else OperationState.SETTLED
            self.results[key] = result
        for key, skip in self._plan.skips.items():
            if key not in self._prior:
                self._place(key, self._skipped(key, skip))
        if aborted:
            self.abort()
            return
        # all of them before what follows: `missing` wins over `not_done`
        for key in self._pending():
            missing = self._missing(key)
            if missing is not None:
                self._place(key, self._blocked_result(key, missing))
        self._connect()
        self._follow()

    def _missing(self, key: str) -> Skip | None:
        """Dependencies that are no part of what runs: unknown, of another hook, or settled by the plan (G5)."""
        gone = [one for one in self._depends_on(key) if one not in self._state or self._is_skipped(one)]
        if not gone:
            return None
        skips = [self._plan.skips.get(one) for one in gone]
        not_due = all(skip and skip.reason == SkippedReason.ACTIVATION_NOT_REACHED for skip in skips)
        return Skip(
            reason=SkippedReason.DEPENDENCY_FAILED,
            dep=Blocked.NOT_DONE if not_due else Blocked.MISSING,
            blocked_by=tuple(sorted(gone)),
            blocked_by_reason=SkippedReason.ACTIVATION_NOT_REACHED if not_due else None,
        )

    def _is_skipped(self, key: str) -> bool:
        return key in self._plan.skips and key not in self._prior

    def _connect(self) -> None:
        """Count what each pending operation waits for, and follow the results that are there."""
        for key in self._pending():
            depends_on = self._depends_on(key)
            self._unmet[key] = len(depends_on)
            for one in depends_on:
                self._dependents[one].append(key)
            if not depends_on:
                self._make_ready(key)
        self._to_follow.extend(key for key in self._prior if self._state[key] is OperationState.SETTLED)

    def _pending(self) -> list[str]:
        return [key for key, state in self._state.items() if state is OperationState.PENDING]

    def _depends_on(self, key: str) -> tuple[str, ...]:
        return self._plan.by_id[key].config.depends_on

    # --- what may start

    def start(self) -> Operation | None:
        """Take the next operation that may run now: the smallest (order, id) of those with a free slot (G10)."""
        if self._running.total() >= self._most:
            return None
        free = [
            queue
            for lane, queue in self._ready.items()
            if queue and (lane is None or self._running[lane] < self._limits[lane])
        ]
        if not free:
            return None
        key = min(free, key=lambda queue: queue.first).pop()
        self._state[key] = OperationState.RUNNING
        self._running[self._lane(key)] += 1
        return self._plan.by_id[key]

    def began(self, key: str) -> None:
        """Note that a worker has it; what is only skipped never comes so far."""
        self._started.setdefault(key)

    @property
    def start_order(self) -> tuple[str, ...]:
        """The ids that ran, in the order in which they did."""
        return tuple(self._started)

    def _lane(self, key: str) -> str | None:
        provider = self._plan.by_id[key].config.provider
        return provider if provider in self._limits else None

    def _make_ready(self, key: str) -> None:
        self._state[key] = OperationState.READY
        self._ready[self._lane(key)].push(self._plan.by_id[key].config.order, key)

    # --- how it goes on

    def park(self, key: str, result: OperationResult | None = None) -> None:
        """Free the slot of one that runs: another attempt follows, or with a `waiting` result, a person's decision."""
        self._leave(key)
        self._state[key] = OperationState.PARKED
        if result is not None:
            self.results[key] = result
            self._fresh.append(result)

    def resume(self, key: str) -> None:
        """Have a parked one stand in the queue again; nothing, if it is settled meanwhile."""
        if self._state[key] is OperationState.PARKED:
            self._make_ready(key)

    def settle(self, key: str, result: OperationResult) -> None:
        """End one that runs or is parked; what follows for its dependents is settled with it (R61, G12)."""
        self._leave(key)
        self._place(key, result)
        self._follow()

    def skip(self, key: str, skip: Skip) -> None:
        """End one that was started, but had no reason to run (R36)."""
        self.settle(key, self._skipped(key, skip))

    def abort(self, *, is_late: bool = False) -> None:
        """Start nothing more: what never ran is skipped (G27), what only paused is aborted.

        Args:
            is_late: a deadline is over; then what only paused is an error, `timeout` (E14).
        """
        for key, state in self._state.items():
            if state in (OperationState.PENDING, OperationState.READY, OperationState.PARKED):
                ran = key in self._started or state is OperationState.PARKED
                skip = Skip.because(SkippedReason.RUN_ABORTED)
                self._place(key, self._stopped(key, is_late=is_late) if ran else self._skipped(key, skip))
        self._ready.clear()
        self._to_follow.clear()

    def take_settled(self) -> list[OperationResult]:
        """Return the results since the last call, in the order in which they came.

        What is blocked is settled with the first dependency that fails (G12), and is told once all of them have ended:
        its blockers are those that are not done then, whatever was faster.
        """
        told = [one for one in self._fresh if one.operation_id not in self._blocked]
        left = deque(one.operation_id for one in self._fresh if one.operation_id in self._blocked)
        unknown = 0  # in a row
        while unknown < len(left):
            key = left.popleft()
            if all(map(self._has_ended, self._depends_on(key))):
                self._blocked.discard(key)
                self.results[key] = self._blocked_result(key, self._not_done(key))
                told.append(self.results[key])
                unknown = 0  # one before it may depend on it
            else:
                left.append(key)
                unknown += 1
        self._fresh = [self.results[key] for key in left]
        return told

    @property
    def untold(self) -> frozenset[str]:
        """What is blocked, and has dependencies that run or wait for a person."""
        return frozenset(self._blocked)

    def _has_ended(self, key: str) -> bool:
        result = self.results.get(key)
        return result is not None and result.status.is_terminal and key not in self._blocked

    def _leave(self, key: str) -> None:
        if self._state[key] is OperationState.RUNNING:
            self._running[self._lane(key)] -= 1

    def _place(self, key: str, result: OperationResult) -> None:
        self._state[key] = OperationState.SETTLED
        self.results[key] = result
        self._fresh.append(result)
        self._to_follow.append(key)

    def _follow(self) -> None:
        """Settle or make ready whatever depends on what was settled, and what depends on that."""
        while self._to_follow:
            key = self._to_follow.popleft()
            is_done = self.results[key].is_done
            for dependent in self._dependents.get(key, ()):
                if self._state[dependent] is not OperationState.PENDING:
                    continue
                if not is_done:
                    self._blocked.add(dependent)
                    self._place(dependent, self._blocked_result(dependent, self._not_done(dependent)))
                    continue
                self._unmet[dependent] -= 1
                if not self._unmet[dependent]:
                    self._make_ready(dependent)

    # --- results of those that did not run

    def _not_done(self, key: str) -> Skip:
        """Which dependencies have ended, and not as done."""
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
        """R61: skipped if it may be missing, an error if it is required."""
        if not self._plan.by_id[key].config.required:
            return self._skipped(key, skip)
        names = ", ".join(skip.blocked_by)
        found = "no part of what runs" if skip.dep is Blocked.MISSING else "not done"
        error = ResultError(
            code=ErrorCode.DEPENDENCY_FAILED,
            message=f"It could not start, since it depends on what is {found}: {names}"[:2_000],
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
            code=ErrorCode.TIMEOUT, message="The run's deadline came before its next attempt."
        )
        return OperationResult(operation_id=key, status=OperationStatus.ERROR, required=required, error=error)
