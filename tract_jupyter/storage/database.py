"""One database that holds tracts: opening it, its version, transactions on it.

A transaction is short. A write transaction takes the store's write lock at its beginning, so it never fails half-way
for want of it.
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
from tract_jupyter.storage.schema import SCHEMA_VERSION, STORE_ID, making, meta
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
        time_of: gives the time of a commit, by its hash without a time; None for the current time.
    """

    def __init__(self) -> None:
        self.time_of: Callable[[str], str] | None = None


class Database:
    """A database that holds tracts. Threads may share it, and so may processes, also after a fork.

    Args:
        path: the SQLite file, created with its folder if it is not there; `:memory:` for none.
        url: an SQLAlchemy URL instead of a path, of SQLite or PostgreSQL.
        lock_timeout: seconds to wait for another process's lock.
        must_exist: make no store in a database that has none.

    Raises:
        StoreError: it cannot be opened; the subclass tells why. A file is never changed by a failed opening.
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
        self._loss = ""
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
        """Return a read transaction: one consistent view. Within another transaction of the thread it is part of that.

        A transaction belongs to its thread: let no `await` come between its beginning and its end.
        """
        return Transaction(self._backend, self._connections, is_writing=False)

    def write(self) -> AbstractContextManager[Connection]:
        """Return a write transaction: all of it happens, or nothing does.

        Within another write of the thread it is part of that, and its failure the failure of all.
        """
        return Transaction(self._backend, self._connections, is_writing=True)

    def before_nested(self, call: Callable[[], None], undone: Callable[[], None]) -> None:
        """Have `call` called, until the open transaction of this thread ends, before another one joins it.

        Args:
            call: writes deferred changes.
            undone: is called if the transaction is rolled back.
        """
        link = self._connections.of_this_thread()
        link.undone.append(undone)
        earlier = link.before_join  # of a batch of another tract, which this one is nested in
        link.before_join = call if earlier is None else _both(earlier, call)

    @property
    def in_transaction(self) -> bool:
        """True if this thread has a transaction open, which another one would be part of."""
        return self._connections.joined() is not None

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """Call `call` if the open transaction of this thread is rolled back."""
        link = self._connections.joined()
        if link is not None:
            link.undone.append(call)

    @property
    def lock(self) -> threading.RLock:
        """Return the lock to hold if a transaction may start under it.

        The transactions of a store in memory take turns on one lock. A second lock beside that one would be a deadlock.
        """
        return self._connections.lock

    @property
    def store_id(self) -> str:
        """The id that the store was made with; tracts of two stores may have the same id. It is read once.

        Raises:
            StoreCorruptError: the store does not say it.
        """
        if not self._store_id:
            with self.read() as connection:
                found = connection.scalar(select(meta.c.value).where(meta.c.key == STORE_ID))
            if not found:
                raise StoreCorruptError(f"{self.location} does not say which store it is; restore a backup")
            self._store_id = str(found)
        return self._store_id

    @property
    def loss(self) -> str:
        """The loss that was found when the store was opened; empty if there is none."""
        return self._loss

    @property
    def is_closed(self) -> bool:
        """True once it was closed."""
        return self._connections.is_closed

    def close(self) -> None:
        """Release all connections. A second call does nothing."""
        self._connections.close()

    def _compare(self, mark: Mark, *, is_new: bool) -> None:
        """Warn about a loss, and keep the mark from now on."""
        with self.read():
            now = Counts.of(self._connections.of_this_thread().driver)
        if now is None:
            return
        self._loss = mark.loss(now, is_new=is_new)
        if self._loss:
            mark.write(now)
            warn(self._loss, StoreLossWarning)

    def _prepare(self, deadline: float) -> bool:
        """Make the tables of a new store, or check the version of an existing one.

        Returns:
            True if the tables were made.
        """
        version = self._version()
        if version is None:
            if self._must_exist:
                raise StoreError(
                    f"there is no store in {self.location}: the database has no tables. Nothing was changed; look for "
                    "a mistake in its name, or make a store with Tract.open"
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
                # where several processes give one new file its journal mode, SQLite does not wait, but refuses at once
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def _make_tables(self) -> bool:
        # readers and a writer do not block each other; the setting stays in the file
        before = "PRAGMA journal_mode=WAL" if self.dialect == SQLITE else None
        with Transaction(self._backend, self._connections, is_writing=True, before=before) as connection:
            if inspect(connection).has_table(meta.name):
                return False  # another process was faster
            driver = self._connections.of_this_thread().driver
            for statement in making(connection.dialect):
                self._backend.run(driver, statement)
            says = {"schema_version": str(SCHEMA_VERSION), STORE_ID: uuid4().hex}
            connection.execute(meta.insert(), [{"key": key, "value": value} for key, value in says.items()])
        return True

    def _check_empty(self, connection: Connection) -> None:
        """Refuse a short file: SQLite takes one of less than 512 bytes for an empty one, and would overwrite it."""
        if self.dialect == SQLITE:
            file = sqlite_file(connection)
            if file and 0 < file.stat().st_size < _SHORTEST_FILE:
                raise StoreCorruptError(f"{self.location} is no valid SQLite database; give another path")

    def _version(self) -> int | None:
        """Return the version of an existing store, None for a new one."""
        with self.read() as connection:
            tables = inspect(connection).get_table_names()
            if not tables:
                self._check_empty(connection)
                return None
            if meta.name not in tables:
                raise StoreCorruptError(
                    f"{self.location} is a database, but no tract store (tables: {', '.join(sorted(tables)[:5])}); "
                    f"give another {'path' if self.dialect == SQLITE else 'database or schema'}"
                )
            check_opening(connection, self.location)
            row = connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).first()
        if row is None or not row.value.isdecimal():
            raise StoreCorruptError(
                f"{self.location} does not say which version of the store it is; restore a backup"
            )
        return int(row.value)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


class SharedDatabase(Database):
    """The same database for one more user.

    Args:
        owner: the database, which only its owner closes. One that is shared itself lends what it was lent, and may be
            given back before this.
    """

    def __init__(self, owner: Database) -> None:
        self._owner: Database = owner._owner if isinstance(owner, SharedDatabase) else owner  # noqa: SLF001 # its own class
        self.location = owner.location
        self.clock = owner.clock
        self._is_given_back = False

    @property
    def store_id(self) -> str:
        """The owner's."""
        return self._owner.store_id

    @property
    def loss(self) -> str:
        """The owner's."""
        return self._owner.loss

    @property
    def is_closed(self) -> bool:
        """True after its return or after the owner's close."""
        return self._is_given_back or self._owner.is_closed

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._owner.dialect

    @property
    def lock(self) -> threading.RLock:
        """The owner's."""
        return self._owner.lock

    def read(self) -> AbstractContextManager[Connection]:
        """Return a read transaction of the owner's."""
        self._check()
        return self._owner.read()

    def write(self) -> AbstractContextManager[Connection]:
        """Return a write transaction of the owner's."""
        self._check()
        return self._owner.write()

    def before_nested(self, call: Callable[[], None], undone: Callable[[], None]) -> None:
        """As of the owner."""
        self._owner.before_nested(call, undone)

    @property
    def in_transaction(self) -> bool:
        """As of the owner."""
        return self._owner.in_transaction

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """As of the owner."""
        self._owner.if_rolled_back(call)

    def close(self) -> None:
        """Return it. The owner and other borrowers stay open."""
        self._is_given_back = True

    def _check(self) -> None:
        if self._is_given_back:
            raise StoreClosedError(
                f"this tract of the session on {self.location} was closed; get_tract of the session opens it again"
            )
