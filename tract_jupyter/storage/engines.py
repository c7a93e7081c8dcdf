"""Paths and URLs of databases, and the differences between SQLite and PostgreSQL.

The default is SQLite in WAL mode; a URL can select PostgreSQL. Both give the same guarantees: a reader has one
consistent view, and a store has one writer at a time.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
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
    from sqlalchemy.engine.interfaces import DBAPIConnection

MEMORY: Final = ":memory:"
SQLITE: Final = "sqlite"
POSTGRES: Final = "postgresql"
_DRIVERS: Final = {SQLITE: {"sqlite", "sqlite+pysqlite"}, POSTGRES: {"postgresql", "postgresql+psycopg"}}
_CONNECT_SECONDS: Final = 10
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_END: Final = struct.Struct(">II8s")  # the length of the name before it, and its sum
# SQLite has one writer at a time; in PostgreSQL, a transaction-level lock does the same for each schema
_POSTGRES_LOCK: Final = "SELECT pg_advisory_xact_lock(1953653091, hashtext(current_schema()))"  # 'trac'


@dataclass(frozen=True, slots=True)
class Backend:
    """A database and its dialect-specific statements.

    Args:
        connect: opens a connection.
        setup: statements that every new connection runs; none of them writes.
        run: runs a statement on the driver's connection, which is faster than SQLAlchemy.
        is_shared: all threads use one connection. A store in memory requires this.
        mark: the mark of a writable file; None for others.
    """

    engine: Engine
    connect: Callable[[], Connection]
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
        """The base class of the driver's errors."""
        base: type[Exception] = self.engine.dialect.loaded_dbapi.Error
        return base

    def was_lost(self, driver: Any) -> bool:
        """Return True if the server ended the connection."""
        return self.name == POSTGRES and bool(driver.closed)

    def is_idle(self, driver: Any) -> bool:
        """Return True if no transaction and no command is open. An interrupt may leave one open."""
        if self.name == SQLITE:
            return not driver.in_transaction
        from psycopg.pq import TransactionStatus

        return bool(driver.info.transaction_status == TransactionStatus.IDLE)

    def has_failed(self, driver: Any) -> bool:
        """Return True if a statement of a PostgreSQL transaction failed. COMMIT would then roll back."""
        from psycopg.pq import TransactionStatus

        return bool(driver.info.transaction_status == TransactionStatus.INERROR)


def backend(path: str | Path, url: str | None, lock_timeout: float) -> Backend:
    """Return the backend of a path or URL. Create a missing file and its folder, but open nothing."""
    if not isinstance(path, str | os.PathLike):
        raise StoreError(
            f"the path of a store must be a text or a Path, got {path!r}; use ':memory:' for a store in memory"
        )
    if url is not None and path != MEMORY:
        raise StoreError(f"got both a path, {str(path)!r}, and a url; open a store with only one of them")
    target = _target(path, url)
    location = str(path) if url is None else target.render_as_string(hide_password=True)
    kind = target.get_backend_name()
    if target.drivername not in _DRIVERS.get(kind, ()):
        raise StoreError(
            f"there is no driver for {target.render_as_string()}; use an SQLite file or, with a URL like "
            "'postgresql+psycopg://user@host/name', PostgreSQL"
        )
    return (
        _sqlite(target, location, lock_timeout)
        if kind == SQLITE
        else _postgres(target, location, lock_timeout)
    )


def _sqlite(target: URL, location: str, lock_timeout: float) -> Backend:
    is_shared = target.database in {None, "", MEMORY}
    # threads connect later, and a process may change its folder
    if not is_shared and "uri" not in target.query:
        target = target.set(database=str(Path(str(target.database)).absolute()))
    engine = _sqlite_engine()
    positional, named = engine.dialect.create_connect_args(target)
    settings = {**named, "check_same_thread": False, "timeout": lock_timeout}
    can_create = not ("immutable" in target.query or target.query.get("mode") in {"ro", "rw"})
    used = _file_of(target)
    if used is not None:
        _check_journal(used)
    file = used if can_create else None
    mark = None if file is None else Mark(file.absolute())  # before the file is created
    if file is not None:
        _make_private_file(file)
    return Backend(
        engine,
        partial(_connect_sqlite, engine, partial(engine.dialect.connect, *positional, **settings)),
        SQLITE,
        location,
        # the file may not be a tract store, so these statements do not write
        setup=("PRAGMA foreign_keys=ON", "PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=4000"),
        begin_read="BEGIN",
        begin_write="BEGIN IMMEDIATE",
        run=sqlite3.Connection.execute,
        is_shared=is_shared,
        mark=mark,
    )


def _check_journal(store: Path) -> None:
    """Refuse a journal that names another file: SQLite would delete that file when it opens the store.

    No store has one, because only a transaction on several databases writes it.
    """
    for name in (os.path.abspath(store), os.path.realpath(store)):  # noqa: PTH100 # links are followed or not
        journal = f"{name}-journal"
        if not os.path.isfile(journal):  # noqa: PTH113
            continue
        with suppress(OSError, ValueError), open(journal, "rb") as file:  # noqa: PTH123
            file.seek(-_JOURNAL_END.size, os.SEEK_END)
            length, _, magic = _JOURNAL_END.unpack(file.read(_JOURNAL_END.size))
            if magic == _JOURNAL_MAGIC and length:
                raise StoreError(
                    f"{store} was not opened: {journal} names another file, which SQLite would delete. Remove {journal}"
                )


def _make_private_file(file: Path) -> None:
    """Create the file of a new store with access for this user only. SQLite copies the mode to its other files."""
    with suppress(OSError, ValueError, RuntimeError):  # the file exists, or SQLite reports the error later
        os.close(open_private(str(file.resolve()), os.O_RDWR | os.O_CREAT | os.O_EXCL))


def _postgres(target: URL, location: str, lock_timeout: float) -> Backend:
    defaults = {
        "connect_timeout": _CONNECT_SECONDS,
        "client_encoding": "utf8",
        "application_name": "tract_jupyter",
    }
    chosen = {key: value for key, value in defaults.items() if key not in target.query}
    milliseconds = max(1, round(lock_timeout * 1000))  # 0 would mean no timeout
    engine = _postgres_engine(target.set(drivername="postgresql+psycopg"), **chosen)
    return Backend(
        engine,
        engine.connect,
        POSTGRES,
        location,
        setup=(f"SET lock_timeout = {milliseconds}",),
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        begin_write=f"BEGIN ISOLATION LEVEL READ COMMITTED; {_POSTGRES_LOCK}",
        run=_run_unprepared,
    )


def _run_unprepared(driver: Any, statement: str) -> None:
    driver.execute(statement, prepare=False)  # several statements at once cannot be prepared


_opening: ContextVar[Callable[[], DBAPIConnection]] = ContextVar("opening")


@lru_cache(maxsize=1)
def _sqlite_engine() -> Engine:
    """Return the engine of all SQLite stores: a statement that one store has compiled is fast in all others."""
    return _engine(URL.create("sqlite"), creator=_open)


def _open() -> DBAPIConnection:
    return _opening.get()()


def _connect_sqlite(engine: Engine, opening: Callable[[], DBAPIConnection]) -> Connection:
    token = _opening.set(opening)
    try:
        return engine.connect()
    finally:
        _opening.reset(token)


@lru_cache(maxsize=16)
def _postgres_engine(target: URL, **connect_args: Any) -> Engine:
    """Return the engine of a database. Its cache of compiled statements makes the next open fast."""
    return _engine(target, connect_args=connect_args)


def _engine(target: URL, **options: Any) -> Engine:
    try:
        # `Transaction` begins transactions, because drivers begin them too late. `Connections` replaces the pool.
        # No rollback on close: if the server ended the connection, it would fail and log a traceback.
        return create_engine(
            target,
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
            pool_reset_on_return=None,
            **options,
        )
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        install = "; run 'pip install tract_jupyter[postgres]'" if isinstance(error, ImportError) else ""
        raise StoreError(f"there is no driver for {target.render_as_string()}: {error}{install}") from error


def _target(path: str | Path, url: str | None) -> URL:
    try:
        if url is not None:
            return make_url(url)
    except (ArgumentError, ValueError) as error:  # the text may hold a password, so it is not shown
        raise StoreError(
            "invalid database URL; use one like 'postgresql+psycopg://user@host/name'"
        ) from error
    return URL.create("sqlite", database=MEMORY) if str(path) == MEMORY else _file(Path(path))


def _mode(path: Path) -> int:
    """Return the mode of a file; 0 if it does not exist. From Python 3.14, `Path.exists` hides all other errors."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _file(path: Path) -> URL:
    if "\0" in str(path):
        raise StoreError(f"invalid path {str(path)!r}: a path cannot have a NUL character; use another path")
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot create the folder of {path}: {error.strerror}; use another path") from error
    try:
        is_in_use = bool(_mode(path.with_name(path.name + "-wal")))
        is_there = stat.S_ISREG(_mode(path))
    except OSError as error:  # such as a name that is too long
        raise StoreError(f"cannot open {path}: {error.strerror}; use another path") from error
    if is_there and not os.access(path.parent, os.W_OK) and not is_in_use:
        # in a read-only folder, SQLite opens a WAL database only as immutable
        return URL.create(
            "sqlite", database=path.absolute().as_uri(), query={"immutable": "1", "uri": "true"}
        )
    return URL.create("sqlite", database=str(path))


def file_of(url: str) -> Path | None:
    """Return the SQLite file of a URL, which may be missing; None for another database or a store in memory."""
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
    """Return the file of an SQLite connection; None for a store in memory."""
    name = connection.exec_driver_sql("PRAGMA database_list").one()[2]
    return Path(name) if name else None
