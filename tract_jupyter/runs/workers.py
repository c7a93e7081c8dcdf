"""Workers run operations: the protocol, and threads of this process."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tract_jupyter.concurrency import Stopped, StopSignal, stopped_by
from tract_jupyter.runs.model import OperationResult, ResultError
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, ErrorCode, OperationStatus
from tract_jupyter.storage import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.model import OperationContext


_logger = logging.getLogger(__name__)


MAX_THREADS: Final = 1_000
"""The number of operations that may run at once on threads."""

_MAX_PARTIAL_TEXT = 2_000
_LONGEST_WAIT: Final = 1.0  # seconds


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one operation.

    Attributes:
        function: takes the context and returns the result (R53); it may be a coroutine function.
        context: plain data.
        is_computed: True if the job only computes within limits and never waits. Then it runs at once on the
            submitting thread, because another thread would cost more than the work.
    """

    function: Callable[[OperationContext], Any]
    context: OperationContext
    is_computed: bool = False


Report = tuple[Any, OperationResult | dict[str, Any]]
"""The key of a job, and its result or its progress. Progress is a dict with `percent`, `tokens` or `text`."""


class Workers(Protocol):
    """Runs jobs, and has a clock. One coordinator at a time uses it, from one thread."""

    @property
    def capacity(self) -> int | None:
        """The number of jobs that can run at once; None for any number."""
        ...

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def submit(self, key: object, job: Job, abort: StopSignal) -> OperationResult | None:
        """Start a job. This does not raise: errors become the job's result.

        Returns:
            The result if the job has run already; None if `wait` will report it.
        """
        ...

    def wait(self, timeout: float | None) -> list[Report]:
        """Wait for a report, a wake-up or the timeout in seconds, and return the reports."""
        ...

    def wake(self) -> None:
        """End `wait`. Any thread may call this."""
        ...


def failed(operation_id: str, message: str) -> OperationResult:
    """Return an error result for an operation that could not run properly."""
    error = ResultError(code=ErrorCode.OPERATION, message=message[:MAX_ERROR_TEXT])
    return OperationResult(operation_id=operation_id, status=OperationStatus.ERROR, error=error)


def result_of(context: OperationContext, get: Callable[[], object]) -> OperationResult:
    """Return the result of a job, or an error result for its exception (R53)."""
    try:
        result = get()
    except BaseException as error:  # noqa: BLE001 # it is an error of the operation, never of the run
        return error_result(context, error)
    if isinstance(result, OperationResult):
        return result
    message = f"It returned {type(result).__name__}. An operation must return an OperationResult."
    return failed(context.operation_id, message)


def error_result(context: OperationContext, error: BaseException) -> OperationResult:
    """Return the result of an operation that raised this exception."""
    if isinstance(error, Stopped):
        return OperationResult(operation_id=context.operation_id, status=OperationStatus.ABORTED)
    return failed(context.operation_id, f"{type(error).__name__}: {error}")


_is_computed: ContextVar[bool] = ContextVar("tract_is_computed", default=False)


def is_computed_here() -> bool:
    """Return True if an operation runs on the run's own thread. Then an interrupt is meant for the run."""
    return _is_computed.get()


_progress: ContextVar[Callable[[dict[str, Any]], None]] = ContextVar("tract_progress")


def report_progress(percent: float | None = None, tokens: int | None = None, text: str = "") -> None:
    """Report the progress of the operation that runs on this thread.

    Args:
        percent: 0 to 100.
        tokens: the number of tokens that a model has written so far.
        text: new text; it is cut to 2,000 characters.
    """
    report = _progress.get(None)
    if report is not None:
        values = {"percent": percent, "tokens": tokens, "text": text[:_MAX_PARTIAL_TEXT]}
        report({name: value for name, value in values.items() if value not in {None, ""}})


class ThreadWorkers:
    """Runs jobs on threads of this process, and reuses free threads.

    The threads do not keep the process alive.
    """

    capacity: int | None = MAX_THREADS

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[object, Job, StopSignal] | None] = SimpleQueue()
        self._reports: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._numbers = itertools.count(1)
        self._epoch = time.time() - time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the free threads now, and the others after their jobs."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def now(self) -> float:
        """Return the seconds since the epoch; the clock is monotonic."""
        return self._epoch + time.perf_counter()

    def submit(self, key: object, job: Job, abort: StopSignal) -> OperationResult | None:
        """Run the job on a thread. A computed job runs at once."""
        if job.is_computed:
            return _computed(job, abort)
        self._busy += 1
        if self._busy > self._threads:
            try:
                self._add_thread()
            except RuntimeError as error:
                # the system has no more threads; if we have one, the job waits for it
                if not self._threads:
                    self._busy -= 1
                    return error_result(job.context, error)
        self._jobs.put((key, job, abort))
        return None

    def wait(self, timeout: float | None) -> list[Report]:
        """Wait for a report, a wake-up or the timeout in seconds, and return the reports."""
        reports: list[Report] = []
        # Python handles a signal only between waits, so no wait is long
        seconds = _LONGEST_WAIT if timeout is None else min(timeout, _LONGEST_WAIT)
        try:
            self._note(interruptible(self._reports.get, timeout=seconds), reports)
            while True:
                self._note(self._reports.get_nowait(), reports)
        except Empty:
            return reports

    def wake(self) -> None:
        """End `wait`. Any thread may call this."""
        self._reports.put((None, None))

    def _add_thread(self) -> None:
        name = f"tract-operation-{next(self._numbers)}"
        threading.Thread(target=self._work, name=name, daemon=True).start()
        self._threads += 1

    def _note(self, report: tuple[Any, Any], reports: list[Report]) -> None:
        key, content = report
        if content is None:
            return
        if isinstance(content, _Free):
            self._busy -= 1
            content = content.result
        reports.append((key, content))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            key, job, abort = item
            self._assign_progress(key)
            with stopped_by(abort):
                result = result_of(job.context, partial(_call, job))
            self._reports.put((key, _Free(result)))

    def _assign_progress(self, key: object) -> None:
        _progress.set(lambda progress: self._reports.put((key, progress)))


@dataclass(frozen=True, slots=True)
class _Free:
    """A result that frees a thread."""

    result: OperationResult


def _computed(job: Job, abort: StopSignal) -> OperationResult:
    token = _is_computed.set(True)
    try:
        with stopped_by(abort):
            result: OperationResult = job.function(job.context)
    except Exception as error:  # noqa: BLE001 # an error of the operation; an interrupt ends the run
        return error_result(job.context, error)
    finally:
        _is_computed.reset(token)
    return result


def _call(job: Job) -> object:
    result = job.function(job.context)
    if hasattr(result, "__await__"):
        import asyncio

        return asyncio.run(_awaited(result))
    return result


async def _awaited(awaitable: Any) -> object:
    return await awaitable
