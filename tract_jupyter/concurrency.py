"""Stop running work, and wait for work in another thread.

`StopSignal` stops turns, runs, requests and scripts. Within `stopped_by(signal)`, `current_stop()` returns the signal,
and requests to a model end when it is set. `Worker` runs blocking code in a thread, and a task waits for its result.
`run_until_stopped` stops waiting for its work soon after Stop.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import threading
import time
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

BY_PERSON: Final = "stopped by the user"
"""The reason of a stop by the user."""
HEARTBEAT: Final = 0.02
"""Seconds. An interrupt cannot end one long wait in a kernel, so each wait is many short ones."""
_LEFT_AFTER: Final = 1.0
"""Seconds after Stop in which the caller still waits for the work."""

_logger = logging.getLogger(__name__)


class Stopped(Exception):  # noqa: N818 # it is not an error
    """Raised by code that ends because of a stop signal. An operation of a run ends as `aborted`."""


class StopSignal:
    """A signal that stops a turn, a run, a request or a script. Any thread may set it.

    Args:
        deadline: seconds since the epoch after which the work counts as too late; None for no end.

    Attributes:
        reason: the reason for the stop, as the model reads it; empty before the stop, and if there is none.
        is_paused: True if a turn should end before its next request. Its calls are still carried out.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline: Final = deadline
        self.reason = ""
        self.is_paused = False
        self._is_set = False
        self._lock = threading.Lock()
        self._keys = itertools.count()
        self._callbacks: dict[int, Callable[[], object]] = {}

    def set(self, reason: str = "") -> None:
        """Set the signal, and call the callbacks. Later calls do not change the reason."""
        with self._lock:
            self.reason = self.reason or reason
            self._is_set = True
            callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks.values():
            try:
                callback()
            except Exception:
                # such as a closed event loop; the other callbacks are still called
                _logger.exception("a callback of a stop signal failed")

    def pause(self) -> None:
        """End the turn before its next request."""
        self.is_paused = True

    def is_set(self) -> bool:
        """Return True if the signal is set."""
        return self._is_set

    def check(self) -> None:
        """Check that the signal is not set.

        Raises:
            Stopped: the signal is set.
        """
        if self._is_set:
            raise Stopped

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the signal is set or `timeout` seconds are over. Return True if it is set."""
        is_set = threading.Event()
        forget = self.on_set(is_set.set)
        try:
            is_set.wait(timeout)
        finally:  # also after an interrupt
            forget()
        return self._is_set

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once, in the thread that sets the signal; at once if it is set. It must be quick.

        Returns:
            A function that removes the callback.
        """
        with self._lock:
            if not self._is_set:
                key = next(self._keys)
                self._callbacks[key] = callback
                return partial(self._forget, key)
        callback()
        return lambda: None

    @contextmanager
    def following(self, other: StopSignal, seconds: float, reason: str) -> Iterator[StopSignal]:
        """Set this signal when `other` is set, or when `seconds` have passed.

        The reason is the reason of `other`, or `reason` after the timeout.
        """
        timer = threading.Timer(seconds, self.set, [reason])
        timer.daemon = True
        with ExitStack() as stack:
            stack.callback(other.on_set(lambda: self.set(other.reason)))
            timer.start()
            stack.callback(timer.cancel)
            yield self

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


_current: ContextVar[StopSignal | None] = ContextVar("tract_stop_signal", default=None)


@contextmanager
def stopped_by(signal: StopSignal) -> Iterator[None]:
    """Make this the current signal of this thread or task within the block."""
    token = _current.set(signal)
    try:
        yield
    finally:
        _current.reset(token)


def current_stop() -> StopSignal:
    """Return the signal of the code that runs here. If there is none, return a new signal, which is never set.

    In another process there is none. An operation's context has its `deadline` there too.
    """
    return _current.get() or StopSignal()


class Worker(Generic[T]):
    """Run work in a daemon thread with the caller's context variables. The thread starts at once.

    Attributes:
        result: the result of the work; None before its end, and if it failed.
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self.result: T | None = None
        self._error: BaseException | None = None
        self._work = work
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """True until the work has ended."""
        return self._thread.is_alive()

    def outcome(self) -> T:
        """Return the result of work that has ended, or raise its error."""
        if self._error is not None:
            raise self._error
        return cast("T", self.result)

    async def wait(self, beat: Callable[[], object] = lambda: None) -> T:
        """Wait for the end and return the result. Call `beat` at each heartbeat.

        If the waiting task is cancelled, the work continues.
        """
        while self.is_running:
            await asyncio.sleep(HEARTBEAT)
            beat()
        return self.outcome()

    async def ended(self, seconds: float = 2.0) -> None:
        """Wait some seconds for the end of stopped work. Work that waits in C may need longer."""
        end = time.monotonic() + seconds
        while self.is_running and time.monotonic() < end:  # noqa: ASYNC110 # a thread sets no `asyncio.Event`
            await asyncio.sleep(HEARTBEAT)

    def join(self, seconds: float) -> bool:
        """Block this thread until the work has ended, for some seconds at most. Return True if it has ended."""
        self._thread.join(seconds)
        return not self.is_running

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001 # the waiting thread or task raises it
            self._error = error


def run_until_stopped(work: Callable[[], T], stop: StopSignal) -> T | None:
    """Run work and return its result; None if it has not ended a second after Stop.

    Python cannot end a thread that waits in C, so another thread does the work. The main thread does it itself: an
    interrupt ends it there, and prompts belong to the main thread.
    """
    if threading.current_thread() is threading.main_thread():
        return work()
    worker = Worker(work, "tract-write")
    while not stop.is_set():
        if worker.join(HEARTBEAT):
            return worker.outcome()
    return worker.outcome() if worker.join(_LEFT_AFTER) else None
