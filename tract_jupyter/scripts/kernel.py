"""The kernel backend: a script as Python code of this process.

Nothing contains it: it reaches whatever the process reaches. What a model wrote runs here only after a person approved
it; the sandbox is for what nobody did.

Python has one way to that: an exception raised in the other thread at its next bytecode. Code that waits in C (a
sleep, a socket) gets it when that returns, and code that catches everything can go on; so it is raised again and again,
and its tool calls end it, too. A tool that works on the store is not struck in the middle of that, unless it takes
too long.

Nothing contains it: it reaches whatever the process reaches. What a model wrote runs here only after a person approved
it; the sandbox is for what nobody did.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import threading
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ToolDeniedError, ToolExecutionError, TractError
from tract_jupyter.review.streams import captured
from tract_jupyter.scripts.call_log import CallLog, EarlierRun
from tract_jupyter.scripts.result import ScriptError, ScriptStatus
from tract_jupyter.storage.interrupts import raise_in, whole_context
from tract_jupyter.toolkit.calling import calling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import CodeType

    from tract_jupyter.scripts.call_log import StoredLog
    from tract_jupyter.scripts.run import ScriptRun


_AGAIN_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 5.0  # for a tool call that is under way


class ScriptStopped(BaseException):  # no error: an order to end, as KeyboardInterrupt is one
    """The script is to end."""


class ScriptPaused(BaseException):
    """The script waits for a decision, and its program is saved with the question."""

    def __init__(self, pending: Any) -> None:
        super().__init__()
        self.pending = pending


class Stopper:
    """Ends what runs within `stoppable` or `killable`.

    Attributes:
        reason: why it was stopped: `timed_out` or `interrupted`; empty if it was not.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._strike: Callable[[], object] | None = None
        self._take_back: Callable[[], object] = lambda: None
        self._shields = 0
        self._since: float | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def stop(self, reason: str) -> None:
        """Have it end; the first reason counts. Returns at once."""
        self.reason = self.reason or reason
        self._order()

    def check(self) -> None:
        """End here, if it was told to.

        Raises:
            ScriptStopped: it was.
        """
        if self.reason:
            raise ScriptStopped

    @whole_context
    def shielded(self) -> Iterator[None]:
        """Let a tool call come to its end first; it is stopped before and after."""
        with self._lock:
            self._shields += 1
            self._take_back()
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._shields -= 1
        self.check()

    def stoppable(self) -> AbstractContextManager[None]:
        """Within this, the current thread can be stopped."""
        thread = threading.get_ident()
        return self.killable(partial(raise_in, thread, ScriptStopped), partial(raise_in, thread, None))

    @whole_context
    def killable(
        self, strike: Callable[[], object], take_back: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """Within this, `strike` ends what runs; `take_back` undoes that where it had no effect yet."""
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
                self._order()
                pause = _AGAIN_SECONDS

    def _order(self) -> None:
        with self._lock:
            self._since = self._since or time.monotonic()
            is_patient = self._shields and time.monotonic() - self._since < _GRACE_SECONDS
            if self._strike is not None and not is_patient:
                self._strike()


NAMES = {"ToolDenied": ToolDeniedError, "ToolExecutionError": ToolExecutionError}
"""What a script can catch."""

_OURS = re.compile(r"^tract_jupyter\.exceptions\.", re.MULTILINE)  # scripts know the names alone
_ENDINGS = {"timed_out": ScriptStatus.TIMED_OUT, "interrupted": ScriptStatus.INTERRUPTED}


def run_in_kernel(run: ScriptRun, namespace: dict[str, Any]) -> None:
    """Run a script's code in a namespace, in the current thread; the outcome is put into `run`."""
    body, value = run.script.compiled()
    process = os.getpid()
    run.script.register()
    stopper = run.stopper
    with stopper.watched(lambda: run.meter.is_over_time):
        try:
            with captured(run.capture), calling(run.calls), stopper.stoppable():
                _evaluated(body, namespace)
                if value is not None:
                    run.value = _evaluated(value, namespace)
            run.status = ScriptStatus.COMPLETED
        except ScriptStopped:
            run.status = _ENDINGS[stopper.reason]
        except KeyboardInterrupt as error:
            run.status, run.error = ScriptStatus.INTERRUPTED, script_error(error, run.script.filename)
        except SystemExit as error:
            run.status = ScriptStatus.COMPLETED if not error.code else ScriptStatus.FAILED
            run.error = None if not error.code else script_error(error, run.script.filename)
        except BaseException as error:  # noqa: BLE001 # whatever a script raises is its result
            run.status, run.error = ScriptStatus.FAILED, script_error(error, run.script.filename)
        finally:
            if os.getpid() != process:
                # It forked: this process has a copy of the store's connection, and nothing more to do here.
                os._exit(0 if run.status is ScriptStatus.COMPLETED else 1)
            run.calls.end()


def _evaluated(code: CodeType, namespace: dict[str, Any]) -> Any:
    value = eval(code, namespace)  # noqa: S307 # the one place that runs a script in this process
    if code.co_flags & inspect.CO_COROUTINE:
        return asyncio.run(value)
    return value


def script_error(error: BaseException, filename: str) -> ScriptError:
    """The exception with the script's own lines, and those of what caused it."""
    shown = traceback.TracebackException.from_exception(error, compact=True)
    _own_lines_only(shown, filename)
    return ScriptError(type(error).__name__, _message(error), _OURS.sub("", "".join(shown.format())))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 # it is a script's own class
        return f"(no message: {type(broken).__name__})"


def _own_lines_only(shown: traceback.TracebackException | None, filename: str) -> None:
    """Leave out frames that are not the script's: those of this package and of libraries."""
    seen = set()
    while shown is not None and id(shown) not in seen:
        seen.add(id(shown))
        own = [frame for frame in shown.stack if frame.filename == filename]
        shown.stack = traceback.StackSummary.from_list(own)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)




def _words(error: Exception) -> str:
    return str(error).rstrip(".")
