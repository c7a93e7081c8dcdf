"""A database of tracts: opening, the schema version, and transactions.

A transaction is short. A write transaction acquires the store's write lock at its beginning, so it cannot fail later
because of a lock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import inspect, select

from tract_jupyter.exceptions import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreVersionError,
)
from tract_jupyter.models import warn
from tract_jupyter.storage.connections import Connections
from tract_jupyter.storage.engines import MEMORY, SQLITE, backend, sqlite_file
from tract_jupyter.storage.errors import translate
from tract_jupyter.storage.mark import Counts, StoreLossWarning
from tract_jupyter.storage.schema import SCHEMA_VERSION, STORE_ID, VERSION, making, meta
from tract_jupyter.storage.soundness import check_opening
from tract_jupyter.storage.transaction import Transaction

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy import Connection

    from tract_jupyter.storage.mark import Mark


_PAUSE = 0.01  # seconds
_SHORTEST_FILE = 512  # bytes: https://www.sqlite.org/fileformat.html


class CommitClock:
    """The clock of all commits of a database.

    Attributes:
        time_of: returns the time of a commit, by its hash without a time; None for the current time.
    """

    def __init__(self) -> None:
        self.time_of: Callable[[str], str] | None = None


class Database:
    """A database of tracts. Threads and processes can share it, also after a fork.

    Args:
        path: the SQLite file, created with its folder if missing; `:memory:` for a store in memory.
        url: an SQLAlchemy URL for SQLite or PostgreSQL instead of a path.
        lock_timeout: seconds to wait for another process's lock.
        must_exist: do not create a store in a database without tables.

    Attributes:
        location: the path or URL.
        loss: the loss of commits that the opening detected; empty if there is none.

    Raises:
        StoreError: the database cannot be opened; the subclass names the reason. A failed opening never changes a file.
    """

    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        lock_timeout: float = 5.0,
        must_exist: bool = False,
    ) -> None:
        self._must_exist = must_exist
        self._backend = backend(path, url, lock_timeout)
        self.location = self._backend.location
        self._connections = Connections(self._backend)
        self.clock = CommitClock()
        self._store_id = ""
        self.loss = ""
        try:
            is_new = self._prepare(time.monotonic() + lock_timeout)
            if self._backend.mark is not None:
                self._compare(self._backend.mark, is_new=is_new)
        except UnicodeDecodeError as error:
            self.close()
            raise translate(error, self.location) from error
        except BaseException:
            self.close()
            raise

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._backend.name

    def read(self) -> AbstractContextManager[Connection]:
        """Return a read transaction with one consistent view. It joins an open transaction of the same thread.

        A transaction belongs to its thread: do not use `await` within it.
        """
        return Transaction(self._backend, self._connections, is_writing=False)

    def write(self) -> AbstractContextManager[Connection]:
        """Return an atomic write transaction.

        It joins an open write transaction of the same thread. If it fails, both fail.
        """
        return Transaction(self._backend, self._connections, is_writing=True)

    def before_nested(self, call: Callable[[], None], on_rollback: Callable[[], None]) -> None:
        """Call `call` before another transaction joins the open transaction of this thread.

        Args:
            call: writes deferred changes.
            on_rollback: called if the transaction is rolled back.
        """
        link = self._connections.of_this_thread()
        link.on_rollback.append(on_rollback)
        earlier = link.before_join  # from the outer batch of another tract
        link.before_join = call if earlier is None else _both(earlier, call)

    @property
    def in_transaction(self) -> bool:
        """True if this thread has an open transaction. Another transaction would join it."""
        return self._connections.joined() is not None

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """Call `call` if the open transaction of this thread is rolled back."""
        link = self._connections.joined()
        if link is not None:
            link.on_rollback.append(call)

    @property
    def lock(self) -> threading.RLock:
        """The lock to hold around code that may start a transaction.

        The transactions of a store in memory share one lock. A second lock could cause a deadlock.
        """
        return self._connections.lock

    @property
    def store_id(self) -> str:
        """The id of the store, read once. Tract ids are unique only within a store."""
        if not self._store_id:
            with self.read() as connection:
                store_id = connection.scalar(select(meta.c.value).where(meta.c.key == STORE_ID))
            if not store_id:
                raise StoreCorruptError(f"{self.location} has no store id; restore a backup")
            self._store_id = str(store_id)
        return self._store_id

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._connections.is_closed

    def close(self) -> None:
        """Release all connections. A second call does nothing."""
        self._connections.close()

    def _compare(self, mark: Mark, *, is_new: bool) -> None:
        """Compare the store with its mark, and warn about a loss."""
        with self.read():
            now = Counts.of(self._connections.of_this_thread().driver)
        if now is None:
            return
        self.loss = mark.loss(now, is_new=is_new)
        if self.loss:
            mark.write(now)
            warn(self.loss, StoreLossWarning)

    def _prepare(self, deadline: float) -> bool:
        """Create the tables of a new store, or check the version of an existing one.

        Returns:
            True if the tables were created.
        """
        version = self._version()
        if version is None:
            if self._must_exist:
                raise StoreError(
                    f"there is no store in {self.location}: the database has no tables. Nothing was changed; check the "
                    "name, or create a store with Tract.open"
                )
            return self._make(deadline)
        if version != SCHEMA_VERSION:
            raise StoreVersionError(
                f"{self.location} has store version {version}, and this tract_jupyter reads only version "
                f"{SCHEMA_VERSION}; open it with the tract_jupyter that wrote it. Nothing was changed."
            )
        return False

    def _make(self, deadline: float) -> bool:
        while True:
            try:
                return self._make_tables()
            except StoreLockedError:
                # if several processes set the journal mode of a new file, SQLite fails at once instead of waiting
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def _make_tables(self) -> bool:
        # in WAL mode, readers and a writer do not block each other; the setting is stored in the file
        before = "PRAGMA journal_mode=WAL" if self.dialect == SQLITE else None
        with Transaction(self._backend, self._connections, is_writing=True, before=before) as connection:
            if inspect(connection).has_table(meta.name):
                return False  # another process was faster
            driver = self._connections.of_this_thread().driver
            for statement in making(connection.dialect):
                self._backend.run(driver, statement)
            values = {VERSION: str(SCHEMA_VERSION), STORE_ID: uuid4().hex}
            connection.execute(meta.insert(), [{"key": key, "value": value} for key, value in values.items()])
        return True

    def _check_empty(self, connection: Connection) -> None:
        """Refuse a short file: SQLite treats a file of less than 512 bytes as empty, and would overwrite it."""
        if self.dialect == SQLITE:
            file = sqlite_file(connection)
            if file and 0 < file.stat().st_size < _SHORTEST_FILE:
                raise StoreCorruptError(f"{self.location} is not a valid SQLite database; use another path")

    def _version(self) -> int | None:
        """Return the version of an existing store, None for a new one."""
        with self.read() as connection:
            tables = inspect(connection).get_table_names()
            if not tables:
                self._check_empty(connection)
                return None
            if meta.name not in tables:
                raise StoreCorruptError(
                    f"{self.location} is a database, but not a tract store (tables: {', '.join(sorted(tables)[:5])}); "
                    f"use another {'path' if self.dialect == SQLITE else 'database or schema'}"
                )
            check_opening(connection, self.location)
            row = connection.execute(select(meta.c.value).where(meta.c.key == VERSION)).first()
        if row is None or not row.value.isdecimal():
            raise StoreCorruptError(f"{self.location} has no store version; restore a backup")
        return int(row.value)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


class SharedDatabase(Database):
    """A second reference to an open database. To close it does not close the database or other references."""

    def __init__(self, owner: Database) -> None:
        self._owner: Database = owner._owner if isinstance(owner, SharedDatabase) else owner  # noqa: SLF001 # its own class
        self._backend, self._connections = self._owner._backend, self._owner._connections  # noqa: SLF001 # as above
        self.location, self.clock, self.loss = owner.location, owner.clock, owner.loss
        self._is_released = False

    @property
    def store_id(self) -> str:
        """The owner's, which reads it only once."""
        return self._owner.store_id

    @property
    def is_closed(self) -> bool:
        """True after `close` of this reference or of the owner."""
        return self._is_released or super().is_closed

    def read(self) -> AbstractContextManager[Connection]:
        """Return a read transaction of the owner's."""
        self._check()
        return super().read()

    def write(self) -> AbstractContextManager[Connection]:
        """Return a write transaction of the owner's."""
        self._check()
        return super().write()

    def close(self) -> None:
        """Release this reference. The owner and other references stay open."""
        self._is_released = True

    def _check(self) -> None:
        if self._is_released:
            raise StoreClosedError(
                f"this tract of the session on {self.location} was closed; open it again with get_tract of the session"
            )
