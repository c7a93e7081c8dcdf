"""From any text to names that can be written in Python code."""

from __future__ import annotations

import keyword
import re
import unicodedata
from itertools import chain, count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

_LONGEST = 60


def identifier(text: str) -> str:
    """The text as a name: other characters become `_`, a keyword gets a trailing `_`."""
    name = unicodedata.normalize("NFKC", text)  # the form in which Python reads names
    if not name.isidentifier():
        name = re.sub(r"\W", "_", name)
    if not name.isidentifier():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def argument_names(names: Iterable[str]) -> dict[str, str]:
    """Map a name of its own to each name, in an order that begins with those that can be written as they are."""
    mapped: dict[str, str] = {}
    for name in sorted(names, key=lambda name: _argument_name(name) != name):
        mapped[unused(_argument_name(name), mapped)] = name
    return mapped


def unused(name: str, taken: Container[str]) -> str:
    """The first of `name`, `name_`, `name_2`, `name_3`, ... that is not taken."""
    return next(made for made in _candidates(name) if made not in taken)


def _candidates(name: str) -> Iterator[str]:
    return chain((name, f"{name}_"), (f"{name}_{number}" for number in count(2)))


def _argument_name(name: str) -> str:
    """Type checkers take an argument whose name begins with two underscores for one without a name."""
    cleaned = identifier(name[:_LONGEST])
    return f"arg{cleaned}" if cleaned.startswith("__") else cleaned
