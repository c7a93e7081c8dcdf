"""Ending code that runs in a thread of this process: when its time is over, or a person says so.

Python has one way to that: an exception raised in the other thread at its next bytecode. Code that waits in C (a
sleep, a socket) gets it when that returns, and code that catches everything can go on; so it is raised again and again,
and its tool calls end it, too. A tool that works on the store is not struck in the middle of that, unless it takes
too long.
"""

from __future__ import annotations

import ctypes
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AGAIN_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 5.0  # for a tool call that is under way


class ScriptStopped(BaseException):  # no error: an order to end, as KeyboardInterrupt is one
    """The script is to end."""


class Stopper:
    """Ends what runs within `stoppable`.

    Attributes:
        reason: why it was stopped: `timed_out` or `interrupted`; empty if it was not.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._thread: int | None = None
        self._shields = 0
        self._since: float | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def stop(self, reason: str) -> None:
        """Have it end; the first reason counts. Returns at once."""
        self.reason = self.reason or reason
        self._raise()

    def check(self) -> None:
        """End here, if it was told to.

        Raises:
            ScriptStopped: it was.
        """
        if self.reason:
            raise ScriptStopped

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let a tool call come to its end first; it is stopped before and after."""
        with self._lock:
            self._shields += 1
            _order(self._thread, None)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._shields -= 1
        self.check()

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Within this, the current thread can be stopped."""
        with self._lock:
            self._thread = threading.get_ident()
        try:
            self.check()
            yield
        finally:
            with self._lock:  # an order that comes now finds nobody
                _order(self._thread, None)
                self._thread = None
            self._ended.set()

    @contextmanager
    def watched(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Look from a thread of its own whether the time is over, and order again what was not obeyed."""
        watcher = threading.Thread(
            target=self._watch, args=(is_over,), name="tract-script-watch", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()

    def _watch(self, is_over: Callable[[], bool]) -> None:
        pause = _LOOK_SECONDS
        while not self._ended.wait(pause):
            if not self.reason and is_over():
                self.reason = "timed_out"
            if self.reason:
                self._raise()
                pause = _AGAIN_SECONDS

    def _raise(self) -> None:
        with self._lock:
            self._since = self._since or time.monotonic()
            is_patient = self._shields and time.monotonic() - self._since < _GRACE_SECONDS
            if self._thread is not None and not is_patient:
                _order(self._thread, ScriptStopped)


def _order(thread: int | None, exception: type[BaseException] | None) -> None:
    """Have an exception raised in a thread; None takes back one that was not raised yet."""
    if thread is not None:
        given = None if exception is None else ctypes.py_object(exception)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
