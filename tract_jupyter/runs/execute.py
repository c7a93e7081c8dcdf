"""The coordinator: starts what is ready, waits, and writes down how each operation ended.

All decisions are made here and in `Schedule`, on one thread; workers only run jobs. So a result counts once: when the
coordinator takes it. What comes from an operation that was given up before is not even looked at.
"""

from __future__ import annotations

import heapq
import logging
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.events import OperationEvent, Progress, Stage
from tract_jupyter.runs.model import OperationResult, OperationRun, ResultError, Skip
from tract_jupyter.runs.schedule import Limits, Schedule
from tract_jupyter.runs.terms import ErrorCode, OperationStatus, SkippedReason
from tract_jupyter.runs.workers import Abort, Job, Workers, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.runs.model import Operation, Retry
    from tract_jupyter.runs.plan import PhasePlan

    Begin = Callable[[Operation, Mapping[str, OperationResult]], Job | Skip | OperationResult]
    Notify = Callable[[OperationEvent], object]


class Timer:
    """One thing to do at a time, unless it is cancelled."""

    __slots__ = ("action", "at", "number")

    def __init__(self, at: float, number: int, action: Callable[[], None]) -> None:
        self.at = at
        self.number = number
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self) -> None:
        """Have it never happen."""
        self.action = None


class Timers:
    """The things to do, the earliest first; at the same time, in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._count = 0

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Have this done at a time."""
        self._count += 1
        timer = Timer(when, self._count, action)
        heapq.heappush(self._heap, timer)
        return timer

    def next(self) -> float | None:
        """When the earliest is due; None without any."""
        while self._heap and self._heap[0].action is None:
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else None

    def run_due(self, now: float) -> None:
        """Do all that is due by now."""
        while (when := self.next()) is not None and when <= now:
            action = heapq.heappop(self._heap).action
            if action is not None:
                action()


RETRIED: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.PROVIDER, ErrorCode.RATE_LIMITED})
"""Codes that are tried again where `retry_on` names none (E25)."""

MAX_BACKOFF_MS: Final = 120_000
"""The longest wait of our own, however much it grew."""

MAX_RETRY_AFTER_MS: Final = 3_600_000
"""Whoever asks for a longer wait is not asked again."""


def retry_delay(retry: Retry, attempt: int, result: OperationResult, seed: int) -> float | None:
    """Return the seconds to wait before another attempt, None if there is none.

    The wait grows by `multiplier` with each attempt, give or take the part `jitter`; that is drawn from a generator of
    its own, so that it is the same in each replay. `details["retryAfterMs"]` of the error is the least that is waited.

    Args:
        retry: how often, and for which errors.
        attempt: the number of the one that ended, from 1.
        result: how it ended.
        seed: of the run, as in the operation's context.
    """
    error = result.error
    if result.status is not OperationStatus.ERROR or error is None or attempt >= retry.max_attempts:
        return None
    if error.code not in (retry.retry_on or RETRIED):
        return None
    wait = min(retry.backoff_ms * retry.multiplier ** (attempt - 1), MAX_BACKOFF_MS)
    draw = random.Random(f"{seed}:{result.operation_id}:{attempt}").uniform(-1, 1)  # noqa: S311 # no secret
    wait += wait * retry.jitter * draw
    asked = error.details.get("retryAfterMs")
    if isinstance(asked, (int, float)) and not isinstance(asked, bool):
        if not asked <= MAX_RETRY_AFTER_MS:
            return None
        wait = max(wait, asked)
    return wait / 1_000


def record(
    plan: PhasePlan,
    operation: Operation,
    result: OperationResult,
    *,
    started_at: float | None,
    ended_at: float,
    attempts: int,
) -> OperationRun:
    """Write down how an operation ended; one that never ran has no start, and took no time (G29).

    Args:
        plan: whose hook and trigger it was.
        operation: the operation.
        result: how it ended, or that it waits.
        started_at: when its first attempt began, in seconds; None if it never did.
        ended_at: when its result counted.
        attempts: how many there were.
    """
    config, skip, error = operation.config, result.skip, result.error
    is_skipped = result.status is OperationStatus.SKIPPED
    return OperationRun(
        operation_id=operation.id,
        name=operation.definition.name,
        kind=operation.definition.kind,
        hook=plan.hook,
        trigger=plan.trigger,
        status=result.status,
        required=config.required,
        order=config.order,
        depends_on=config.depends_on,
        started_at=started_at,
        finished_at=ended_at if result.status.is_terminal else None,
        duration_ms=0 if started_at is None else round((ended_at - started_at) * 1_000, 3),
        attempts=attempts,
        skipped_reason=skip.reason if skip and is_skipped else None,
        skip=skip if is_skipped else None,
        error_code=error.code if error else None,
        error_message=error.message if error else None,
        inputs_summary=result.inputs_summary,
        outputs_summary=result.outputs_summary,
        debug=result.debug if config.debug.enabled else {},
    )


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Executed:
    """What came of a plan.

    Attributes:
        results: by operation, in (order, id) order; those that wait for a person are `waiting`, and what depends on
            them has none.
        runs: a record of each operation that has a result, in the same order (R56); not of prior ones.
        start_order: the ids that ran, in the order in which they were started.
        waiting: the ids that wait for a person.
    """

    results: dict[str, OperationResult]
    runs: tuple[OperationRun, ...]
    start_order: tuple[str, ...]
    waiting: tuple[str, ...]

    @property
    def result_order(self) -> tuple[str, ...]:
        """The ids as in `results`: the same however fast each one was (R58)."""
        return tuple(self.results)


def execute(
    plan: PhasePlan,
    begin: Begin,
    workers: Workers,
    *,
    abort: Abort | None = None,
    notify: Notify | None = None,
    prior: Mapping[str, OperationResult] | None = None,
    limits: Limits | None = None,
) -> Executed:
    """Run the operations of a plan, each one after all of its dependencies are done (R10, R25).

    Args:
        plan: what is to run.
        begin: makes the job of an operation from the results of its dependencies, in the order of `depends_on`. It may
            settle it at once instead: with a `Skip`, or with a result. What it raises is the operation's error.
        workers: where jobs run, and the clock.
        abort: the run's signal, with the run's deadline.
        notify: is told each event, on this thread; what it raises is logged and changes nothing.
        prior: results of a run that goes on. They stand, and are neither run nor told again.
        limits: per provider, of time, and how long those that were told to stop may go on.

    Returns:
        All results, at the latest when all that ran has ended or was given up.
    """
    return _Coordinator(plan, begin, workers, abort or Abort(), notify, prior or {}, limits or Limits()).run()


class _Attempt:
    """An operation that runs. It is the key of its job, so that a late result belongs to nobody else."""

    __slots__ = ("abort", "deadline", "forget", "is_late", "job", "number", "operation", "timers")

    def __init__(self, operation: Operation, job: Job, number: int) -> None:
        self.operation = operation
        self.job = job
        self.number = number
        self.abort = Abort()
        self.deadline: float | None = None
        self.is_late = False
        self.timers: list[Timer] = []
        self.forget: Callable[[], None] = lambda: None


class _Coordinator:
    def __init__(
        self,
        plan: PhasePlan,
        begin: Begin,
        workers: Workers,
        abort: Abort,
        notify: Notify | None,
        prior: Mapping[str, OperationResult],
        limits: Limits,
    ) -> None:
        self._plan = plan
        self._begin = begin
        self._workers = workers
        self._abort = abort
        self._notify = notify
        self._limits = limits
        self._schedule = Schedule(plan, limits.per_provider, prior, workers.capacity)
        self._timers = Timers()
        self._running: dict[_Attempt, None] = {}
        self._paused: dict[str, _Attempt] = {}
        self._attempts: dict[str, int] = {}
        self._started_at: dict[str, float] = {}
        self._settled_at: dict[str, float] = {}
        self._runs: dict[str, OperationRun] = {}
        self._is_stopped = False
        self._deadline: float | None = None

    def run(self) -> Executed:
        forget = self._abort.on_set(self._workers.wake)
        try:
            self._open()
            while True:
                self._look_at_signals()
                self._start_ready()
                if not self._running and not self._paused:
                    return self._executed()
                for attempt, what in self._workers.wait(self._timeout()):
                    if attempt in self._running:
                        self._take(attempt, what)
        finally:
            forget()
            # only if something was raised, such as an interrupt from the keyboard
            for attempt in self._running:
                attempt.abort.set()

    # --- the beginning and the end

    def _open(self) -> None:
        now, timeout = self._workers.now(), self._limits.timeout_ms
        own = None if timeout is None else now + timeout / 1_000
        self._deadline = _earliest(own, self._abort.deadline)
        self._is_stopped = self._abort.is_set() or (self._deadline is not None and self._deadline <= now)
        self._schedule.open(aborted=self._is_stopped)
        if self._deadline is not None and not self._is_stopped:
            self._timers.at(self._deadline, lambda: self._start_no_more(is_late=True))
        self._tell_settled()

    def _executed(self) -> Executed:
        found = self._schedule.results
        untold = (
            self._schedule.untold
        )  # it is settled anew when the run goes on, and all that it depends on has ended
        results = {
            operation.id: found[operation.id]
            for operation in self._plan.operations
            if operation.id in found and operation.id not in untold
        }
        runs = tuple(self._runs[key] for key in results if key in self._runs)
        waiting = tuple(key for key, result in results.items() if not result.status.is_terminal)
        return Executed(results, runs, self._schedule.start_order, waiting)

    # --- starting

    def _start_ready(self) -> None:
        while (operation := self._schedule.start()) is not None:
            paused = self._paused.pop(operation.id, None)
            found = paused.job if paused else self._begun(operation)
            if isinstance(found, Job):
                self._submit(operation, found)
            elif isinstance(found, Skip):
                self._schedule.skip(operation.id, found)
            else:
                self._end(operation, found)
            self._tell_settled()
            # `begin` and `notify` are somebody else's: they may take their time, or abort
            self._look_at_signals()

    def _begun(self, operation: Operation) -> Job | Skip | OperationResult:
        results = self._schedule.results
        try:
            found = self._begin(operation, {key: results[key] for key in operation.config.depends_on})
        except Exception as error:
            _logger.debug("operation %s could not be begun", operation.id, exc_info=True)
            found = failed(operation.id, f"{type(error).__name__}: {error}")
        return Skip.because(SkippedReason.RUN_ABORTED) if self._abort.is_set() else found

    def _submit(self, operation: Operation, job: Job) -> None:
        key, now = operation.id, self._workers.now()
        number = self._attempts[key] = self._attempts.get(key, 0) + 1
        attempt = _Attempt(operation, job, number)
        self._set_deadline(attempt, now)
        attempt.forget = self._abort.on_set(attempt.abort.set)
        self._running[attempt] = None
        self._schedule.began(key)
        if number == 1:
            self._started_at[key] = now
            self._tell(OperationEvent(Stage.STARTED, key, now, attempt=1))
        self._workers.submit(attempt, attempt.job, attempt.abort)

    def _set_deadline(self, attempt: _Attempt, now: float) -> None:
        timeout = attempt.operation.config.timeout_ms
        own = None if timeout is None else now + timeout / 1_000
        deadline = _earliest(own, self._deadline)
        if deadline is not None:
            context = attempt.job.context.model_copy(update={"deadline": deadline})
            attempt.job = replace(attempt.job, context=context)
            attempt.timers.append(self._timers.at(deadline, lambda: self._time_out(attempt)))

    # --- stopping

    def _timeout(self) -> float | None:
        due = self._timers.next()
        return None if due is None else max(0.0, due - self._workers.now())

    def _look_at_signals(self) -> None:
        self._timers.run_due(self._workers.now())
        if self._abort.is_set() and not self._is_stopped:
            self._start_no_more(is_late=False)
            for attempt in self._running:
                self._give_up_later(attempt)

    def _start_no_more(self, *, is_late: bool) -> None:
        """The run was aborted, or its deadline is over. Those that run learn of either by themselves."""
        self._is_stopped = True
        self._paused.clear()
        self._schedule.abort(is_late=is_late)
        self._tell_settled()

    def _time_out(self, attempt: _Attempt) -> None:
        if not attempt.abort.is_set():
            attempt.is_late = True
            attempt.abort.set()
            self._give_up_later(attempt)

    def _give_up_later(self, attempt: _Attempt) -> None:
        """After the grace period the run goes on without it; whatever still comes from it is ignored."""
        if self._limits.grace_ms is not None:
            at = self._workers.now() + self._limits.grace_ms / 1_000
            attempt.timers.append(self._timers.at(at, lambda: self._give_up(attempt)))

    def _give_up(self, attempt: _Attempt) -> None:
        self._release(attempt)
        # there is no other attempt: two at once could act twice
        self._end(attempt.operation, _late(attempt) if attempt.is_late else _aborted(attempt))
        self._tell_settled()

    # --- what comes from workers

    def _take(self, attempt: _Attempt, what: OperationResult | Progress) -> None:
        if isinstance(what, Progress):
            now = self._workers.now()
            self._tell(
                OperationEvent(Stage.PROGRESS, attempt.operation.id, now, attempt.number, progress=what)
            )
            return
        self._release(attempt)
        result = _judged(attempt, what)
        if not self._pause(attempt, result):
            self._end(attempt.operation, result)
        self._tell_settled()

    def _release(self, attempt: _Attempt) -> None:
        del self._running[attempt]
        attempt.forget()
        for timer in attempt.timers:
            timer.cancel()

    def _pause(self, attempt: _Attempt, result: OperationResult) -> bool:
        """Have it tried again later, if it is to be; the wait holds no worker."""
        operation, number = attempt.operation, attempt.number
        delay = retry_delay(operation.config.retry, number, result, attempt.job.context.seed)
        if delay is None or self._is_stopped:
            return False
        now = self._workers.now()
        # what could only begin after the end is not waited for
        if self._deadline is not None and now + delay >= self._deadline:
            return False
        self._schedule.park(operation.id)
        self._paused[operation.id] = attempt
        self._timers.at(now + delay, lambda: self._schedule.resume(operation.id))
        self._tell(
            OperationEvent(Stage.ATTEMPT, operation.id, now, number, result=result, retry_at=now + delay)
        )
        return True

    def _end(self, operation: Operation, result: OperationResult) -> None:
        result = _as_configured(operation, result)
        if result.status.is_terminal:
            self._schedule.settle(operation.id, result)
        else:
            self._schedule.park(operation.id, result)

    # --- telling

    def _tell_settled(self) -> None:
        for key in self._schedule.untold:
            self._settled_at.setdefault(key, self._workers.now())
        for result in self._schedule.take_settled():
            key, now = result.operation_id, self._workers.now()
            attempts = self._attempts.get(key, 0)
            run = self._runs[key] = record(
                self._plan,
                self._plan.by_id[key],
                result,
                started_at=self._started_at.get(key),
                ended_at=self._settled_at.pop(key, now),
                attempts=attempts,
            )
            stage = _STAGES.get(result.status, Stage.FINISHED)
            self._tell(OperationEvent(stage, key, now, attempts, result=result, run=run))

    def _tell(self, event: OperationEvent) -> None:
        if self._notify is None:
            return
        try:
            self._notify(event)
        except Exception:
            _logger.exception("an observer of the run failed at %s of %s", event.stage, event.operation_id)


_STAGES = {OperationStatus.SKIPPED: Stage.SKIPPED, OperationStatus.WAITING: Stage.WAITING}


def _earliest(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _judged(attempt: _Attempt, result: OperationResult) -> OperationResult:
    """What a result counts as, of one that was told to stop: late is late, and done is done (E14, G25, G26)."""
    if attempt.is_late:
        return _late(attempt)
    if attempt.abort.is_set() and result.status in (OperationStatus.ERROR, OperationStatus.WAITING):
        return _aborted(attempt)
    return result


def _late(attempt: _Attempt) -> OperationResult:
    timeout = attempt.operation.config.timeout_ms
    most = (
        "the time that the run or its hook has"
        if timeout is None
        else f"{timeout:g} ms, or until the run's deadline"
    )
    error = ResultError(code=ErrorCode.TIMEOUT, message=f"It was not done within {most}.")
    return OperationResult(operation_id=attempt.operation.id, status=OperationStatus.ERROR, error=error)


def _aborted(attempt: _Attempt) -> OperationResult:
    return OperationResult(operation_id=attempt.operation.id, status=OperationStatus.ABORTED)


def _as_configured(operation: Operation, result: OperationResult) -> OperationResult:
    """The result with what it cannot decide itself: whose it is, and that only `done` has effects (R35, R37, R59)."""
    changes: dict[str, Any] = {}
    if result.operation_id != operation.id:
        changes["operation_id"] = operation.id
    if result.required != operation.config.required:
        changes["required"] = operation.config.required
    if result.effects and not result.is_done:
        changes["effects"] = ()
    return result.model_copy(update=changes) if changes else result
