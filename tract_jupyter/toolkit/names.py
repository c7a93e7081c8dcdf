"""From tool names, which may be any text, to Python names, and to names that providers allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationExistsError
from tract_jupyter.models.canonical import sha256
from tract_jupyter.models.chat_shapes import provider_name
from tract_jupyter.models.identifiers import identifier

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "fire_"
"""How the tools of operations begin; others may not, so the two never collide."""

HELPERS = ("list_tools", "stub_source", "call_log", "savings")
"""What the `tools` module offers besides the tools; a tool of the same name wins."""


def python_name(name: str) -> str:
    """The Python name of a tool: other characters become `_`, a keyword gets a trailing `_`."""
    cleaned = identifier(name)
    is_special = cleaned.startswith("__") and cleaned.endswith("__")  # Python's own
    return f"tool{cleaned}" if is_special else cleaned


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


def provider_names(names: Iterable[str]) -> dict[str, str]:
    """Map names that providers allow to tool names. Of two tools that come to the same name one gets a suffix."""
    mapped: dict[str, str] = {}
    # a tool keeps a name that is allowed, whatever another one comes to
    for name in sorted(names, key=lambda name: provider_name(name) != name):
        short = provider_name(name)
        mapped[short if short not in mapped else f"{short[:55]}_{sha256(name.encode())[:8]}"] = name
    return mapped
