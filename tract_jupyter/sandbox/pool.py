"""The worker processes of the sandbox. They start with the first code, and end with the tract.

A busy worker does not notice the death of this process. So a guard, a small shell, waits for it at the end of a pipe,
and then kills the active workers.
"""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

from tract_jupyter.exceptions import NoSandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic_monty import Monty, MontySession

P = ParamSpec("P")
R = TypeVar("R")

_MOST_WORKERS = 8
_GUARD: Final = 'while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -9 $pids'
"""Each line has the processes that are in use. The pipe closes with this process, however it ends."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one sandbox session; None means no limit.

    Attributes:
        seconds: Running time of each piece of code.
        memory: Memory in bytes.
        suspensions: The number of requests to the host: calls, imports, names.
        output_characters: The number of kept characters of the output.
    """

    seconds: float | None
    memory: int | None
    suspensions: int | None = None
    output_characters: int = 50_000

    def options(self) -> Any:
        """Return the limits as options of `pydantic_monty`."""
        options = {"max_feed_duration_secs": self.seconds, "max_memory": self.memory}
        return options if self.suspensions is None else {**options, "max_suspensions": self.suspensions}


class SandboxPool:
    """The sandboxes of one tract. They load `pydantic-monty`, an extra, on first use.

    Attributes:
        in_use: The process ids of workers with a session.
    """

    def __init__(self) -> None:
        self._monty: Monty | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.in_use: list[int] = []
        self._lock = threading.Lock()
        _POOLS.add(self)

    def opened(self) -> Monty:
        """Return the pool of interpreters. Start it on first use.

        Raises:
            NoSandboxError: `pydantic-monty` is not installed.
        """
        try:
            from pydantic_monty import Monty
        except ImportError:
            raise NoSandboxError(
                "the sandbox is not installed; install it: pip install 'tract_jupyter[sandbox]'"
            ) from None
        with self._lock:
            if self._monty is None:
                monty = Monty(max_processes=_MOST_WORKERS)
                monty.__enter__()
                self._monty, self._guard = monty, _start_guard()
            return self._monty

    @contextmanager
    def checkout(self, **options: Any) -> Iterator[SandboxSession]:
        """Yield a session in a separate worker process. The worker ends with this process."""
        with self.opened().checkout(**options) as monty:
            worker = monty.worker_pid  # not available while the worker is busy
            session = SandboxSession(monty, worker)
            if worker is not None:
                self._update_guard(self.in_use.append, worker)
            try:
                yield session
            finally:
                session.close()
                if worker is not None:
                    self._update_guard(self.in_use.remove, worker)

    def close(self) -> None:
        """End the worker processes. Later code starts new ones."""
        with self._lock:
            monty, self._monty = self._monty, None
            guard, self._guard = self._guard, None
        if monty is not None:
            monty.__exit__(None, None, None)
        if guard is not None and guard.stdin is not None:
            guard.stdin.write(b"\n")
            guard.stdin.close()
            guard.wait()

    def leave_guard(self) -> None:
        """Close the pipe to the guard in a child of a fork. The guard must not wait for the child."""
        if self._guard is not None and self._guard.stdin is not None:
            os.close(self._guard.stdin.fileno())
            self._guard = None

    def _update_guard(self, change: Callable[[int], object], worker: int) -> None:
        with self._lock:
            change(worker)
            if self._guard is not None and self._guard.stdin is not None:
                with suppress(OSError):  # the guard was killed
                    self._guard.stdin.write(f"{' '.join(map(str, self.in_use))}\n".encode())


_POOLS: WeakSet[SandboxPool] = WeakSet()


def _start_guard() -> subprocess.Popen[bytes] | None:
    """Start the guard; None without a shell, as on Windows. Then a worker ends at its limits."""
    null = subprocess.DEVNULL
    with suppress(OSError):
        return subprocess.Popen(  # noqa: S603 # our own text
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE, stdout=null, stderr=null, bufsize=0, start_new_session=True,
        )  # fmt: skip
    return None


def _leave_guards() -> None:
    for pool in list(_POOLS):
        pool.leave_guard()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_guards)


class SandboxSession:
    """A session of the sandbox. Its calls can be interrupted, because they run in a worker process."""

    def __init__(self, monty: MontySession, worker: int | None) -> None:
        self.monty = monty
        self._worker = worker
        self._caller: ThreadPoolExecutor | None = None

    def kill(self) -> None:
        """Kill the worker. An active call raises `MontyCrashedError`."""
        if self._worker is not None:
            with suppress(ProcessLookupError):
                os.kill(self._worker, signal.SIGKILL)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that waits for the worker.

        `pydantic_monty` waits outside Python, and no signal handler runs during this wait. So the main thread waits for
        a helper thread. If a signal handler raises, as for Ctrl-C, the worker is killed.
        """
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        if self._caller is None:
            self._caller = ThreadPoolExecutor(1, "tract-sandbox")
        work = partial(contextvars.copy_context().run, function, *args, **kwargs)
        waiting = self._caller.submit(work)
        try:
            return waiting.result()
        except BaseException:
            if not waiting.done():
                self.kill()
            raise

    def close(self) -> None:
        """Let the helper thread end after the worker has answered or died."""
        if self._caller is not None:
            self._caller.shutdown()


LACKS = (
    "The sandbox runs a subset of Python: no inheritance, no generators (yield), no del, no exec or globals, no "
    "packages and only a part of the standard library"
)


class ErrorReport(NamedTuple):
    """An exception of the sandbox: the name of its type, its message with a hint, and its traceback."""

    name: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class ErrorHints:
    """Advice about errors that the sandbox causes. It depends on the kind of code.

    `closed` is about files, network and environment. `members` has advice by the beginning of the `AttributeError`.
    """

    lacks: str
    modules: str
    closed: str
    members: tuple[tuple[str, str], ...] = ()

    def of(self, name: str, message: str) -> str:
        """Return the advice about an error; empty if the code itself is the cause."""
        if name in {"NotImplementedError", "SyntaxError"} and "not yet support" in message:
            return self.lacks
        if name == "ModuleNotFoundError":
            return self.modules
        if name == "PermissionError" and message.startswith("Permission denied"):
            return self.closed
        if "is not supported in this environment" in message:
            return self.closed
        if name == "AttributeError":
            return next((hint for begins, hint in self.members if message.startswith(begins)), "")
        return ""


def explain_error(error: Any, traceback_text: str, hints: ErrorHints) -> ErrorReport:
    """Report an error of `pydantic_monty`, with advice if the sandbox is the cause."""
    inner = getattr(error, "exception", lambda: error)()
    name, message = type(inner).__name__, str(inner)
    hint = hints.of(name, message)
    lines = f"{traceback_text.rstrip()}\n" + (f"{hint}.\n" if hint else "")
    return ErrorReport(name, f"{message}. {hint}" if hint else message, lines)
