"""Stopping a script from another thread, after a timeout or an interrupt by the user.

Python has only one way to do this: it raises an exception in the other thread at the next bytecode. Code that waits in
C (a sleep, a socket) gets the exception when the wait returns, and code that catches all exceptions can continue. So
the stopper raises the exception repeatedly, and the script's tool calls also end the script. The stopper interrupts a
tool call only if the call takes too long.
"""

from __future__ import annotations

import contextvars
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.concurrency import StopSignal
from tract_jupyter.review import check_wait
from tract_jupyter.storage import Order, protected_context, raise_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager


_AGAIN_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 5.0  # for an active tool call


class ScriptStopped(Order):
    """An order to end the script."""


class ScriptPaused(Order):
    """An order to pause the script until a decision. The request has the saved program."""

    def __init__(self, pending: Any) -> None:
        super().__init__()
        self.pending = pending


class Stopper:
    """A switch that ends the code within `stoppable` or `killable`.

    Attributes:
        signal: The stop signal. Its reason is `timed_out` or `interrupted`.
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
        """Raise an error if the script was stopped."""
        if self.signal.is_set():
            raise ScriptStopped

    def was_stopped_before(self, thread: threading.Thread) -> bool:
        """Return True if the script was stopped before this thread started."""
        return self._since is not None and thread not in self._threads

    def shield(self) -> None:
        """Protect a tool call until `unshield`. The script stops before or after the call.

        Raises:
            ScriptStopped: The script was stopped. A call in another thread does not cancel the order to the script's
                thread.
        """
        with self._lock:
            self.check()
            self._shields += 1
            self._take_back()

    def unshield(self) -> None:
        """End the protection of a tool call."""
        with self._lock:
            self._shields -= 1

    def stoppable(self) -> AbstractContextManager[None]:
        """Make the current thread stoppable."""
        thread = threading.get_ident()
        return self.killable(partial(raise_in, thread, ScriptStopped), partial(raise_in, thread, None))

    @protected_context
    def killable(
        self, strike: Callable[[], object], take_back: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """Allow `strike` to end the running code. `take_back` cancels a strike that had no effect yet."""
        with self._lock:
            self._strike, self._take_back = strike, take_back
        try:
            self.check()
            yield
        finally:
            with self._lock:  # a later order has no target
                take_back()
                self._strike, self._take_back = None, lambda: None

    @protected_context
    def watched(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Watch the script from a separate thread. Stop it if it is over, and repeat orders without effect."""
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
    """Return True if the turn that runs the script was stopped."""
    try:
        check_wait()
    except Exception:  # noqa: BLE001 # any error that ends a wait
        return True
    return False
