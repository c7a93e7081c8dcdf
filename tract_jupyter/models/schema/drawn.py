"""Values drawn from types: a typical value first, then edge cases. The same types always give the same values."""

from __future__ import annotations

import types
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.models.schema.parameters import ParameterSet

_WORDS: Final = {
    "url": "https://example.com/a",
    "link": "https://example.com/a",
    "source": "https://example.com/a",
    "path": "notes.txt",
    "file": "notes.txt",
    "mail": "ada@example.com",
    "date": "2026-02-28",
    "name": "Ada",
    "text": "A sentence, with a comma.",
}
"""Typical texts, by a part of the value's name."""
_TEXTS: Final = ("", "ä\n\t'\"<b>{}%", "word " * 60)
_NUMBERS: Final[dict[Any, tuple[Any, ...]]] = {
    int: (3, 0, -1, 2**53),
    float: (1.5, 0.0, -1.0, 1e308),
    bool: (True, False),
    None: (None,),
    type(None): (None,),
}
_MOST: Final = 8  # values of one type
_DEEP: Final = 4  # types within types


def drawn_values(annotation: Any, name: str = "") -> list[Any]:
    """Return a few values of a type, new and plain, the typical one first. The name selects a matching text."""
    return list(islice(_drawn(annotation, name, 0), _MOST))


def drawn_arguments(parameters: ParameterSet, most: int) -> list[dict[str, Any]]:
    """Return at most `most` sets of values for all parameters: typical values, then defaults, then edge cases.

    No two sets are the same. Each value matches its type, but `validate` may still refuse it.
    """
    columns = {p.name: drawn_values(p.annotation, p.name) for p in parameters}
    usual = {name: values[0] for name, values in columns.items()}
    defaults = {p.name: usual[p.name] if p.required else p.default for p in parameters}
    rows = [usual, defaults]
    rows += [  # a type with fewer edges has its usual value again
        {name: values[place if place < len(values) else 0] for name, values in columns.items()}
        for place in range(1, max(map(len, columns.values()), default=0))
    ]
    drawn: list[dict[str, Any]] = []
    for row in rows:
        if row not in drawn and len(drawn) < most:
            drawn.append(row)
    return drawn


def _drawn(annotation: Any, name: str, depth: int) -> Iterator[Any]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is str:
        yield _usual_text(name)
        yield from _TEXTS
    elif annotation in _NUMBERS:
        yield from _NUMBERS[annotation]
    elif origin is Literal:
        yield from inner
    elif origin in {Union, types.UnionType}:
        columns = [list(_drawn(member, name, depth + 1)) for member in inner] if depth < _DEEP else [[None]]
        for values in zip_longest(*columns, fillvalue=_NONE):
            yield from (value for value in values if value is not _NONE)
    elif annotation is list or origin is list:
        items = list(_drawn(inner[0], name, depth + 1)) if inner and depth < _DEEP else ["example", 1]
        yield items[:1]
        yield []
        yield items
    elif annotation is dict or origin is dict:
        within = list(_drawn(inner[1], name, depth + 1)) if inner and depth < _DEEP else ["example"]
        yield {"key": within[0]}
        yield {}
        yield {f"key {number}": value for number, value in enumerate(within, 1)}
    else:
        yield from ("example", 0, None, [], {"key": "value"})


_NONE: Final = object()


def _usual_text(name: str) -> str:
    return next((text for word, text in _WORDS.items() if word in name.lower()), "example")
