"""From tool names, which may be any text, to Python names."""

from __future__ import annotations

import keyword
import re
import unicodedata
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationExistsError

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "fire_"
"""How the tools of operations begin; others may not, so the two never collide."""

HELPERS = ("list_tools", "call_log", "savings")
"""What the `tools` module offers besides the tools; a tool of the same name wins."""


def python_name(name: str) -> str:
    """The Python name of a tool: other characters become `_`, a keyword gets a trailing `_`."""
    cleaned = unicodedata.normalize("NFKC", name)  # the form in which Python reads names
    if not cleaned.isidentifier():
        cleaned = re.sub(r"\W", "_", cleaned)
    if not cleaned.isidentifier():
        cleaned = f"_{cleaned}"
    if cleaned.startswith("__") and cleaned.endswith("__"):  # Python's own
        cleaned = f"tool{cleaned}"
    return f"{cleaned}_" if keyword.iskeyword(cleaned) else cleaned


def python_names(names: Iterable[str]) -> dict[str, str]:
    """Map Python names to tool names.

    Raises:
        OperationExistsError: two tools come to the same Python name.
    """
    mapped: dict[str, str] = {}
    for name in names:
        short = python_name(name)
        if short in mapped:
            raise OperationExistsError(
                f"tools {mapped[short]!r} and {name!r} would both be called {short!r}; rename one"
            )
        mapped[short] = name
    return mapped
