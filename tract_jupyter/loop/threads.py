"""Awaiting what blocks a thread, such as a turn, without blocking the event loop; and leaving what does not end."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tract_jupyter.llm import BY_PERSON
from tract_jupyter.prompts import TASK_CANCELLED
from tract_jupyter.storage import is_order

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tract_jupyter.llm import StopSignal

T = TypeVar("T")
_HEARTBEAT: Final = 0.02
"""Seconds. A bare await cannot be interrupted in a kernel, so waiting is many short ones."""
_PATIENCE: Final = 5.0
"""Seconds that a cancelled task waits for the work to end."""
_LEFT_AFTER: Final = 1.0
"""Seconds that work has to end by itself once it is to stop: to know that something was sent is worth a short wait."""


async def awaited(work: Callable[[], T], stop: Callable[[str], object]) -> T:
    """Do work in a thread of its own, with this task's context variables, and return what it gives.

    Args:
        work: what is done.
        stop: is called with the reason if the task is cancelled, and has the work end soon. That is awaited for five
            seconds at most, and not any more if the task is cancelled again.
    """
    came: dict[str, Any] = {}
    is_over = threading.Event()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            came["result"] = context.run(work)
        except BaseException as error:  # noqa: BLE001 # raised where it is awaited
            came["error"] = error
        finally:
            is_over.set()

    threading.Thread(target=run, name="tract-turn", daemon=True).start()
    try:
        await _until(is_over, math.inf)
    except (asyncio.CancelledError, KeyboardInterrupt) as error:
        stop(why_ended(error))
        await _until(is_over, _PATIENCE)
        raise
    if "error" in came:
        raise came["error"]
    return came["result"]  # type: ignore[no-any-return] # what `work` gives


def why_ended(error: BaseException) -> str:
    """Return what the calls of a turn are told that an exception has ended which is no error: an interrupt, say."""
    if is_order(error):
        return BY_PERSON
    return (
        TASK_CANCELLED if isinstance(error, asyncio.CancelledError) else f"stopped by {type(error).__name__}"
    )


async def _until(is_over: threading.Event, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_over.is_set() and time.monotonic() < end:  # noqa: ASYNC110 # a thread sets no `asyncio.Event`
        await asyncio.sleep(_HEARTBEAT)


class LeavableThread:
    """A thread that works for another one, which can leave it: Python cannot end what waits in C.

    Within a `with` block; one thing after the other is done in the same thread, until that is left.
    """

    def __init__(self) -> None:
        self._works: SimpleQueue[Callable[[], None] | None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def do(self, work: Callable[[], T], stop: StopSignal) -> T | None:
        """Do work with this thread's context variables, and return what it gives; None if it was left because of Stop.

        In the main thread it is done there: an interrupt ends it, and prompts belong to it.
        """
        if threading.current_thread() is threading.main_thread():
            return work()
        came: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        context = contextvars.copy_context()

        def do_it() -> None:
            try:
                came.put((context.run(work), None))
            except BaseException as error:  # noqa: BLE001 # raised where it is waited for
                came.put((None, error))

        self._begun().put(do_it)
        try:
            result, error = self._awaited(came, stop)
        except BaseException:
            self._leave()
            raise
        if error is not None:
            raise error
        return result

    def _awaited(
        self, came: SimpleQueue[tuple[T | None, BaseException | None]], stop: StopSignal
    ) -> tuple[T | None, BaseException | None]:
        while not stop.is_set():
            with suppress(Empty):  # short waits, since an exception for this thread comes between two of them
                return came.get(timeout=_HEARTBEAT)
        try:
            return came.get(timeout=_LEFT_AFTER)
        except Empty:
            self._leave()
            return None, None

    def _begun(self) -> SimpleQueue[Callable[[], None] | None]:
        if self._works is None:
            self._works = SimpleQueue()
            threading.Thread(target=_work_off, args=(self._works,), name="tract-write", daemon=True).start()
        return self._works

    def _leave(self) -> None:
        """Have the thread end after what it does."""
        works, self._works = self._works, None
        if works is not None:
            works.put(None)


def _work_off(works: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := works.get()) is not None:
        work()
