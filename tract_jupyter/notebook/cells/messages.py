"""The messages of a page, read strictly: an unknown type, version or field refuses the whole message."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import brief_repr, read_as

VERSION: Final = 1
MOST_CHARACTERS: Final = 8_000_000
"""The largest message, in characters of its texts."""
_DEEPEST: Final = 100
_STRICT: Final = ConfigDict(extra="forbid")

CELL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""An id of a cell, as in nbformat."""
Name = Annotated[str, Field(pattern=f"^{CELL_ID.pattern}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
CellKind = Literal["code", "markdown", "raw"]
_Number = Annotated[int, Field(ge=0, le=1_000_000_000)]


@with_config(_STRICT)
class _Message(TypedDict):
    v: Annotated[int, Field(ge=VERSION, le=VERSION)]


@with_config(_STRICT)
class Hello(_Message):
    """The first message of a page."""

    type: Literal["hello"]
    notebook: Annotated[str, Field(max_length=4_096)]
    client: Annotated[str, Field(min_length=1, max_length=200)]
    read_only: bool
    abilities: Annotated[list[Literal["read", "edit", "run", "diff", "watch"]], Field(max_length=5)]


@with_config(_STRICT)
class PageCell(TypedDict):
    """A cell, as the page reports it."""

    id: Name
    kind: CellKind
    source: str
    hash: Digest
    execution_count: _Number | None
    number: _Number
    outputs: NotRequired[Annotated[list[dict[str, Any]], Field(max_length=1_000)]]
    cut: NotRequired[bool]
    metadata_tract: NotRequired[dict[str, Any] | None]


@with_config(_STRICT)
class Cells(_Message):
    """The answer to `read`."""

    type: Literal["cells"]
    reply_to: Name
    cells: Annotated[list[PageCell], Field(max_length=20_000)]


@with_config(_STRICT)
class Changed(_Message):
    """The first change of the notebook after an answer to `read`."""

    type: Literal["changed"]


@with_config(_STRICT)
class EditResult(TypedDict):
    """The outcome of one edit on the page."""

    edit: Name
    state: Literal["applied", "stale", "missing", "read_only"]
    hash_now: Digest | None


@with_config(_STRICT)
class Applied(_Message):
    """The answer to `apply`."""

    type: Literal["applied"]
    reply_to: Name
    results: Annotated[list[EditResult], Field(max_length=100)]


@with_config(_STRICT)
class Chosen(TypedDict):
    """An accepted edit: all of it, some of its hunks, or another text of the user."""

    edit: Name
    hunks: NotRequired[Annotated[list[_Number], Field(max_length=10_000)]]
    source: NotRequired[Annotated[str, Field(max_length=MOST_CHARACTERS)]]


@with_config(_STRICT)
class Decide(_Message):
    """A click at a cell."""

    type: Literal["decide"]
    request: Name
    digest: Annotated[str, Field(min_length=1, max_length=200)]
    choice: Literal["accept", "reject"]
    edits: Annotated[list[Chosen], Field(max_length=100)]
    reason: NotRequired[Annotated[str, Field(max_length=4_000)] | None]


@with_config(_STRICT)
class Ask(_Message):
    """A click on a button of an error."""

    type: Literal["ask"]
    cell: Name
    kind: Literal["fix", "explain"]


@with_config(_STRICT)
class ShowPanel(_Message):
    """The side panel was opened or closed."""

    type: Literal["panel"]
    open: bool


@with_config(_STRICT)
class Stop(_Message):
    """A command to stop the running turn."""

    type: Literal["stop"]


_TYPES: Final[dict[str, Any]] = {
    "hello": Hello,
    "cells": Cells,
    "changed": Changed,
    "applied": Applied,
    "decide": Decide,
    "ask": Ask,
    "panel": ShowPanel,
    "stop": Stop,
}


def read_message(data: object) -> dict[str, Any]:
    """Return a message of a page.

    Raises:
        ContentError: it is too large, of an unknown type or version, or a field is wrong. The hash of each cell must be
            that of its source.
    """
    if not isinstance(data, dict):
        raise ContentError("a message must be an object")
    _check_size(data)
    kind = _TYPES.get(data["type"]) if isinstance(data.get("type"), str) else None
    if kind is None:
        raise ContentError(f"there is no message type {brief_repr(data.get('type'))}")
    message: dict[str, Any] = read_as(kind, data, ContentError, "the message")
    cells: list[PageCell] = message.get("cells", [])
    if len({cell["id"] for cell in cells}) < len(cells):
        raise ContentError("two cells have the same id")
    wrong = [
        cell["id"] for cell in cells if not cell.get("cut") and cell["hash"] != source_hash(cell["source"])
    ]
    if wrong:
        raise ContentError(f"the hash of cell {wrong[0]} does not match its source")
    return message


def source_hash(source: str) -> str:
    """Return the SHA-256 of a source in UTF-8, 64 hex digits."""
    return sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def _check_size(data: dict[str, Any]) -> None:
    """Check a message before anything copies it."""
    left = MOST_CHARACTERS
    todo: list[tuple[Any, int]] = [(data, 0)]
    while todo:
        value, depth = todo.pop()
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, dict | list):
            if depth >= _DEEPEST:
                raise ContentError(f"the message is nested deeper than {_DEEPEST} levels")
            left -= len(value)
            todo += [(item, depth + 1) for item in (value if isinstance(value, list) else value.values())]
            left -= sum(map(len, value)) if isinstance(value, dict) else 0
        if left < 0:
            raise ContentError(f"the message has over {MOST_CHARACTERS:,} characters")
