"""Integrity of a database: SQLite's own check of the pages, and unexpected objects in the schema.

`check_opening` takes constant time; `problems` reads the full database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.storage.engines import SQLITE
from tract_jupyter.storage.schema import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_MOST: Final = 100  # problems of pages; a file that is cut in half has thousands
# SQLite's own objects have no SQL text, or are tables with this prefix
_SQLITE_OBJECTS: Final = (
    "SELECT CASE WHEN type = 'table' AND sql NOT LIKE 'CREATE TABLE %' THEN 'virtual table' ELSE type END, name, "
    "tbl_name FROM sqlite_master WHERE sql IS NOT NULL AND (type != 'table' OR substr(name, 1, 7) != 'sqlite_')"
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
_RUN: Final = {"trigger", "rule"}
_COMPUTED: Final = {"view", "virtual table"}
# `context.verification` names the missing commits and contents
_HISTORY: Final = {"commits", "commit_parents", "refs"}


class StoreObject(NamedTuple):
    """A named object in a database: a table, an index, a view or a trigger, with its table."""

    kind: str
    name: str
    table: str

    @property
    def runs(self) -> bool:
        """True if the use of one of our tables runs the object. SQLite ignores the case of names."""
        return self.kind in _RUN | _COMPUTED and self.table.lower() in metadata.tables

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.name == self.table else f" on {self.table}")


def check_opening(connection: Connection, location: str) -> None:
    """Check that the store has no triggers or rules, and no views in place of tables: they would run by themselves."""
    runs = [item for item in _objects(connection) if item.runs]
    if runs:
        on = "" if connection.dialect.name == SQLITE else " ON {0.table}"
        drops = "; ".join(
            f"DROP {item.kind.split()[-1].upper()} {item.name}{on.format(item)}" for item in runs
        )
        raise StoreCorruptError(
            f"{location} has code that runs by itself: {', '.join(map(str, runs))}. It was not opened, and "
            f"nothing was changed; check and drop the code ({drops}), or restore a backup."
        )


def problems(connection: Connection) -> Iterator[str]:
    """Yield the problems of SQLite's pages, and the unexpected and missing objects of a database."""
    is_sqlite = connection.dialect.name == SQLITE
    if is_sqlite:
        pages = [problem for (problem,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST})")]
        yield from (f"SQLite's own check: {problem}" for problem in pages if problem != "ok")
        if pages == ["ok"]:  # otherwise reading may fail
            rows = connection.exec_driver_sql("PRAGMA foreign_key_check")
            for table, other in sorted(
                {(table, other) for table, _, other, _ in rows if table not in _HISTORY}
            ):
                yield f"a row of {table} refers to a row of {other} that is missing"
    existing = list(_objects(connection))
    for item in existing:
        if (item.kind, item.name) not in _OURS and (is_sqlite or item.runs):
            yield f"{item} was not made by tract_jupyter"
    if is_sqlite:
        for kind, name in sorted(_OURS - {(item.kind, item.name) for item in existing}):
            yield f"{kind} {name} is missing"


def _objects(connection: Connection) -> list[StoreObject]:
    query = _SQLITE_OBJECTS if connection.dialect.name == SQLITE else _POSTGRES_OBJECTS
    return [StoreObject._make(row) for row in connection.exec_driver_sql(query)]
