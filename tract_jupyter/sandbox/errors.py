"""What went wrong in the sandbox, in words: its Python is a subset, and its door is narrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

LACKS = (
    "The sandbox runs a subset of Python: no inheritance, no generators (yield), no del, no exec or globals, no "
    "packages and only a part of the standard library"
)


class Explained(NamedTuple):
    """An exception of the sandbox: its type's name, its message with a hint, and the traceback as it is shown."""

    name: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Hints:
    """What to do where the sandbox itself is the reason; that depends on what runs there.

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
        """What helps with an error; empty where the code itself is the reason."""
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


def explained(error: Any, shown: str, hints: Hints) -> Explained:
    """An error of `pydantic_monty` with what to do where the sandbox itself is the reason.

    Args:
        error: a `MontyError`.
        shown: its traceback, with the places that the code's author knows.
        hints: for what runs there.
    """
    inner = getattr(error, "exception", lambda: error)()
    name, message = type(inner).__name__, str(inner)
    hint = hints.of(name, message)
    lines = f"{shown.rstrip()}\n" + (f"{hint}.\n" if hint else "")
    return Explained(name, f"{message}. {hint}" if hint else message, lines)
