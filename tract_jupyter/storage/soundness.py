"""Integrity of a database: SQLite's own check of the pages, and unexpected objects in the schema.

`check_opening` takes constant time; `problems` reads the full database.
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
# SQLite's own objects have no SQL text, or a name with this prefix
_SQLITE_OBJECTS: Final = (
    "SELECT type, name, tbl_name FROM sqlite_master WHERE sql IS NOT NULL AND substr(name, 1, 7) != 'sqlite_'"
)
# a PostgreSQL schema may contain other objects; only triggers and rules affect a store
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
    """A named object in a database: a table, an index, a view or a trigger, with its table."""

    kind: str
    name: str
    table: str

    @property
    def runs(self) -> bool:
        """True if a write to one of our tables runs the object."""
        return self.kind in _RUN and self.table in metadata.tables

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.name == self.table else f" on {self.table}")


def check_opening(connection: Connection, location: str) -> None:
    """Check that the store has no triggers or rules. SQLite has checked the file's header before.

    Raises:
        StoreCorruptError: the store has triggers or rules, which would run with every write.
    """
    runs = [item for item in _objects(connection) if item.runs]
    if runs:
        on = "" if connection.dialect.name == SQLITE else " ON {0.table}"
        drops = "; ".join(f"DROP {item.kind.upper()} {item.name}{on.format(item)}" for item in runs)
        raise StoreCorruptError(
            f"{location} has code that runs with every write: {', '.join(map(str, runs))}. It was not opened, and "
            f"nothing was changed; check and drop the code ({drops}), or restore a backup."
        )


def problems(connection: Connection) -> Iterator[str]:
    """Yield the problems of a database and its unexpected objects. Reads the full database."""
    is_sqlite, is_sound = connection.dialect.name == SQLITE, True
    if is_sqlite:
        for (problem,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST})"):
            if problem != "ok":
                is_sound = False
                yield f"SQLite's own check: {problem}"
    existing = list(_objects(connection))
    for item in existing:
        if (item.kind, item.name) not in _OURS and (is_sqlite or item.runs):
            yield f"{item} was not made by tract_jupyter"
    if is_sqlite:
        for kind, name in sorted(_OURS - {(item.kind, item.name) for item in existing}):
            yield f"{kind} {name} is missing"
        names = {item.name for item in existing if is_sound}
        for table in metadata.sorted_tables:
            if table.name in names:
                yield from _values(connection, table)


def _values(connection: Connection, table: Table) -> Iterator[str]:
    """Yield the number of invalid values of each column. SQLite's own check ignores them.

    Contents are not included, since their hashes are checked.
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
            wrong[column.name] += _unreadable(column.name, [value for value in values if value is not None])
    for name, count in wrong.items():
        if count:
            yield f"{table.name}.{name}: {count} of its values are unreadable or have the wrong type"


def _unreadable(name: str, bodies: list[bytes]) -> int:
    """Count the values of a column that are not valid UTF-8 or not valid times."""
    try:
        b"\n".join(bodies).decode()  # a line break cannot complete a character of the value before it
    except UnicodeDecodeError:
        return sum(not _can_be_read(name, body) for body in bodies)
    return sum(not _can_be_read(name, body) for body in bodies) if name.endswith(_MOMENTS) else 0


def _type(column: Column[Any]) -> str:
    """Return SQLite's type of a column's values."""
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
