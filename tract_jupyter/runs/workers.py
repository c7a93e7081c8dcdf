"""Where operations run: the protocol, and threads of this process."""

from __future__ import annotations

import itertools
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tract_jupyter.runs.abort import Aborted, enter_abort
from tract_jupyter.runs.model import OperationError, OperationResult
from tract_jupyter.runs.reports import Progress
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, ErrorCode, OperationStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.abort import Abort
    from tract_jupyter.runs.model import OperationContext

MAX_THREADS: Final = 1_000
"""Operations that run at once on threads, where the plan says no less."""

_MAX_PARTIAL_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Job:
    """What runs for an operation.

    Attributes:
        function: takes the context, and returns the result (R53); a coroutine function may be given too.
        context: plain data.
        anywhere: whether both can be sent to another process; otherwise it runs in this one.
    """

    function: Callable[[OperationContext], Any]
    context: OperationContext
    anywhere: bool = False


Report = tuple[Any, OperationResult | Progress]
"""A key, and how its job ended, or how far it has come."""


class Workers(Protocol):
    """Runs jobs, and has a clock. One coordinator uses it at a time, from one thread."""

    @property
    def capacity(self) -> int | None:
        """How many jobs can run at once; None for any number."""
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def submit(self, key: object, job: Job, abort: Abort) -> None:
        """Have it run. It does not raise: what goes wrong is the job's result."""
        ...

    def wait(self, timeout: float | None) -> list[Report]:
        """Return what has come, at least one thing, unless it was woken or these seconds are over."""
        ...

    def wake(self) -> None:
        """End `wait`; from any thread."""
        ...


def failed(operation_id: str, message: str) -> OperationResult:
    """Return the error of an operation that could not be carried out properly."""
    error = OperationError(code=ErrorCode.OPERATION, message=message[:MAX_ERROR_TEXT])
    return OperationResult(operation_id=operation_id, status=OperationStatus.ERROR, error=error)


def result_of(context: OperationContext, get: Callable[[], object]) -> OperationResult:
    """Return what this returns, or the error that stands for what it raises (R53)."""
    try:
        found = get()
    except Aborted:
        return OperationResult(operation_id=context.operation_id, status=OperationStatus.ABORTED)
    except BaseException as error:  # noqa: BLE001 # whatever it is, it is the operation's, never the run's
        return failed(context.operation_id, f"{type(error).__name__}: {error}")
    if isinstance(found, OperationResult):
        return found
    message = f"It returned {type(found).__name__}; an operation returns an OperationResult."
    return failed(context.operation_id, message)


_progress: ContextVar[Callable[[Progress], None]] = ContextVar("tract_progress")


def report_progress(percent: float | None = None, tokens: int | None = None, text: str = "") -> None:
    """Say how far the operation that runs here has come; in another process nobody hears it."""
    tell = _progress.get(None)
    if tell is not None:
        tell(Progress(percent, tokens, text[:_MAX_PARTIAL_TEXT]))


class ThreadWorkers:
    """Runs jobs on threads, as many as are needed; a thread that is free is used again.

    The threads do not keep the process alive: one that never ends is left behind.
    """

    capacity: int | None = MAX_THREADS

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[object, Job, Abort] | None] = SimpleQueue()
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
        """Seconds since the epoch; it never goes back."""
        return self._epoch + time.perf_counter()

    def submit(self, key: object, job: Job, abort: Abort) -> None:
        """Have it run on a thread of this process."""
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            name = f"tract-operation-{next(self._numbers)}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put((key, job, abort))

    def wait(self, timeout: float | None) -> list[Report]:
        """Return what has come, at least one thing, unless it was woken or these seconds are over."""
        found: list[Report] = []
        try:
            self._note(self._reports.get(timeout=timeout), found)
            while True:
                self._note(self._reports.get_nowait(), found)
        except Empty:
            return found

    def wake(self) -> None:
        """End `wait`; from any thread."""
        self._reports.put((None, None))

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
            leave = enter_abort(abort)
            token = _progress.set(lambda progress, key=key: self._reports.put((key, progress)))  # type: ignore[misc]
            result = result_of(job.context, lambda job=job: _call(job))  # type: ignore[misc]
            _progress.reset(token)
            leave()
            self._reports.put((key, _Free(result)))


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
