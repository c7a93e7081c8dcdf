"""Paths and URLs of databases, and the differences between the two kinds: opening, beginning, locking.

SQLite in WAL mode by default, PostgreSQL by URL. Both give the same promises: a reader has one consistent view, and
writers of a store take turns, so that a write that has begun meets no other one half-way.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from tract_jupyter.exceptions import StoreError
from tract_jupyter.models import make_private_folder, open_private
from tract_jupyter.storage.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Engine

MEMORY: Final = ":memory:"
SQLITE: Final = "sqlite"
POSTGRES: Final = "postgresql"
_DRIVERS: Final = {SQLITE: {"sqlite", "sqlite+pysqlite"}, POSTGRES: {"postgresql", "postgresql+psycopg"}}
_CONNECT_SECONDS: Final = 10
# SQLite has one writer at a time; here a lock that ends with the transaction does the same for each schema
_POSTGRES_LOCK: Final = "SELECT pg_advisory_xact_lock(1953653091, hashtext(current_schema()))"  # 'trac'


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of database, ready to connect to.

    Args:
        setup: statements that every new connection runs; none of them writes.
        run: runs a statement on the driver's own connection: what every transaction does should cost little.
        is_shared: one connection serves all threads, as a store in memory requires.
        mark: the mark of a writable file; None for others.
    """

    engine: Engine
    name: str
    location: str
    setup: tuple[str, ...]
    begin_read: str
    begin_write: str
    run: Callable[[Any, str], object]
    is_shared: bool = False
    mark: Mark | None = None

    @property
    def driver_errors(self) -> type[Exception]:
        """Base of the errors of the driver."""
        base: type[Exception] = self.engine.dialect.loaded_dbapi.Error
        return base

    def was_lost(self, driver: Any) -> bool:
        """Return True if the server ended the connection."""
        return self.name == POSTGRES and bool(driver.closed)

    def is_idle(self, driver: Any) -> bool:
        """Return True if no transaction is open and no command unanswered; an interrupt may leave either."""
        if self.name == SQLITE:
            return not driver.in_transaction
        from psycopg.pq import TransactionStatus

        return bool(driver.info.transaction_status == TransactionStatus.IDLE)

    def is_spoilt(self, driver: Any) -> bool:
        """Return True if a failed statement made a transaction of PostgreSQL void: COMMIT would then roll it back."""
        from psycopg.pq import TransactionStatus

        return bool(driver.info.transaction_status == TransactionStatus.INERROR)


def backend(path: str | Path, url: str | None, lock_timeout: float) -> Backend:
    """Return the database that is meant; nothing is opened yet, but a missing file and its folder are made.

    Args:
        path: an SQLite file, `:memory:` for none.
        url: an SQLAlchemy URL instead.
        lock_timeout: seconds to wait for another's lock.

    Raises:
        StoreError: the path or the URL is not valid, both are given, the database is of another kind, or its driver is
            missing.
    """
    if not isinstance(path, str | os.PathLike):
        raise StoreError(f"the path of a store is a text or a Path, got {path!r}; ':memory:' keeps nothing")
    if url is not None and path != MEMORY:
        raise StoreError(
            f"a store is opened by its path or by its url, not by both; got {str(path)!r} and a url"
        )
    target = _target(path, url)
    location = str(path) if url is None else target.render_as_string(hide_password=True)
    kind = target.get_backend_name()
    if target.drivername not in _DRIVERS.get(kind, ()):
        raise StoreError(
            f"there is no driver for {target.render_as_string()}: a tract lives in an SQLite file or, with a URL "
            "like 'postgresql+psycopg://user@host/name', in PostgreSQL"
        )
    return (
        _sqlite(target, location, lock_timeout)
        if kind == SQLITE
        else _postgres(target, location, lock_timeout)
    )


def _sqlite(target: URL, location: str, lock_timeout: float) -> Backend:
    is_shared = target.database in {None, "", MEMORY}
    if not is_shared and "uri" not in target.query:  # engines are kept, and a process may change its folder
        target = target.set(database=str(Path(str(target.database)).absolute()))
    engine = _engine(target, check_same_thread=False, timeout=lock_timeout)
    can_create = not ("immutable" in target.query or target.query.get("mode") in {"ro", "rw"})
    file = _file_of(target) if can_create else None
    mark = None if file is None else Mark(file.absolute())  # before the file is created
    if file is not None:
        _make_private_file(file)
    return Backend(
        engine,
        SQLITE,
        location,
        # the file may turn out not to be ours: nothing here writes to it
        setup=("PRAGMA foreign_keys=ON", "PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=4000"),
        begin_read="BEGIN",
        begin_write="BEGIN IMMEDIATE",
        run=sqlite3.Connection.execute,
        is_shared=is_shared,
        mark=mark,
    )


def _make_private_file(file: Path) -> None:
    """Create the file of a new store for this user alone. SQLite gives its other files the same mode."""
    with suppress(OSError, ValueError, RuntimeError):  # it exists, or SQLite reports why it cannot be opened
        os.close(open_private(str(file.resolve()), os.O_RDWR | os.O_CREAT | os.O_EXCL))


def _postgres(target: URL, location: str, lock_timeout: float) -> Backend:
    defaults = {
        "connect_timeout": _CONNECT_SECONDS,
        "client_encoding": "utf8",
        "application_name": "tract_jupyter",
    }
    chosen = {key: value for key, value in defaults.items() if key not in target.query}
    milliseconds = max(1, round(lock_timeout * 1000))  # 0 would be: for ever
    return Backend(
        _engine(target.set(drivername="postgresql+psycopg"), **chosen),
        POSTGRES,
        location,
        setup=(f"SET lock_timeout = {milliseconds}",),
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        begin_write=f"BEGIN ISOLATION LEVEL READ COMMITTED; {_POSTGRES_LOCK}",
        run=_run_unprepared,
    )


def _run_unprepared(driver: Any, statement: str) -> None:
    driver.execute(statement, prepare=False)  # several statements at once cannot be prepared


@lru_cache(maxsize=16)
def _engine(target: URL, **connect_args: Any) -> Engine:
    """Return the engine of a database. Its cache of compiled statements makes the next open fast."""
    try:
        # we begin transactions ourselves, as drivers do it too late; and hold one connection per thread, not a pool
        # a connection is closed as it is: a rollback before that would fail, with a traceback in the log, if the server
        # ended the connection
        return create_engine(
            target,
            connect_args=connect_args,
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
            pool_reset_on_return=None,
        )
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        install = "; run 'pip install tract_jupyter[postgres]'" if isinstance(error, ImportError) else ""
        raise StoreError(f"there is no driver for {target.render_as_string()}: {error}{install}") from error


def _target(path: str | Path, url: str | None) -> URL:
    """Return the database that is meant, as a URL."""
    try:
        if url is not None:
            return make_url(url)
    except (ArgumentError, ValueError) as error:  # the text may hold a password, so it is not shown
        raise StoreError(
            "this is no database URL; they look like 'postgresql+psycopg://user@host/name'"
        ) from error
    return URL.create("sqlite", database=MEMORY) if str(path) == MEMORY else _file(Path(path))


def _file(path: Path) -> URL:
    if "\0" in str(path):
        raise StoreError(f"{str(path)!r} cannot be a store: no path has a NUL character; give another one")
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"the folder of {path} cannot be made: {error.strerror}; give another path"
        ) from error
    try:
        is_in_use = path.with_name(path.name + "-wal").exists()
        is_there = path.is_file()
    except OSError as error:  # such as a name that is too long
        raise StoreError(f"{path} cannot be a store: {error.strerror}; give another path") from error
    if is_there and not os.access(path.parent, os.W_OK) and not is_in_use:
        # SQLite reads a WAL file where it cannot write beside it only if told that nobody will change the file
        return URL.create(
            "sqlite", database=path.absolute().as_uri(), query={"immutable": "1", "uri": "true"}
        )
    return URL.create("sqlite", database=str(path))


def file_of(url: str) -> Path | None:
    """Return the SQLite file that a URL is about, whether it exists or not; None for another kind, or for memory.

    Raises:
        StoreError: the text is no database URL.
    """
    return _file_of(_target(MEMORY, url))


def _file_of(target: URL) -> Path | None:
    name = target.database
    if (
        target.get_backend_name() != SQLITE
        or name in {None, "", MEMORY}
        or target.query.get("mode") == "memory"
    ):
        return None
    if "uri" in target.query and str(name).startswith("file:"):
        from urllib.request import url2pathname  # with an HTTP client, which few stores need

        return Path(url2pathname(urlsplit(str(name)).path))
    return Path(str(name))


def sqlite_file(connection: Connection) -> Path | None:
    """Return the file of an SQLite connection, None for one in memory."""
    name = connection.exec_driver_sql("PRAGMA database_list").one()[2]
    return Path(name) if name else None
