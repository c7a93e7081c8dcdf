"""Transactions: short, on the thread's own connection, and nestable.

Within a transaction of the same thread, another `read()` or `write()` joins it. If a nested write fails, the whole
transaction is rolled back, also where the error was caught on the way: half of it is never written.

No interrupt of the user cuts a block, but other exceptions can come between any two instructions: an interrupt that is
repeated, the handler of another signal, another thread, a lack of memory. Such a connection is in doubt: it is closed
and not used again. The exception may come anywhere. So each step of a transaction can be repeated, and the steps that
began are recorded in lists that one call of C changes. A `with` statement holds an object, the token, which dies with
the block even if a traceback stays alive. Its end ends the transaction, if nothing else has.
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
from tract_jupyter.storage.interrupts import begin, end, frame_at, whole
from tract_jupyter.storage.mark import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from tract_jupyter.storage.connections import Connections, ThreadConnection
    from tract_jupyter.storage.engines import Backend

_ACQUIRE: Final[Any] = type(threading.RLock()).acquire
_RELEASE: Final[Any] = type(threading.RLock()).release


class Block:
    """The state of one transaction: the steps that began and have to end.

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
        """One element if the lock was acquired, two if it was released as well."""
        self._is_committing = False
        self.token: ref[object] | None = None

    @whole
    def enter(self, _transaction: Transaction) -> Connection:
        """Begin the transaction, as `__enter__` does."""
        try:
            begin(frame_at(1), self)
            link = self._link = self._connections.of_this_thread()
            self._lock_calls.extend(map(_ACQUIRE, (link.lock,)))
            self._connections.check(link)
            if link.begun or link.undone:
                for cut in [one for one in link.begun if one.is_cut]:
                    cut.settle()
                link.undo()
            link.begun.append(self)
            return self._join(link) if len(link.begun) > 1 else self._begin(link)
        except BaseException as error:
            self._fail(error)
            self._let_go()
            if isinstance(error, UnicodeDecodeError):
                raise translate(error, self._backend.location) from error
            self._raise_ours(error)
            raise

    @whole
    def exit(self, *about: Any) -> None:
        """End the transaction, as `__exit__` does."""
        error: BaseException | None = about[1]
        try:
            self._finish(error)
            if error is not None:
                self._raise_ours(error)
        except BaseException as cut:
            self._fail(cut)
            raise
        finally:
            self._let_go()

    @property
    def is_cut(self) -> bool:
        """True if its block has ended, and the transaction has not."""
        return self.token is not None and self.token() is None

    @whole
    def settle(self) -> None:
        """End a cut transaction, as far as it has begun. Do nothing in another thread."""
        link = self._link
        if link is not None and link.is_held:
            self._fail(KeyboardInterrupt())
            self._let_go()
        else:
            end(self)

    @whole
    def token_died(self, _token: object) -> None:
        """End the steps that began: the `with` block is gone."""
        self.settle()

    def _let_go(self) -> None:
        if len(self._lock_calls) == 1 and self._link is not None:
            self._lock_calls.extend(map(_RELEASE, (self._link.lock,)))
        end(self)
        self.token = None  # it has ended; until here, the end of the block repeats this

    def _finish(self, error: BaseException | None) -> None:
        """End the transaction in order: commit it, or roll it back because of an error."""
        link = self._link
        if link is None or self not in link.begun:
            if error is None:
                raise StoreError(
                    f"this transaction on {self._backend.location} was cut; nothing of it was written"
                )
            return
        if link.begun[-1] is not self:  # one within it was cut
            link.failure = link.failure or KeyboardInterrupt()
        if link.begun[0] is not self:
            self._end_nested(link, error if self._is_writing else None)
        elif error is None:
            self._commit(link)
        else:
            self._undo(link, error)

    def _fail(self, error: BaseException) -> None:
        """End the transaction after an error, however far it came. Do not end a step twice."""
        link = self._link
        if link is None or self not in link.begun:
            return
        if link.begun[0] is not self:
            self._end_nested(link, error if _cuts(error) else None)
        elif self._is_committing and not self._is_of_driver(error) and self._backend.is_idle(link.driver):
            link.drop_doubtful(self._backend)  # it was too late: all is written
            self._end(link)
        else:
            self._undo(link, error)

    def _end_nested(self, link: ThreadConnection, error: BaseException | None) -> None:
        link.failure = link.failure or error
        del link.begun[link.begun.index(self) :]

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
                link.drop()  # it was lost while it rested, so nothing was lost with it
                is_fresh = True
            else:
                return connection

    def _join(self, link: ThreadConnection) -> Connection:
        if self._is_writing and not link.is_writing:
            raise StoreError("a write cannot begin within a read of the same thread; end the read first")
        assert link.connection is not None  # noqa: S101 # for the type checker: the outer transaction has opened it
        if link.before_join is not None:
            link.before_join()
        return link.connection

    def _commit(self, link: ThreadConnection) -> None:
        backend, failure = self._backend, link.failure
        if link.is_foreign:
            self._undo(link)
            raise StoreError(FORKED)
        if failure is not None or (backend.name != SQLITE and backend.is_spoilt(link.driver)):
            self._undo(link)
            raise StoreError(
                f"a part of this transaction on {backend.location} failed, so nothing of it was written; "
                f"let its error end the block{f' ({failure})' if failure else ''}"
            ) from failure
        mark = backend.mark if self._is_writing else None
        try:
            counts = None if mark is None else Counts.of(link.driver)
            self._is_committing = True
            link.connection.commit()  # type: ignore[union-attr]
            if not backend.is_idle(link.driver):  # no statement went through SQLAlchemy
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
            if not is_clean and self._backend.is_shared:  # the only connection is the store
                with contextlib.suppress(BaseException):
                    is_clean = self._is_rolled_back(link)
            if not is_clean:
                link.drop()
            elif _cuts(error):
                link.drop_doubtful(self._backend)
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
            link.undone.clear()
        link.begun.clear()  # from here on it has ended
        if self._connections.is_closed:
            link.drop()
            if self._backend.mark is not None:
                self._backend.mark.close()
        if link.undone:
            link.undo()

    def _is_of_driver(self, error: BaseException) -> bool:
        cause: Any = error.orig if isinstance(error, DBAPIError) else error
        return isinstance(cause, self._backend.driver_errors)

    def _raise_ours(self, error: BaseException, *, committing: bool = False) -> None:
        """Raise our error in the place of the driver's."""
        if self._is_of_driver(error):
            cause: Any = error.orig if isinstance(error, DBAPIError) else error
            raise translate(cause, self._backend.location, committing=committing) from cause


class Transaction:
    """A context manager that gives the connection. Its caller neither commits nor rolls back.

    The methods are bound by `partial`, an object of C: no frame of a traceback refers to it, as one would to `self`.

    Args:
        backend: the database kind.
        connections: the connections to it.
        is_writing: whether to take the store's write lock.
        before: a statement that must run outside of transactions, just before this one begins.
    """

    __slots__ = ("__weakref__", "_block")

    def __init__(
        self, backend: Backend, connections: Connections, *, is_writing: bool, before: str | None = None
    ) -> None:
        self._block = Block(backend, connections, is_writing=is_writing, before=before)

    @property
    def __enter__(self) -> Callable[[], Connection]:
        """Begins the transaction."""
        block = self._block
        if block.token is None:
            block.token = ref(self, block.token_died)
        return partial(Block.enter, block, self)  # which lives until it has begun

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302, PYI036 # it returns the method
        """Ends it. A `with` statement holds this until then."""
        block = self._block
        token = partial(Block.exit, block)
        block.token = ref(token, block.token_died)
        return token


def _cuts(error: BaseException | None) -> bool:
    """Return True for an asynchronous exception, raised between two instructions."""
    return error is not None and (isinstance(error, MemoryError) or not isinstance(error, Exception))
