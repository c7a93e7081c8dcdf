"""Stored values: times, and column types that check values on read and report damage.

SQLite does not enforce column types. A flipped bit can change a text to a number, or a number to NULL, and the page
remains valid.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Boolean, Integer, LargeBinary, type_coerce
from sqlalchemy.types import TypeDecorator

from tract_jupyter.exceptions import StoreCorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import Column, Dialect
    from sqlalchemy.types import TypeEngine

T = TypeVar("T", dict[str, Any], list[Any])
V = TypeVar("V")

_AT_ONCE: Final = 500  # SQLite bounds the number of variables
_KINDS: Final = {"text": str, "integer": int, "blob": bytes}


class Stored(TypeDecorator[Any]):
    """A column type that checks the values on read."""

    impl = LargeBinary  # replaced in the constructor
    cache_ok = True

    def __init__(self, of: TypeEngine[Any], name: str, allowed: frozenset[type]) -> None:
        super().__init__()
        self.impl = self.impl_instance = of  # type: ignore[assignment] # as SQLAlchemy does it itself
        self.of = of
        self.name = name
        self.allowed = allowed

    @property
    def kind(self) -> str:
        """The type that SQLite stores: `text`, `integer` or `blob`."""
        return next(word for word, kind in _KINDS.items() if kind in self.allowed)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Return the function that checks and converts each value."""
        allowed = self.allowed
        convert = self.impl_instance.result_processor(dialect, coltype)

        def check(value: Any) -> Any:
            if type(value) not in allowed:
                raise self._damaged(value)
            return value if convert is None else convert(value)

        return check

    def damage_among(self, values: Iterable[Any]) -> StoreCorruptError:
        """Return the error for the first damaged value."""
        return self._damaged(next(value for value in values if type(value) not in self.allowed))

    def _damaged(self, value: Any) -> StoreCorruptError:
        description = "nothing" if value is None else f"a value of type {type(value).__name__}"
        return damaged(f"{self.name} is {description} in a row")


def check_columns(columns: Iterable[Column[Any]]) -> None:
    """Check the values of a table's columns on read."""
    for column in columns:
        column.type = Stored(column.type, f"{column.table.name}.{column.name}", _allowed(column))


def can_hold(column: Column[Any], value: object) -> bool:
    """Return True if a value has a type of the column."""
    kind = column.type
    assert isinstance(kind, Stored)  # noqa: S101 # for the type checker: every column's is
    return type(value) in kind.allowed


def optional(column: Column[Any]) -> Any:
    """Return a nullable column of an outer join."""
    kind = column.type
    assert isinstance(kind, Stored)  # noqa: S101 # as above
    as_optional = Stored(kind.of, kind.name, kind.allowed | {type(None)})
    return type_coerce(column, as_optional).label(column.name)


def unchecked(column: Column[Any]) -> Any:
    """Return a column of signed rows without the check. An altered row is safe to read: its signature is invalid."""
    kind = column.type
    assert isinstance(kind, Stored)  # noqa: S101 # as above
    return type_coerce(column, kind.of).label(column.name)


def batched(values: Iterable[V]) -> Iterator[list[V]]:
    """Yield the values in groups for one statement each."""
    every = list(values)
    return (every[start : start + _AT_ONCE] for start in range(0, len(every), _AT_ONCE))


def from_json(text: str, kind: type[T]) -> T:
    """Read a stored JSON object or list."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(f"{text[:40]!r} is not valid JSON") from error
    if not isinstance(value, kind):
        raise damaged(f"{text[:40]!r} is not a JSON {'object' if kind is dict else 'list'}")
    return value


def damaged(what: str) -> StoreCorruptError:
    """Return the error for a damaged value."""
    return StoreCorruptError(
        f"the store is damaged: {what}. Restore a backup; 'tract-jupyter verify FILE' lists the damage."
    )


def _allowed(column: Column[Any]) -> frozenset[type]:
    if isinstance(column.type, Integer):
        types: set[type] = {int}
    elif isinstance(column.type, Boolean):
        types = {int, bool}  # SQLite has numbers
    else:
        types = {bytes if isinstance(column.type, LargeBinary) else str}
    # `commits.checked` reports a missing content
    return frozenset({*types, type(None)} if column.nullable or bytes in types else types)


# --- times


def to_text(moment: datetime) -> str:
    """Return a time as UTC, ISO 8601, always with microseconds: text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Read a time that `to_text` wrote."""
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise damaged(f"{text!r:.40} is not a valid time") from error
    if moment.tzinfo is None:
        raise damaged(f"{text!r:.40} has no time zone")
    return moment


def now_text() -> str:
    """Return the current time in the store's format."""
    seconds, microseconds = divmod(time.time_ns() // 1_000, 1_000_000)
    return f"{_second(seconds)}.{microseconds:06}+00:00"  # isoformat takes three times as long


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
