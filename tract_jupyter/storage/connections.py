"""One connection per thread, and prepared statements.

A connection stays open between transactions, because opening one costs more than most transactions. Connections do not
survive a fork: SQLite's locks belong to a process, and two processes cannot share one socket. So idle connections are
closed before a fork, and each thread opens a new one on its next transaction.

SQLAlchemy compiles a prepared statement once for each dialect. The driver runs it directly, since SQLAlchemy was the
largest cost of a commit.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from sqlalchemy import Select

from tract_jupyter.exceptions import StoreClosedError, StoreError
from tract_jupyter.storage.columns import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Executable

    from tract_jupyter.storage.engines import Backend
    from tract_jupyter.storage.transaction import Block

    Parameters = Mapping[str, Any] | Sequence[Any]

_FORK_PATIENCE: Final = 1.0  # seconds that a fork waits for another thread's transaction
_CLOSE_PATIENCE: Final = 5.0  # seconds that `close` waits for the connections of other threads
FORKED: Final = "the process was forked within a transaction; only its parent can continue it"
_CLOSING = threading.RLock()  # if two connections close at once, SQLite may treat neither as the last one
# the parent's connections in a child: closing one here would end the parent's session
_ABANDONED: list[Any] = []


class ThreadConnection:
    """One thread's connection and the state of its transaction. `lock` protects it during use."""

    __slots__ = (
        "__weakref__",
        "before_join",
        "connection",
        "driver",
        "failure",
        "is_foreign",
        "is_writing",
        "lock",
        "on_rollback",
        "open_blocks",
    )

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection: Connection | None = None
        self.driver: Any = None
        self.is_foreign = False
        """True if the connection belongs to the parent process of a fork."""
        self.is_writing = False
        self.open_blocks: list[Block] = []
        """The open transactions, the outermost first."""
        self.failure: BaseException | None = None
        """The first error of a nested write."""
        self.before_join: Callable[[], None] | None = None
        """Called before another transaction joins this one. A batch then writes its deferred changes."""
        self.on_rollback: list[Callable[[], None]] = []
        """Callbacks for a rollback of the transaction."""

    @property
    def depth(self) -> int:
        """The number of open transactions."""
        return len(self.open_blocks)

    @property
    def is_held(self) -> bool:
        """True if this thread holds the lock."""
        is_owned: bool = self.lock._is_owned()  # type: ignore[attr-defined] # noqa: SLF001 # as in `Condition`
        return is_owned

    def undo(self) -> None:
        """Call the callbacks for a rollback."""
        while self.on_rollback and not self.open_blocks:
            self.on_rollback.pop(0)()

    def open(self, backend: Backend) -> Connection:
        """Create the connection, and return it."""
        connection = backend.connect()
        driver = self.driver = connection.connection.driver_connection
        self.is_foreign = False
        connection.detach()  # the pool no longer counts or closes it
        try:
            for statement in backend.setup:
                backend.run(driver, statement)
        except BaseException:  # such as a file that is no database
            with contextlib.suppress(Exception):
                connection.close()
            self.driver = None
            raise
        self.connection = connection
        return connection

    def drop(self) -> None:
        """Close the connection. Do not close a parent process's connection."""
        with self.lock, _CLOSING:  # closing the database waits for a thread that is ending
            connection, driver = self.connection, self.driver
            if self.is_foreign:
                _ABANDONED.append((connection, driver))
            elif connection is not None:
                with contextlib.suppress(Exception):  # a lost connection cannot be closed
                    connection.close()
                with contextlib.suppress(Exception):
                    driver.close()
            self.connection = self.driver = None  # last: after an interruption, the next call closes it
            self.is_foreign = False

    def drop_uncertain(self, backend: Backend) -> None:
        """Close a connection in an unknown state, except the only one of a store in memory."""
        if not backend.is_shared:
            self.drop()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # the constructor was interrupted
            self.drop()


class Connections:
    """The links of all threads to one database."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._own = threading.local()
        self._shared = ThreadConnection() if backend.is_shared else None
        self._all: WeakSet[ThreadConnection] = WeakSet([self._shared] if self._shared else [])
        self._registering = threading.Lock()
        self._own_lock = threading.RLock()
        self._suspended: list[ThreadConnection] = []
        self.is_closed = False
        with _FORK_LOCK:
            _OPEN.add(self)

    def check(self, link: ThreadConnection) -> None:
        """Check that a transaction may begin on a locked link."""
        if self.is_closed:
            location = self._backend.location
            raise StoreClosedError(f"the tract on {location} was closed; open it again with Tract.open")
        if link.is_foreign:
            if link.depth:
                raise StoreError(FORKED)
            link.drop()

    def of_this_thread(self) -> ThreadConnection:
        """Return the link that this thread uses."""
        return self._shared or getattr(self._own, "link", None) or self._register()

    def joined(self) -> ThreadConnection | None:
        """Return the link if this thread has an open transaction. All threads share the link of a store in memory."""
        link: ThreadConnection | None = self._shared or getattr(self._own, "link", None)
        return link if link is not None and link.open_blocks and link.is_held else None

    @property
    def lock(self) -> threading.RLock:
        """The lock of the shared connection. If each thread has a connection, an unused lock."""
        return self._shared.lock if self._shared else self._own_lock

    def close(self) -> None:
        """Close all connections, and block new transactions.

        Wait up to five seconds in total for transactions of other threads. A longer transaction, or an open one of this
        thread, closes its connection at its end. After the last connection, an SQLite file is complete without its WAL
        and can be copied.
        """
        self.is_closed = True
        until = time.monotonic() + _CLOSE_PATIENCE
        for link in self._links():
            if link.lock.acquire(timeout=max(0.0, until - time.monotonic())):
                try:
                    if link.depth == 0:
                        link.drop()
                finally:
                    link.lock.release()
        if self._backend.mark is not None:
            self._backend.mark.close()

    def suspend(self) -> None:
        """Close idle connections and block new transactions until `resume`."""
        self._registering.acquire()
        for link in list(self._all):
            if link.lock.acquire(timeout=_FORK_PATIENCE):
                self._suspended.append(link)
                if link.depth == 0 and not self._shared:  # the fork copies a store in memory
                    link.drop()

    def disown(self) -> None:
        """Mark the open connections as the parent's, in the child after a fork. A copied store in memory is its own."""
        for link in list(self._all):
            is_copied = link is self._shared and link in self._suspended
            link.is_foreign = link.connection is not None and not is_copied

    def resume(self) -> None:
        """Release the locks of `suspend`, in both processes after a fork."""
        while self._suspended:
            self._suspended.pop().lock.release()
        self._registering.release()

    def _links(self) -> list[ThreadConnection]:
        with self._registering:
            return list(self._all)

    def _register(self) -> ThreadConnection:
        link = ThreadConnection()
        with self._registering:
            self._all.add(link)
        self._own.link = link
        return link


_OPEN: WeakSet[Connections] = WeakSet()
_FORKING: list[Connections] = []
_FORK_LOCK = threading.Lock()  # one fork at a time, and no new database during it


def _before_fork() -> None:
    _FORK_LOCK.acquire()
    _FORKING.extend(_OPEN)
    for connections in _FORKING:
        connections.suspend()
    _CLOSING.acquire()


def _after_fork() -> None:
    _CLOSING.release()
    while _FORKING:
        _FORKING.pop().resume()
    _FORK_LOCK.release()


def _after_fork_in_child() -> None:
    for connections in _FORKING:
        connections.disown()
    _after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


class Prepared:
    """A prepared statement.

    Args:
        make: called with a dialect's module, such as `sqlalchemy.dialects.sqlite`; returns the statement.
        order: the names of positional parameters in order. Empty for named parameters.
    """

    def __init__(self, make: Callable[[Any], Executable], order: Sequence[str] = ()) -> None:
        self._make = make
        self._order = list(order)
        self._texts: dict[str, str] = {}
        self._kinds: list[Stored] = []

    def run(self, connection: Connection, parameters: Parameters) -> int:
        """Run the statement, and return the number of changed rows."""
        text = self._texts.get(connection.dialect.name) or self._compiled(connection)
        driver: Any = connection.connection.dbapi_connection
        changed: int = driver.execute(text, parameters).rowcount
        return changed

    def rows(
        self, connection: Connection, parameters: Parameters, make: Callable[[Any], Any] = tuple
    ) -> list[Any]:
        """Run the query, and return its rows. `make` converts each row; the default is a tuple."""
        text = self._texts.get(connection.dialect.name) or self._compiled(connection)
        driver: Any = connection.connection.dbapi_connection
        rows = list(map(make, driver.execute(text, parameters)))
        for kind, values in zip(self._kinds, zip(*rows, strict=True), strict=False):
            if not kind.allowed.issuperset(map(type, values)):
                raise kind.damage_among(values)
        return rows

    def run_all(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement for each row of values in order, and return the number of changed rows."""
        text = self._texts.get(connection.dialect.name) or self._compiled(connection)
        cursor = connection.connection.cursor()
        cursor.executemany(text, rows)
        return cursor.rowcount

    def _compiled(self, connection: Connection) -> str:
        name = connection.dialect.name
        module = import_module(f"sqlalchemy.dialects.{name}")
        styles = ("qmark", "named") if name == "sqlite" else ("format", "pyformat")
        statement = self._make(module)
        if isinstance(statement, Select):
            kinds: list[Any] = [column.type for column in statement.selected_columns]
            # signed rows are not checked here
            self._kinds = kinds if isinstance(kinds[0], Stored) else []
        compiled = statement.compile(dialect=module.dialect(paramstyle=styles[not self._order]))  # type: ignore[attr-defined]
        if self._order and compiled.positiontup != self._order:
            raise ValueError(f"the statement takes {compiled.positiontup}, not {self._order}")
        text = self._texts[name] = str(compiled)
        return text
