"""The coordinator: starts operations that are ready, waits, and emits the events of the log.

All decisions are made here and in `Schedule`, on one thread; workers only run jobs. So a result counts once: when the
coordinator takes it. The coordinator ignores reports of operations that it has given up.
"""

from __future__ import annotations

import heapq
import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.concurrency import StopSignal
from tract_jupyter.runs.events import (
    OperationAttempt,
    OperationFinished,
    OperationProgress,
    OperationStarted,
    OperationWaiting,
)
from tract_jupyter.runs.model import OperationResult, ResultError, Skip
from tract_jupyter.runs.schedule import Limits, Schedule
from tract_jupyter.runs.terms import ErrorCode, OperationStatus, SkippedReason
from tract_jupyter.runs.workers import Job, Workers, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.runs.events import EventData
    from tract_jupyter.runs.model import Operation, Retry
    from tract_jupyter.runs.plan import PhasePlan

    Begin = Callable[[Operation, Mapping[str, OperationResult]], Job | Skip | OperationResult]
    Notify = Callable[[EventData], object]


class Timer:
    """An action at a time, unless it is cancelled."""

    __slots__ = ("action", "at", "number")

    def __init__(self, at: float, number: int, action: Callable[[], None]) -> None:
        self.at = at
        self.number = number
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self) -> None:
        """Cancel the action."""
        self.action = None


class Timers:
    """Actions in order of time; actions at the same time keep the order in which they were added.

    Attributes:
        heap: the open timers, and some cancelled ones.
    """

    def __init__(self) -> None:
        self.heap: list[Timer] = []
        self._count = 0

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Schedule an action."""
        self._count += 1
        timer = Timer(when, self._count, action)
        heapq.heappush(self.heap, timer)
        return timer

    def next(self) -> float | None:
        """Return the time of the earliest action; None if there is none."""
        while self.heap and self.heap[0].action is None:
            heapq.heappop(self.heap)
        return self.heap[0].at if self.heap else None

    def run_due(self, now: float) -> None:
        """Run all actions that are due."""
        while self.heap and (self.heap[0].action is None or self.heap[0].at <= now):
            action = heapq.heappop(self.heap).action
            if action is not None:
                action()


RETRIED: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.PROVIDER, ErrorCode.RATE_LIMITED})
"""Error codes that are retried if `retry_on` is empty (E25)."""

MAX_BACKOFF_MS: Final = 120_000
"""The longest wait of our own."""

MAX_RETRY_AFTER_MS: Final = 3_600_000
"""The longest wait that a provider may ask for. If it asks for more, there is no retry."""


def retry_delay(retry: Retry, attempt: int, result: OperationResult, seed: int) -> float | None:
    """Return the seconds to wait before another attempt; None if there is none.

    The wait grows by `multiplier` with each attempt, plus or minus the fraction `jitter`. The jitter comes from a
    seeded generator, so a replay has the same waits. `details["retryAfterMs"]` of the error is the shortest wait.

    Args:
        retry: the retry settings.
        attempt: the number of the ended attempt, from 1.
        result: the result of that attempt.
        seed: the seed of the run.
    """
    error = result.error
    if result.status is not OperationStatus.ERROR or error is None or attempt >= retry.max_attempts:
        return None
    if error.code not in (retry.retry_on or RETRIED):
        return None
    wait = min(retry.backoff_ms * retry.multiplier ** (attempt - 1), MAX_BACKOFF_MS)
    draw = random.Random(f"{seed}:{result.operation_id}:{attempt}").uniform(-1, 1)  # noqa: S311 # no secret
    wait += wait * retry.jitter * draw
    retry_after = error.details.get("retryAfterMs")
    if isinstance(retry_after, (int, float)) and not isinstance(retry_after, bool):
        if not retry_after <= MAX_RETRY_AFTER_MS:
            return None
        wait = max(wait, retry_after)
    return wait / 1_000


_logger = logging.getLogger(__name__)


def execute(
    plan: PhasePlan,
    begin: Begin,
    workers: Workers,
    *,
    abort: StopSignal | None = None,
    notify: Notify | None = None,
    prior: Mapping[str, OperationResult] | None = None,
    limits: Limits | None = None,
    store: Callable[[], object] = lambda: None,
) -> dict[str, OperationResult]:
    """Run the operations of a plan. Each one starts after all its dependencies are done (R10, R25).

    Args:
        plan: the operations.
        begin: makes the job of an operation from the results of its dependencies, in the order of `depends_on`. It may
            return a `Skip` or a result instead. If it raises, the operation fails.
        workers: run the jobs, and have the clock.
        abort: the signal of the run, with its deadline.
        notify: called with each event, on this thread. Its exceptions are logged and ignored.
        prior: the results of a resumed run. These operations do not run again and emit no events.
        limits: limits per provider and of time, and the grace period.
        store: stores the events. Called before the first job that does not only compute, because it may act, and before
            each wait, so finished operations survive a crash.

    Returns:
        The results by operation, in (order, id) order (R58). Operations that wait for the user are `waiting`.
        Operations that depend on them have no result.
    """
    return _Coordinator(
        plan, begin, workers, abort or StopSignal(), notify, prior or {}, limits or Limits(), store
    ).run()


class _Attempt:
    """A running attempt. It is the key of its job, so a late report cannot reach another attempt."""

    __slots__ = ("abort", "forget", "is_late", "job", "key", "number", "operation", "timers")

    def __init__(self, key: str, operation: Operation, job: Job, number: int, abort: StopSignal) -> None:
        self.key = key
        self.operation = operation
        self.job = job
        self.number = number
        self.abort = abort
        self.is_late = False
        self.timers: list[Timer] = []
        self.forget: Callable[[], None] = lambda: None


class _Coordinator:
    def __init__(
        self,
        plan: PhasePlan,
        begin: Begin,
        workers: Workers,
        abort: StopSignal,
        notify: Notify | None,
        prior: Mapping[str, OperationResult],
        limits: Limits,
        store: Callable[[], object],
    ) -> None:
        self._plan = plan
        self._begin = begin
        self._workers = workers
        self._abort = abort
        self._notify = notify
        self._limits = limits
        self._store = store
        self._has_worked = False
        self._schedule = Schedule(plan, limits.per_provider, prior, workers.capacity)
        self._timers = Timers()
        self._running: dict[_Attempt, None] = {}
        self._paused: dict[str, _Attempt] = {}
        self._attempts: dict[str, int] = {}
        self._started_at: dict[str, float] = {}
        self._settled_at: dict[str, float] = {}
        self._is_stopped = False
        self._deadline: float | None = None

    def run(self) -> dict[str, OperationResult]:
        forget = self._abort.on_set(self._workers.wake)
        try:
            self._open()
            while True:
                self._check_signals()
                self._start_ready()
                if not self._running and not self._paused:
                    return self._results()
                self._store()
                for attempt, report in self._workers.wait(self._timeout()):
                    if attempt in self._running:
                        self._receive(attempt, report)
        finally:
            forget()
            # some are left only after an exception, such as an interrupt
            for attempt in self._running:
                attempt.abort.set()

    # --- opening and results

    def _open(self) -> None:
        now, timeout = self._workers.now(), self._limits.timeout_ms
        self._deadline = self._abort.deadline
        if timeout is not None:
            self._deadline = _earliest(now + timeout / 1_000, self._deadline)
        self._is_stopped = self._abort.is_set() or (self._deadline is not None and self._deadline <= now)
        self._schedule.open(aborted=self._is_stopped)
        if self._deadline is not None and not self._is_stopped:
            self._timers.at(self._deadline, lambda: self._start_no_more(is_late=True))
        self._emit_settled()

    def _results(self) -> dict[str, OperationResult]:
        results = self._schedule.results
        # the next execution settles untold operations, once all their dependencies have ended
        untold = self._schedule.untold
        return {key: results[key] for key in self._plan.by_id if key in results and key not in untold}

    # --- starting

    def _start_ready(self) -> None:
        while (key := self._schedule.start()) is not None:
            paused = self._paused.pop(key, None)
            prepared = paused.job if paused else self._prepare(key)
            if isinstance(prepared, Job):
                self._submit(key, prepared)
            else:
                if isinstance(prepared, Skip):
                    self._schedule.skip(key, prepared)
                else:
                    self._end(key, prepared)
                self._emit_settled()
            # the callbacks `begin` and `notify` may take time, or abort the run
            self._check_signals()

    def _prepare(self, key: str) -> Job | Skip | OperationResult:
        operation, results = self._plan.by_id[key], self._schedule.results
        dependencies = operation.config.depends_on
        try:
            prepared = self._begin(
                operation,
                {dependency: results[dependency] for dependency in dependencies} if dependencies else {},
            )
        except Exception as error:
            _logger.debug("operation %s could not be prepared", key, exc_info=True)
            prepared = failed(key, f"{type(error).__name__}: {error}")
        return Skip.because(SkippedReason.RUN_ABORTED) if self._abort.is_set() else prepared

    def _submit(self, key: str, job: Job) -> None:
        operation, now = self._plan.by_id[key], self._workers.now()
        timeout = operation.config.timeout_ms
        deadline = self._deadline if timeout is None else _earliest(now + timeout / 1_000, self._deadline)
        # a job that only computes ends before anything could stop it alone
        is_alone = deadline is not None or not job.is_computed
        number = self._attempts[key] = self._attempts.get(key, 0) + 1
        attempt = _Attempt(key, operation, job, number, StopSignal() if is_alone else self._abort)
        if deadline is not None:
            context = job.context.model_copy(update={"deadline": deadline})
            attempt.job = replace(job, context=context)
            attempt.timers.append(self._timers.at(deadline, lambda: self._time_out(attempt)))
        if is_alone:
            attempt.forget = self._abort.on_set(attempt.abort.set)
        self._running[attempt] = None
        self._schedule.began(key)
        if number == 1:
            self._started_at[key] = now
            self._emit(OperationStarted(operation_id=key, hook=self._plan.hook, started_at=now))
        if not (job.is_computed or self._has_worked):
            self._has_worked = True
            self._store()
        result = self._workers.submit(attempt, attempt.job, attempt.abort)
        if result is not None:
            if attempt.timers:
                self._check_signals()  # the result may be late
            if attempt in self._running:
                self._receive(attempt, result)

    # --- stopping

    def _timeout(self) -> float | None:
        due = self._timers.next() if self._timers.heap else None
        return None if due is None else max(0.0, due - self._workers.now())

    def _check_signals(self) -> None:
        if self._timers.heap:
            self._timers.run_due(self._workers.now())
        if self._abort.is_set() and not self._is_stopped:
            self._start_no_more(is_late=False)
            for attempt in self._running:
                self._give_up_later(attempt)

    def _start_no_more(self, *, is_late: bool) -> None:
        """Start nothing more. Running operations see the signal or the deadline themselves."""
        self._is_stopped = True
        self._paused.clear()
        self._schedule.abort(is_late=is_late)
        self._emit_settled()

    def _time_out(self, attempt: _Attempt) -> None:
        if not attempt.abort.is_set():
            attempt.is_late = True
            attempt.abort.set()
            self._give_up_later(attempt)

    def _give_up_later(self, attempt: _Attempt) -> None:
        if self._limits.grace_ms is not None:
            at = self._workers.now() + self._limits.grace_ms / 1_000
            attempt.timers.append(self._timers.at(at, lambda: self._give_up(attempt)))

    def _give_up(self, attempt: _Attempt) -> None:
        self._release(attempt)
        # no other attempt: two at once could act twice
        self._end(attempt.key, _late(attempt) if attempt.is_late else _aborted(attempt))
        self._emit_settled()

    # --- reports of workers

    def _receive(self, attempt: _Attempt, report: OperationResult | dict[str, Any]) -> None:
        if isinstance(report, dict):
            self._emit(OperationProgress(operation_id=attempt.key, hook=self._plan.hook, data=report))
            return
        self._release(attempt)
        result = _final_result(attempt, report)
        if result.status is not OperationStatus.ERROR or not self._pause(attempt, result):
            self._end(attempt.key, result)
        self._emit_settled()

    def _release(self, attempt: _Attempt) -> None:
        del self._running[attempt]
        attempt.forget()
        for timer in attempt.timers:
            timer.cancel()

    def _pause(self, attempt: _Attempt, result: OperationResult) -> bool:
        """Schedule another attempt if the retry settings allow one. The wait occupies no worker."""
        key, number = attempt.key, attempt.number
        delay = retry_delay(attempt.operation.config.retry, number, result, attempt.job.context.seed)
        if delay is None or self._is_stopped:
            return False
        now = self._workers.now()
        # an attempt after the deadline is useless
        if self._deadline is not None and now + delay >= self._deadline:
            return False
        self._schedule.park(key)
        self._paused[key] = attempt
        self._timers.at(now + delay, lambda: self._schedule.resume(key))
        hook, delay_ms = self._plan.hook, delay * 1_000
        self._emit(
            OperationAttempt(
                operation_id=key, hook=hook, attempt=number, error=result.error, delay_ms=delay_ms
            )
        )
        return True

    def _end(self, key: str, result: OperationResult) -> None:
        result = _as_configured(key, self._plan.by_id[key], result)
        if result.status is OperationStatus.WAITING:
            self._schedule.park(key, result)
        else:
            self._schedule.settle(key, result)

    # --- events

    def _emit_settled(self) -> None:
        if not self._schedule.fresh:
            return
        for key in self._schedule.untold:
            self._settled_at.setdefault(key, self._workers.now())
        for result in self._schedule.take_settled():
            self._emit(self._end_event(result))

    def _end_event(self, result: OperationResult) -> OperationWaiting | OperationFinished:
        key, hook = result.operation_id, self._plan.hook
        started_at = self._started_at.get(key)
        if result.status is OperationStatus.WAITING:
            pending_id = result.waits_for or ""
            return OperationWaiting(operation_id=key, hook=hook, pending_id=pending_id, started_at=started_at)
        return OperationFinished(
            operation_id=key,
            hook=hook,
            result=result,
            started_at=started_at,
            finished_at=self._settled_at.pop(key, self._workers.now()),
            attempts=self._attempts.get(key, 0),
            inputs_summary=result.inputs_summary,
            outputs_summary=result.outputs_summary,
        )

    def _emit(self, event: EventData) -> None:
        if self._notify is None:
            return
        try:
            self._notify(event)
        except Exception:
            _logger.exception("an observer of the run failed on %s", event)


def _earliest(first: float | None, second: float | None) -> float | None:
    return min((at for at in (first, second) if at is not None), default=None)


def _final_result(attempt: _Attempt, result: OperationResult) -> OperationResult:
    """Return the final result after a stop signal: a late result becomes an error, a done one stays (E14, G25, G26)."""
    if attempt.is_late:
        return _late(attempt)
    if attempt.abort.is_set() and result.status in (OperationStatus.ERROR, OperationStatus.WAITING):
        return _aborted(attempt)
    return result


def _late(attempt: _Attempt) -> OperationResult:
    timeout = attempt.operation.config.timeout_ms
    limit = (
        "the time limit of the run or its hook"
        if timeout is None
        else f"{timeout:g} ms or the run's deadline"
    )
    error = ResultError(code=ErrorCode.TIMEOUT, message=f"It did not end within {limit}.")
    return OperationResult(operation_id=attempt.key, status=OperationStatus.ERROR, error=error)


def _aborted(attempt: _Attempt) -> OperationResult:
    return OperationResult(operation_id=attempt.key, status=OperationStatus.ABORTED)


def _as_configured(key: str, operation: Operation, result: OperationResult) -> OperationResult:
    """Return the result with the correct id and `required`, and without effects unless it is done (R35, R37)."""
    changes: dict[str, Any] = {}
    if result.operation_id != key:
        changes["operation_id"] = key
    if result.required != operation.config.required:
        changes["required"] = operation.config.required
    if result.effects and not result.is_done:
        changes["effects"] = ()
    return result.model_copy(update=changes) if changes else result
