"""What went wrong in the sandbox, in words: its Python is a subset, and its door is narrow."""

from __future__ import annotations

import re
from typing import Any

from tract_jupyter.scripts.result import ScriptError

_LACKS = (
    "The sandbox runs a subset of Python: no inheritance, no generators (yield), no del, no exec or globals, no "
    "packages and only a part of the standard library. Write it otherwise, or have a person approve it for the kernel"
)
_FILENAME = re.compile(r"<python-input-\d+>")
_CLOSED = (
    "The sandbox has no files, no network and no environment; tools are its only way out: tools.NAME(...)"
)
_MODULES = (
    "Of modules it has tools, and a part of the standard library: json, re, math, datetime, collections, ..."
)


def explained(error: Any, filename: str) -> ScriptError:
    """An error of `pydantic_monty` as a script's, with what to do where the sandbox itself is the reason."""
    shown = _FILENAME.sub(filename, error.display().rstrip()) + "\n"
    inner = getattr(error, "exception", lambda: error)()
    name, message = type(inner).__name__, str(inner)
    hint = _hint(name, message)
    return ScriptError(
        name, f"{message}. {hint}" if hint else message, shown + (f"{hint}.\n" if hint else "")
    )


def _hint(name: str, message: str) -> str:
    if name in {"NotImplementedError", "SyntaxError"} and "not yet support" in message:
        return _LACKS
    if name == "ModuleNotFoundError":
        return _MODULES
    if name == "PermissionError" and message.startswith("Permission denied"):
        return _CLOSED
    if "is not supported in this environment" in message:
        return _CLOSED
    return ""
