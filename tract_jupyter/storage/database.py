"""One database: opening it, transactions on it, and its errors in our words.

SQLite in WAL mode by default, any SQLAlchemy URL otherwise. A transaction is short and holds one connection. A write
transaction takes SQLite's write lock at its beginning (`BEGIN IMMEDIATE`), so it never fails half-way for want of it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, create_engine, event, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from tract_jupyter.exceptions import StoreClosedError, StoreCorruptError, StoreError, StoreVersionError
from tract_jupyter.storage.errors import translate
from tract_jupyter.storage.schema import SCHEMA_VERSION, meta, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

MEMORY = ":memory:"
_SHORTEST_FILE = 512  # bytes: https://www.sqlite.org/fileformat.html


class Database:
    """A database that holds tracts.

    Args:
        path: the SQLite file, created with its folder if it is not there; `:memory:` for none.
        url: an SQLAlchemy URL instead of a path.
        lock_timeout: seconds to wait for another process's lock.

    Raises:
        StoreError: it cannot be opened; the subclass tells why. A file is never changed by a failed opening.
    """

    def __init__(
        self, path: str | Path = MEMORY, *, url: str | None = None, lock_timeout: float = 5.0
    ) -> None:
        target = _target(path, url)
        self.location = str(path) if url is None else target.render_as_string(hide_password=True)
        in_memory = target.get_backend_name() == "sqlite" and target.database in {None, "", MEMORY}
        # one connection serves all threads of an in-memory store, so they take turns
        self._turn: Any = threading.RLock() if in_memory else nullcontext()
        self._closed = False
        self._engine = _engine(target, lock_timeout, in_memory=in_memory)
        try:
            self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction: one consistent view."""
        with self._connection() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction: all of it happens, or nothing does."""
        with self._connection() as connection:
            connection.execution_options(tract_write=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Release all connections. A second call does nothing."""
        self._closed = True
        self._engine.dispose()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._closed:
            raise StoreClosedError(f"the tract on {self.location} was closed; open it again with Tract.open")
        try:
            with self._turn, self._engine.connect() as connection:
                yield connection
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise translate(cause, self.location) from cause

    def _prepare(self) -> None:
        version = self._version()
        if version is None:
            self._use_wal()
            with self.write() as connection:
                metadata.create_all(connection)
                if (
                    connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).first()
                    is None
                ):
                    connection.execute(meta.insert().values(key="schema_version", value=str(SCHEMA_VERSION)))
        elif version > SCHEMA_VERSION:
            raise StoreVersionError(
                f"{self.location} was written by a newer tract_jupyter (store version {version}, this one knows "
                f"{SCHEMA_VERSION}); upgrade with 'python -m pip install -U tract_jupyter'. Nothing was changed."
            )

    def _use_wal(self) -> None:
        """Readers and a writer do not block each other; the setting stays in the file."""
        if self._engine.dialect.name == "sqlite":
            with self._connection() as connection:
                connection.connection.driver_connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[union-attr]

    def _check_empty(self, connection: Connection) -> None:
        """Refuse a short file: SQLite takes one of less than 512 bytes for an empty one, and would overwrite it."""
        if connection.dialect.name == "sqlite":
            file = connection.exec_driver_sql("PRAGMA database_list").first()
            if file and file.file and 0 < Path(file.file).stat().st_size < _SHORTEST_FILE:
                raise StoreCorruptError(f"{self.location} is no valid SQLite database; give another path")

    def _version(self) -> int | None:
        """The version of an existing store, None for a new one."""
        with self.read() as connection:
            tables = inspect(connection).get_table_names()
            if not tables:
                self._check_empty(connection)
                return None
            if meta.name not in tables:
                raise StoreCorruptError(
                    f"{self.location} is a database, but no tract store (tables: {', '.join(sorted(tables)[:5])}); "
                    "give another path"
                )
            row = connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).first()
        if row is None or not row.value.isdecimal():
            raise StoreCorruptError(
                f"{self.location} does not say which version of the store it is; restore a backup"
            )
        return int(row.value)


def _target(path: str | Path, url: str | None) -> URL:
    """The database that is meant, as a URL."""
    try:
        if url is not None:
            return make_url(url)
    except (ArgumentError, ValueError) as error:  # the text may hold a password, so it is not shown
        raise StoreError(
            "this is no database URL; they look like 'postgresql+psycopg://user@host/name'"
        ) from error
    return URL.create("sqlite", database=MEMORY) if str(path) == MEMORY else _file(Path(path))


def _engine(target: URL, lock_timeout: float, *, in_memory: bool) -> Engine:
    is_sqlite = target.get_backend_name() == "sqlite"
    options: dict[str, Any] = {}
    if is_sqlite:
        options["connect_args"] = {"check_same_thread": False, "timeout": lock_timeout}
    if in_memory:
        options["poolclass"] = StaticPool
    try:
        engine = create_engine(target, **options)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreError(f"there is no driver for {target.render_as_string()}: {error}") from error
    if is_sqlite:
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _file(path: Path) -> URL:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder of {path} cannot be made: {error.strerror}; give another path"
        ) from error
    is_in_use = path.with_name(path.name + "-wal").exists()
    if path.is_file() and not os.access(path.parent, os.W_OK) and not is_in_use:
        # SQLite reads a WAL file where it cannot write beside it only if told that nobody will change the file
        return URL.create(
            "sqlite", database=path.absolute().as_uri(), query={"immutable": "1", "uri": "true"}
        )
    return URL.create("sqlite", database=str(path))


def _on_sqlite_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we begin transactions ourselves: the driver would begin them too late
    cursor = connection.cursor()
    try:
        # the order matters: nothing may be written to a file that turns out not to be ours
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA synchronous=NORMAL")
    finally:
        cursor.close()


def _on_sqlite_begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("tract_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
