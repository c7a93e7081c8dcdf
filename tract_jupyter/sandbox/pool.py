"""The worker processes of the sandbox: started when the first code is to run, ended with the tract."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import NoSandboxError

if TYPE_CHECKING:
    from pydantic_monty import Monty


_MOST_WORKERS = 8


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one session of the sandbox; None stands for no limit.

    Attributes:
        seconds: of running, for each piece of code that it is fed.
        memory: bytes.
        suspensions: how often code may stop to ask for something: calls, imports, names.
        output_characters: that are kept of what it prints.
    """

    seconds: float | None
    memory: int | None
    suspensions: int | None = None
    output_characters: int = 50_000

    def options(self) -> Any:
        """Return the limits as `pydantic_monty` takes them."""
        asked = {"max_feed_duration_secs": self.seconds, "max_memory": self.memory}
        return asked if self.suspensions is None else {**asked, "max_suspensions": self.suspensions}


class SandboxPool:
    """The sandboxes of one tract. `pydantic-monty`, an extra, is loaded when they are first needed."""

    def __init__(self) -> None:
        self._monty: Monty | None = None
        self._lock = threading.Lock()

    def opened(self) -> Monty:
        """Return the pool that sandboxes come from.

        Raises:
            NoSandboxError: it is not installed.
        """
        try:
            from pydantic_monty import Monty
        except ImportError:
            raise NoSandboxError(
                "there is no sandbox in this environment; install it: pip install 'tract_jupyter[sandbox]'"
            ) from None
        with self._lock:
            if self._monty is None:
                monty = Monty(max_processes=_MOST_WORKERS)
                monty.__enter__()
                self._monty = monty
            return self._monty

    def close(self) -> None:
        """End the worker processes; later code starts new ones."""
        with self._lock:
            monty, self._monty = self._monty, None
        if monty is not None:
            monty.__exit__(None, None, None)


LACKS = (
    "The sandbox runs a subset of Python: no inheritance, no generators (yield), no del, no exec or globals, no "
    "packages and only a part of the standard library"
)


class ErrorReport(NamedTuple):
    """An exception of the sandbox: its type's name, its message with a hint, and the traceback to show."""

    name: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class ErrorHints:
    """Advice for errors whose reason is the sandbox itself; it depends on what runs there.

    Attributes:
        lacks: its Python has no words for it.
        modules: it has no such module.
        closed: it has no files, no network, no environment.
        members: by the beginning of an `AttributeError`, what is there instead.
    """

    lacks: str
    modules: str
    closed: str
    members: tuple[tuple[str, str], ...] = ()

    def of(self, name: str, message: str) -> str:
        """Return the advice for an error; empty where the code itself is the reason."""
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


def explained(error: Any, shown: str, hints: ErrorHints) -> ErrorReport:
    """Report an error of `pydantic_monty`, with advice where the sandbox itself is the reason.

    Args:
        error: a `MontyError`.
        shown: its traceback, with the places that the code's author knows.
        hints: for what runs there.
    """
    inner = getattr(error, "exception", lambda: error)()
    name, message = type(inner).__name__, str(inner)
    hint = hints.of(name, message)
    lines = f"{shown.rstrip()}\n" + (f"{hint}.\n" if hint else "")
    return ErrorReport(name, f"{message}. {hint}" if hint else message, lines)
