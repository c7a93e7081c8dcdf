"""Stopping a script from another thread: because its time is over, or a person interrupts it.

Python has one way to do that: raise an exception in the other thread at its next bytecode. Code that waits in C (a
sleep, a socket) gets it when that returns, and code that catches everything can go on; so it is raised again and again,
and the script's tool calls end it, too. A tool that works on the store is not interrupted halfway, unless it takes too
long.
"""

from __future__ import annotations

import contextvars
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.concurrency import StopSignal
from tract_jupyter.review import check_wait
from tract_jupyter.storage import Order, raise_in, whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager


_AGAIN_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 5.0  # for a tool call that is under way


class ScriptStopped(Order):
    """An order to end the script."""


class ScriptPaused(Order):
    """An order to pause the script until a decision; its program is saved with the question."""

    def __init__(self, pending: Any) -> None:
        super().__init__()
        self.pending = pending


class Stopper:
    """A switch that ends the code within `stoppable` or `killable`.

    Attributes:
        signal: gives the order; its reason is `timed_out` or `interrupted`.
    """

    def __init__(self) -> None:
        self.signal = StopSignal()
        self._strike: Callable[[], object] | None = None
        self._take_back: Callable[[], object] = lambda: None
        self._shields = 0
        self._since: float | None = None
        self._threads: Collection[threading.Thread] = ()  # of this process at the first order
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.signal.on_set(self._order)

    def check(self) -> None:
        """End here, if that was ordered.

        Raises:
            ScriptStopped: it was.
        """
        if self.signal.is_set():
            raise ScriptStopped

    def was_stopped_before(self, thread: threading.Thread) -> bool:
        """Return True if it was ordered to end before this thread was started."""
        return self._since is not None and thread not in self._threads

    def shield(self) -> None:
        """Let a tool call come to its end, which `unshield` tells; the script is stopped before or after it.

        Raises:
            ScriptStopped: it was stopped. A call of another thread does not take back the order to the script's thread.
        """
        with self._lock:
            self.check()
            self._shields += 1
            self._take_back()

    def unshield(self) -> None:
        """Count one tool call less that is under way."""
        with self._lock:
            self._shields -= 1

    def stoppable(self) -> AbstractContextManager[None]:
        """Make the current thread stoppable."""
        thread = threading.get_ident()
        return self.killable(partial(raise_in, thread, ScriptStopped), partial(raise_in, thread, None))

    @whole_context
    def killable(
        self, strike: Callable[[], object], take_back: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """Let `strike` end what runs; `take_back` undoes that if it had no effect yet."""
        with self._lock:
            self._strike, self._take_back = strike, take_back
        try:
            self.check()
            yield
        finally:
            with self._lock:  # an order that comes now finds nobody
                take_back()
                self._strike, self._take_back = None, lambda: None

    @whole_context
    def watched(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Watch from a separate thread whether it is still wanted, and repeat orders that were not obeyed."""
        run = contextvars.copy_context().run
        watcher = threading.Thread(
            target=run, args=(self._watch, is_over), name="tract-script-watch", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()

    def _watch(self, is_over: Callable[[], bool]) -> None:
        while not self._ended.wait(_AGAIN_SECONDS if self.signal.is_set() else _LOOK_SECONDS):
            if self.signal.is_set():
                self._order()
            elif is_over():
                self.signal.set("timed_out")
            elif _is_stopped():
                self.signal.set("interrupted")

    def _order(self) -> None:
        with self._lock:
            if self._since is None:
                self._threads, self._since = frozenset(threading.enumerate()), time.monotonic()
            is_patient = self._shields and time.monotonic() - self._since < _GRACE_SECONDS
            if self._strike is not None and not is_patient:
                self._strike()


def _is_stopped() -> bool:
    """Return True if nobody waits for the script any more: the turn that runs it was stopped."""
    try:
        check_wait()
    except Exception:  # noqa: BLE001 # whatever ends a wait
        return True
    return False
