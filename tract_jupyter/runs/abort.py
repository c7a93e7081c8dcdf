"""The signal to stop: from whoever aborts a run to the operations that run."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


class Aborted(Exception):  # noqa: N818 # it is no error
    """Raised within an operation that stops because it was told to; the operation ends as `aborted` (E14)."""


class Abort:
    """A signal that is given once, from any thread.

    Args:
        deadline: seconds since the epoch, after which the run counts as too late; None for no end.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline: Final = deadline
        self._is_set = False
        self._lock = threading.Lock()
        self._told: dict[int, Callable[[], object]] = {}

    def set(self) -> None:
        """Give the signal. A second time changes nothing."""
        with self._lock:
            self._is_set = True
            told, self._told = self._told, {}
        for callback in told.values():
            callback()

    def is_set(self) -> bool:
        """Whether the signal was given."""
        return self._is_set

    def check(self) -> None:
        """Go on only if the signal was not given.

        Raises:
            Aborted: it was.
        """
        if self._is_set:
            raise Aborted

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep up to this many seconds, or until the signal is given; whether it was."""
        given = threading.Event()
        forget = self.on_set(given.set)
        given.wait(timeout)
        forget()
        return self._is_set

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call this once, in the thread that gives the signal; at once if it was given. It must be quick.

        Returns:
            What takes it back.
        """
        key = id(callback)
        with self._lock:
            if not self._is_set:
                # the callback is kept here, so no other can have its id
                self._told[key] = callback
                return lambda: self._forget(key, callback)
        callback()
        return lambda: None

    def _forget(self, key: int, callback: Callable[[], object]) -> None:
        with self._lock:
            if self._told.get(key) is callback:
                del self._told[key]


_current: ContextVar[Abort] = ContextVar("tract_current_abort")


def current_abort() -> Abort:
    """Return the signal of the operation that runs here: a thread of this process, or a task of its loop.

    Elsewhere, as in another process, it is one that is never given; the context's `deadline` holds there too.
    """
    return _current.get(None) or Abort()


def enter_abort(abort: Abort) -> Callable[[], None]:
    """Make it the current one of this thread or task; returns what takes that back."""
    token = _current.set(abort)
    return lambda: _current.reset(token)
