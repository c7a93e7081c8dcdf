"""Integrity of a database: its pages, by SQLite's own check, and foreign objects in its schema.

Opening looks at what costs the same however large a store is; `problems` reads all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.storage.columns import Stored, from_text
from tract_jupyter.storage.engines import SQLITE
from tract_jupyter.storage.schema import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Column, Connection, Table

_MOST: Final = 100  # problems of pages; a file that is cut in half has thousands
_AT_ONCE: Final = 1_000
# what SQLite makes by itself has no text, or a name that begins so
_SQLITE_OBJECTS: Final = (
    "SELECT type, name, tbl_name FROM sqlite_master WHERE sql IS NOT NULL AND substr(name, 1, 7) != 'sqlite_'"
)
# a schema of PostgreSQL may well hold other things, which a store does not touch
_POSTGRES_OBJECTS: Final = (
    "SELECT 'trigger', t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND n.nspname = current_schema() "
    "UNION ALL SELECT 'rule', rulename, tablename FROM pg_rules WHERE schemaname = current_schema()"
)
_OURS: Final = {("table", name) for name in metadata.tables} | {
    ("index", str(index.name)) for table in metadata.tables.values() for index in table.indexes
}
_MOMENTS: Final = ("_at", "_until")
_RUN: Final = {"trigger", "rule"}


class StoreObject(NamedTuple):
    """Something in a database that has a name: a table, an index, a view, a trigger, and the table that it is of."""

    kind: str
    name: str
    table: str

    @property
    def runs(self) -> bool:
        """True if it does something by itself when one of our tables is written."""
        return self.kind in _RUN and self.table in metadata.tables

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.name == self.table else f" on {self.table}")


def check_opening(connection: Connection, location: str) -> None:
    """Check what can be checked in an instant: that nothing runs by itself. SQLite has looked at the file's header.

    Raises:
        StoreCorruptError: it has triggers, which would run whenever something is written.
    """
    runs = [one for one in _objects(connection) if one.runs]
    if runs:
        on = "" if connection.dialect.name == SQLITE else " ON {0.table}"
        drops = "; ".join(f"DROP {one.kind.upper()} {one.name}{on.format(one)}" for one in runs)
        raise StoreCorruptError(
            f"somebody has added to {location} what runs whenever a tract is written: {', '.join(map(str, runs))}. It "
            f"was not opened, and nothing was changed; look at it and drop it ({drops}), or restore a backup."
        )


def problems(connection: Connection) -> Iterator[str]:
    """Return the problems of a database and its foreign objects. Reads the full database."""
    is_sqlite, is_sound = connection.dialect.name == SQLITE, True
    if is_sqlite:
        for (told,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST})"):
            if told != "ok":
                is_sound = False
                yield f"SQLite's own check: {told}"
    there = list(_objects(connection))
    for one in there:
        if (one.kind, one.name) not in _OURS and (is_sqlite or one.runs):
            yield f"{one} was not made by tract_jupyter"
    if is_sqlite:
        for kind, name in sorted(_OURS - {(one.kind, one.name) for one in there}):
            yield f"{kind} {name} is missing"
        names = {one.name for one in there if is_sound}
        for table in metadata.sorted_tables:
            if table.name in names:
                yield from _values(connection, table)


def _values(connection: Connection, table: Table) -> Iterator[str]:
    """Yield the values of a table that do not fit their columns; SQLite takes a page with such a value for sound.

    Contents have a hash, by which they are checked.
    """
    columns = [column for column in table.columns if _type(column) != "blob"]
    texts = [column for column in columns if _type(column) == "text"]
    tests = ", ".join(
        f"COALESCE(SUM(typeof(\"{column.name}\") NOT IN ('{_type(column)}', 'null')"
        + (
            f" OR NOT json_valid(COALESCE(\"{column.name}\", 'null'))"
            if column.name.endswith("_json")
            else ""
        )
        + "), 0)"
        for column in columns
    )
    counts = connection.exec_driver_sql(f'SELECT {tests} FROM "{table.name}"').one()  # noqa: S608 # our names
    wrong = dict(zip((column.name for column in columns), counts, strict=True))
    bodies = ", ".join(f'CAST("{column.name}" AS BLOB)' for column in texts)
    rows = connection.exec_driver_sql(f'SELECT {bodies or "NULL"} FROM "{table.name}"')  # noqa: S608
    while texts and (some := rows.fetchmany(_AT_ONCE)):
        for column, values in zip(texts, zip(*some, strict=True), strict=True):
            wrong[column.name] += _unreadable(column.name, [one for one in values if one is not None])
    for name, count in wrong.items():
        if count:
            yield f"{table.name}.{name}: {count} of its values cannot be read, or are of another type"


def _unreadable(name: str, bodies: list[bytes]) -> int:
    """Return how many of the values of a column are no text in UTF-8, or no moment."""
    try:
        b"\n".join(bodies).decode()  # a line break ends a cut character: all values are valid, or one is not
    except UnicodeDecodeError:
        return sum(not _can_be_read(name, body) for body in bodies)
    return sum(not _can_be_read(name, body) for body in bodies) if name.endswith(_MOMENTS) else 0


def _type(column: Column[Any]) -> str:
    """Return the type as which SQLite stores a column's values."""
    return column.type.kind if isinstance(column.type, Stored) else "text"


def _can_be_read(name: str, body: bytes) -> bool:
    try:
        text = body.decode()
        if name.endswith(_MOMENTS):
            from_text(text)
    except (UnicodeDecodeError, StoreCorruptError):
        return False
    return True


def _objects(connection: Connection) -> list[StoreObject]:
    query = _SQLITE_OBJECTS if connection.dialect.name == SQLITE else _POSTGRES_OBJECTS
    return [StoreObject._make(row) for row in connection.exec_driver_sql(query)]
