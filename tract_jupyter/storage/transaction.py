"""Transactions: short, on the thread's own connection, and nestable.

Another `read()` or `write()` of the same thread joins an open transaction. If a nested write fails, the whole
transaction is rolled back, even if the caller catches the error. A transaction is never written in part.

A block delays the user's interrupts. Other exceptions can still occur between any two instructions: a repeated
interrupt, another signal's handler, an exception from another thread, or a lack of memory. After such an exception, the
state of the connection is unknown, so it is closed. Three rules make this safe:

* Each step of a transaction can be repeated.
* Lists record the started steps. One C call changes such a list, so no exception can come between.
* The `with` statement holds a token that dies with the block, even if a traceback stays alive. If the transaction is
  still open then, the token's death ends it.
"""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from sqlalchemy.exc import DBAPIError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage.connections import FORKED
from tract_jupyter.storage.engines import SQLITE
from tract_jupyter.storage.errors import translate
from tract_jupyter.storage.interrupts import begin, end, protected
from tract_jupyter.storage.mark import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from tract_jupyter.storage.connections import Connections, ThreadConnection
    from tract_jupyter.storage.engines import Backend

_ACQUIRE: Final[Any] = type(threading.RLock()).acquire
_RELEASE: Final[Any] = type(threading.RLock()).release


class Block:
    """The state of one transaction: the steps that have started and must end.

    Attributes:
        token: dies with the `with` block of the transaction.
    """

    __slots__ = (
        "__weakref__", "_backend", "_before", "_connections", "_is_committing", "_is_writing", "_link", "_lock_calls",
        "token",
    )  # fmt: skip

    def __init__(
        self, backend: Backend, connections: Connections, *, is_writing: bool, before: str | None
    ) -> None:
        self._backend = backend
        self._connections = connections
        self._is_writing = is_writing
        self._before = before
        self._link: ThreadConnection | None = None
        self._lock_calls: list[object] = []
        """One element after the lock's acquisition, two after its release."""
        self._is_committing = False
        self.token: ref[object] | None = None

    @protected
    def enter(self, _transaction: Transaction) -> Connection:
        """Begin the transaction. `Transaction.__enter__` calls this."""
        try:
            begin(self, depth=2)
            link = self._link = self._connections.of_this_thread()
            self._lock_calls.extend(map(_ACQUIRE, (link.lock,)))
            if link.is_foreign or self._connections.is_closed:
                self._connections.check(link)
            if link.open_blocks:
                for block in [block for block in link.open_blocks if block.is_interrupted]:
                    block.settle()
            if link.on_rollback and not link.open_blocks:
                link.undo()
            link.open_blocks.append(self)
            return self._join(link) if len(link.open_blocks) > 1 else self._begin(link)
        except BaseException as error:
            self._fail(error)
            self._release()
            if isinstance(error, UnicodeDecodeError):
                raise translate(error, self._backend.location) from error
            self._raise_ours(error)
            raise

    @protected
    def exit(self, *about: Any) -> None:
        """End the transaction. `Transaction.__exit__` calls this."""
        error: BaseException | None = about[1]
        try:
            self._finish(error)
            if error is not None:
                self._raise_ours(error)
        except BaseException as interruption:
            self._fail(interruption)
            raise
        finally:
            self._release()

    @property
    def is_interrupted(self) -> bool:
        """True if the `with` block has ended, but the transaction has not."""
        return self.token is not None and self.token() is None

    @protected
    def settle(self) -> None:
        """End the started steps of an interrupted transaction.

        A call from another thread ends only the protected block.
        """
        link = self._link
        if link is not None and link.is_held:
            self._fail(KeyboardInterrupt())
            self._release()
        else:
            end(self)

    @protected
    def token_died(self, _token: object) -> None:
        """End the started steps after the end of the `with` block."""
        self.settle()

    def _release(self) -> None:
        if len(self._lock_calls) == 1 and self._link is not None:
            self._lock_calls.extend(map(_RELEASE, (self._link.lock,)))
        end(self, depth=3)
        self.token = None  # the transaction has ended; until here, the token's death repeats these steps

    def _finish(self, error: BaseException | None) -> None:
        """End the transaction: commit it, or roll it back after an error."""
        link = self._link
        if link is None or self not in link.open_blocks:
            if error is None:
                raise StoreError(
                    f"this transaction on {self._backend.location} was interrupted; nothing was written. Try again"
                )
            return
        if link.open_blocks[-1] is not self:  # an inner transaction was interrupted
            link.failure = link.failure or KeyboardInterrupt()
        if link.open_blocks[0] is not self:
            self._end_nested(link, error if self._is_writing else None)
        elif error is None:
            self._commit(link)
        else:
            self._undo(link, error)

    def _fail(self, error: BaseException) -> None:
        """End the started steps of the transaction after an error. Do not end a step twice."""
        link = self._link
        if link is None or self not in link.open_blocks:
            return
        if link.open_blocks[0] is not self:
            self._end_nested(link, error if _is_asynchronous(error) else None)
        elif self._is_committing and not self._is_of_driver(error) and self._backend.is_idle(link.driver):
            link.drop_uncertain(self._backend)  # the commit was complete before the error
            self._end(link)
        else:
            self._undo(link, error)

    def _end_nested(self, link: ThreadConnection, error: BaseException | None) -> None:
        link.failure = link.failure or error
        del link.open_blocks[link.open_blocks.index(self) :]

    def _begin(self, link: ThreadConnection) -> Connection:
        backend = self._backend
        is_fresh = link.connection is None
        link.is_writing = self._is_writing
        while True:
            connection = link.connection or link.open(backend)
            try:
                if self._before is not None:
                    backend.run(link.driver, self._before)
                backend.run(link.driver, backend.begin_write if self._is_writing else backend.begin_read)
            except backend.driver_errors:
                if is_fresh or not backend.was_lost(link.driver):
                    raise
                link.drop()  # the server ended the idle connection; no changes were lost
                is_fresh = True
            else:
                return connection

    def _join(self, link: ThreadConnection) -> Connection:
        if self._is_writing and not link.is_writing:
            raise StoreError("a write cannot begin within a read of the same thread; end the read first")
        assert link.connection is not None  # noqa: S101 # for the type checker: the outer transaction has opened it
        if link.before_join is not None:
            try:
                link.before_join()
            except BaseException as error:  # the outer transaction lacks its deferred changes
                link.failure = link.failure or error
                raise
        return link.connection

    def _commit(self, link: ThreadConnection) -> None:
        backend, failure = self._backend, link.failure
        if link.is_foreign:
            self._undo(link)
            raise StoreError(FORKED)
        if failure is not None or (backend.name != SQLITE and backend.has_failed(link.driver)):
            self._undo(link)
            raise StoreError(
                f"a part of this transaction on {backend.location} failed, so nothing was written; do not catch its "
                f"error within the block{f' ({failure})' if failure else ''}"
            ) from failure
        mark = backend.mark if self._is_writing else None
        try:
            counts = None if mark is None else Counts.of(link.driver)
            self._is_committing = True
            link.connection.commit()  # type: ignore[union-attr]
            if not backend.is_idle(link.driver):  # true if no statement used SQLAlchemy
                backend.run(link.driver, "COMMIT")  # `commit` of sqlite3 would compile this each time
        except BaseException as error:
            self._fail(error)
            self._raise_ours(error, committing=True)
            raise
        if mark is not None and counts is not None:
            mark.write(counts)
        self._end(link)

    def _undo(self, link: ThreadConnection, error: BaseException | None = None) -> None:
        """Roll back the open transaction, if any."""
        is_clean = False
        try:
            if link.connection is not None and not link.is_foreign:
                with contextlib.suppress(Exception):
                    link.connection.rollback()
                is_clean = self._is_rolled_back(link)
        finally:
            if not is_clean and self._backend.is_shared:  # the store exists only in this connection
                with contextlib.suppress(BaseException):
                    is_clean = self._is_rolled_back(link)
            if not is_clean:
                link.drop()
            elif _is_asynchronous(error):
                link.drop_uncertain(self._backend)
            self._end(link, is_undone=True)

    def _is_rolled_back(self, link: ThreadConnection) -> bool:
        with contextlib.suppress(Exception):
            link.driver.rollback()
        return (
            link.connection is not None
            and not link.connection.invalidated
            and self._backend.is_idle(link.driver)
        )

    def _end(self, link: ThreadConnection, *, is_undone: bool = False) -> None:
        link.before_join = None
        link.failure = None
        if not is_undone:
            link.on_rollback.clear()
        link.open_blocks.clear()  # from here on, the transaction has ended
        if self._connections.is_closed:
            link.drop()
            if self._backend.mark is not None:
                self._backend.mark.close()
        if link.on_rollback:
            link.undo()

    def _is_of_driver(self, error: BaseException) -> bool:
        cause: Any = error.orig if isinstance(error, DBAPIError) else error
        return isinstance(cause, self._backend.driver_errors)

    def _raise_ours(self, error: BaseException, *, committing: bool = False) -> None:
        """Raise our error for the driver's error."""
        if self._is_of_driver(error):
            cause: Any = error.orig if isinstance(error, DBAPIError) else error
            raise translate(cause, self._backend.location, committing=committing) from cause


class Transaction:
    """A context manager that returns the connection. It commits or rolls back at its end.

    `partial` binds the methods. A frame of a traceback would keep `self` alive, but a `partial` is a C object without a
    frame.

    Args:
        backend: the database.
        connections: the connections to it.
        is_writing: acquire the store's write lock.
        before: a statement to run before the transaction begins, because it must not run within one.
    """

    __slots__ = ("__weakref__", "_block")

    def __init__(
        self, backend: Backend, connections: Connections, *, is_writing: bool, before: str | None = None
    ) -> None:
        self._block = Block(backend, connections, is_writing=is_writing, before=before)

    @property
    def __enter__(self) -> Callable[[], Connection]:
        """The method that begins the transaction."""
        block = self._block
        if block.token is None:
            block.token = ref(self, block.token_died)
        return partial(Block.enter, block, self)  # `self` is the token until the transaction has begun

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302, PYI036 # a property that returns the method
        """The method that ends the transaction. The `with` statement holds it until then, so it is the token."""
        block = self._block
        token = partial(Block.exit, block)
        block.token = ref(token, block.token_died)
        return token


def _is_asynchronous(error: BaseException | None) -> bool:
    """Return True for an asynchronous exception, raised between two instructions."""
    return error is not None and (isinstance(error, MemoryError) or not isinstance(error, Exception))
