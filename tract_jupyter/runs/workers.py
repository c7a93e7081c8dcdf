"""Workers: where operations run. The protocol, and threads of this process."""

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
    from concurrent.futures import Executor, Future

    from tract_jupyter.runs.model import OperationContext


_logger = logging.getLogger(__name__)


MAX_THREADS: Final = 1_000
"""Operations that run at once on threads, where the plan says no less."""

_MAX_PARTIAL_TEXT = 2_000
_LONGEST_WAIT: Final = 1.0  # seconds


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one operation.

    Attributes:
        function: takes the context, and returns the result (R53); a coroutine function may be given too.
        context: plain data.
        anywhere: whether both can be sent to another process; otherwise it runs in this one.
        is_computed: whether it only computes, within bounds, and waits for nothing: then a thread would cost more than
            the work, and it is done at once where it is submitted.
    """

    function: Callable[[OperationContext], Any]
    context: OperationContext
    anywhere: bool = False
    is_computed: bool = False


Report = tuple[Any, OperationResult | dict[str, Any]]
"""The key of a job, and its result or its progress. Progress is a dict with `percent`, `tokens` or `text`."""


class Workers(Protocol):
    """Runs jobs, and has a clock. One coordinator uses it at a time, from one thread."""

    @property
    def capacity(self) -> int | None:
        """The number of jobs that can run at once; None for any number."""
        ...

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def submit(self, key: object, job: Job, abort: StopSignal) -> bool | None:
        """Have it run. It does not raise: what goes wrong is the job's result.

        Returns:
            True if its report is there already, so that `wait` will not wait for it.
        """
        ...

    def wait(self, timeout: float | None) -> list[Report]:
        """Wait for at least one report, a wake-up, or the end of these seconds; return what has come."""
        ...

    def wake(self) -> None:
        """End `wait`; from any thread."""
        ...


def failed(operation_id: str, message: str) -> OperationResult:
    """Return the error of an operation that could not be carried out properly."""
    error = ResultError(code=ErrorCode.OPERATION, message=message[:MAX_ERROR_TEXT])
    return OperationResult(operation_id=operation_id, status=OperationStatus.ERROR, error=error)


def result_of(context: OperationContext, get: Callable[[], object]) -> OperationResult:
    """Return the result of a job, or the error that stands for what it raises (R53)."""
    try:
        found = get()
    except BaseException as error:  # noqa: BLE001 # whatever it is, it is the operation's, never the run's
        return error_result(context, error)
    if isinstance(found, OperationResult):
        return found
    message = f"It returned {type(found).__name__}; an operation returns an OperationResult."
    return failed(context.operation_id, message)


def error_result(context: OperationContext, error: BaseException) -> OperationResult:
    """Return how an operation ends that raised this."""
    if isinstance(error, Stopped):
        return OperationResult(operation_id=context.operation_id, status=OperationStatus.ABORTED)
    return failed(context.operation_id, f"{type(error).__name__}: {error}")


_is_computed: ContextVar[bool] = ContextVar("tract_is_computed", default=False)


def is_computed_here() -> bool:
    """Return True where an operation runs on the thread that waits for the run: an interrupt is meant for the run."""
    return _is_computed.get()


_progress: ContextVar[Callable[[dict[str, Any]], None]] = ContextVar("tract_progress")


def report_progress(percent: float | None = None, tokens: int | None = None, text: str = "") -> None:
    """Report the progress of the operation that runs on this thread. In another process this does nothing.

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
    """Runs jobs on threads, as many as are needed; a thread that is free is used again.

    The threads do not keep the process alive: one that never ends is left behind.
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
        """End the threads that are free, and the others as soon as they are."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def now(self) -> float:
        """Return the seconds since the epoch; they never go back."""
        return self._epoch + time.perf_counter()

    def submit(self, key: object, job: Job, abort: StopSignal) -> bool:
        """Have it run on a thread of this process, or at once if it is only computed: then return True."""
        if job.is_computed:
            self._compute(key, job, abort)
            return True
        self._busy += 1
        if self._busy > self._threads:
            try:
                self._add_thread()
            except RuntimeError as error:
                # the system has no more threads; with one of ours it is only a matter of time
                if not self._threads:
                    self._reports.put((key, _Free(error_result(job.context, error))))
                    return True
        self._jobs.put((key, job, abort))
        return False

    def wait(self, timeout: float | None) -> list[Report]:
        """Wait for at least one report, a wake-up, or the end of these seconds; return what has come."""
        found: list[Report] = []
        # a signal that strikes between a look for it and the wait is seen only after the wait; one that struck at the
        # end of a block waits for the end of the run, if nobody asks for it
        seconds = _LONGEST_WAIT if timeout is None else min(timeout, _LONGEST_WAIT)
        try:
            self._note(interruptible(self._reports.get, timeout=seconds), found)
            while True:
                self._note(self._reports.get_nowait(), found)
        except Empty:
            return found

    def wake(self) -> None:
        """End `wait`; from any thread."""
        self._reports.put((None, None))

    def _add_thread(self) -> None:
        name = f"tract-operation-{next(self._numbers)}"
        threading.Thread(target=self._work, name=name, daemon=True).start()
        self._threads += 1

    def _note(self, report: tuple[Any, Any], found: list[Report]) -> None:
        key, what = report
        if what is None:
            return
        if isinstance(what, _Free):
            self._busy -= 1
            what = what.result
        found.append((key, what))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            key, job, abort = item
            self._hear_progress(key)
            with stopped_by(abort):
                result = result_of(job.context, partial(_call, job))
            self._reports.put((key, _Free(result)))

    def _compute(self, key: object, job: Job, abort: StopSignal) -> None:
        token = _is_computed.set(True)
        try:
            with stopped_by(abort):
                self._reports.put((key, job.function(job.context)))
        except Exception as error:  # noqa: BLE001 # it is the operation's, never the run's; an interrupt is the run's
            self._reports.put((key, error_result(job.context, error)))
        finally:
            _is_computed.reset(token)

    def _hear_progress(self, key: object) -> None:
        """Have what is reported in this thread or task be about this job, until the next one."""
        _progress.set(lambda progress: self._reports.put((key, progress)))

    def _report(self, key: object, result: OperationResult) -> None:
        """Have `wait` return a result that did not come from a thread; from any thread."""
        self._reports.put((key, result))


@dataclass(frozen=True, slots=True)
class _Free:
    """A result that frees a thread."""

    result: OperationResult


def _call(job: Job) -> object:
    found = job.function(job.context)
    if hasattr(found, "__await__"):
        import asyncio

        return asyncio.run(_awaited(found))
    return found


async def _awaited(found: Any) -> object:
    return await found


class ExecutorWorkers(ThreadWorkers):
    """Runs the jobs that may run anywhere on an executor, and the others on threads of this process.

    It takes a `ProcessPoolExecutor`, Dask's `client.get_executor()`, ipyparallel's `view.executor`. A function that
    runs there is told its deadline by its context, and hears no signal; what has not begun there is taken back.

    When the executor dies, such as a pool that lost a process, whatever it had is an error of these operations
    (`operation_error`): those that ran, and those that waited within it. What comes later goes to a fresh executor, if
    `fresh` makes one; otherwise it is an error too.

    Args:
        executor: the caller's; it is not shut down here.
        workers: how many jobs the executor runs at once; then no more operations run at once, wherever. With it the
            order of operations decides who is next, and the time of each one counts from its own start; without it
            all that is ready waits within the executor.
        fresh: makes another one in its place; those are shut down by `close`.
    """

    def __init__(
        self, executor: Executor, *, workers: int | None = None, fresh: Callable[[], Executor] | None = None
    ) -> None:
        super().__init__()
        self.capacity = workers or MAX_THREADS
        self._executor = executor
        self._fresh = fresh
        self._made: list[Executor] = []

    def close(self) -> None:
        """End the threads, and shut down what was made here, without waiting."""
        super().close()
        for executor in self._made:
            executor.shutdown(wait=False, cancel_futures=True)

    def submit(self, key: object, job: Job, abort: StopSignal) -> bool:
        """Have it run on the executor, if it may run anywhere."""
        if not job.anywhere:
            return super().submit(key, job, abort)
        try:
            future = self._sent(job)
        except Exception as error:  # noqa: BLE001 # executors raise what they like
            self._report(key, error_result(job.context, error))
            return True
        forget = abort.on_set(future.cancel)

        def ended(future: Future[Any]) -> None:
            forget()
            self._report(key, result_of(job.context, future.result))

        future.add_done_callback(ended)
        return False

    def _sent(self, job: Job) -> Future[Any]:
        try:
            return self._executor.submit(job.function, job.context)
        except RuntimeError:
            # broken, or shut down
            if self._fresh is None:
                raise
            self._executor = self._fresh()
            self._made.append(self._executor)
            return self._executor.submit(job.function, job.context)
