"""Transactions: short, on the thread's own connection, and nestable.

Within a transaction of the same thread, another `read()` or `write()` joins it. If a nested write fails, the whole
transaction is rolled back, also where the error was caught on the way: half of it is never written.

No interrupt cuts the block of a transaction. What cuts it all the same (an interrupt whose sender does not want to
wait, an exception from another thread) leaves a connection in doubt, which is not used again.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from sqlalchemy.exc import DBAPIError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage.connections import FORKED
from tract_jupyter.storage.errors import translate
from tract_jupyter.storage.interrupts import begin, end, frame_at, whole

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from sqlalchemy import Connection

    from tract_jupyter.storage.connections import Connections, Link
    from tract_jupyter.storage.engines import Backend


class Transaction:
    """A context manager that gives the connection. Its caller neither commits nor rolls back.

    Args:
        backend: what is connected to.
        connections: the connections to it.
        is_writing: whether to take the store's write lock.
        before: a statement that must run outside of transactions, just before this one begins.
    """

    __slots__ = ("__weakref__", "_backend", "_before", "_connections", "_frame", "_is_writing", "_link")

    def __init__(
        self, backend: Backend, connections: Connections, *, is_writing: bool, before: str | None = None
    ) -> None:
        self._backend = backend
        self._connections = connections
        self._is_writing = is_writing
        self._before = before
        self._link: Link
        self._frame: FrameType

    @whole
    def __enter__(self) -> Connection:
        self._frame = frame_at(1)
        begin(self._frame)
        try:
            return self._entered()
        except BaseException:
            end(self._frame)
            raise

    @whole
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ended(error)
        finally:
            end(self._frame)

    def _entered(self) -> Connection:
        link = self._link = self._connections.enter()
        try:
            connection = self._join(link) if link.depth else self._begin(link)
            parts = self._backend, self._connections, self._is_writing, link, self._frame
            link.begun.append(ref(self, partial(_abandon, parts)))
        except BaseException as error:
            link.lock.release()
            if isinstance(error, UnicodeDecodeError):
                raise translate(error, self._backend.location) from error
            self._raise_ours(error)
            raise
        return connection

    def _ended(self, error: BaseException | None) -> None:
        link = self._link
        link.begun.pop()
        try:
            if link.depth > 1:
                self._leave(link, error)
            elif error is None:
                self._commit(link)
            else:
                self._undo(link, error)
        finally:
            link.lock.release()
        if error is not None:
            self._raise_ours(error)

    def _begin(self, link: Link) -> Connection:
        is_fresh = link.connection is None
        try:
            connection = link.open(self._backend)
            try:
                self._run(link)
            except self._backend.driver_errors:
                if is_fresh or not self._backend.was_lost(link.driver):
                    raise
                link.drop()  # it was lost while it rested, so nothing was lost with it
                connection = link.open(self._backend)
                self._run(link)
        except BaseException as error:
            self._undo(link, error)
            raise
        link.is_writing = self._is_writing
        link.depth = 1
        return connection

    def _run(self, link: Link) -> None:
        if self._before:
            self._backend.run(link.driver, self._before)
        self._backend.run(
            link.driver, self._backend.begin_write if self._is_writing else self._backend.begin_read
        )

    def _join(self, link: Link) -> Connection:
        if self._is_writing and not link.is_writing:
            raise StoreError("a write cannot begin within a read of the same thread; end the read first")
        assert link.connection is not None  # noqa: S101 # for the type checker: it is open while depth > 0
        if link.before_join is not None:
            link.before_join()
        link.depth += 1
        return link.connection

    def _leave(self, link: Link, error: BaseException | None) -> None:
        link.depth -= 1
        if error is not None and self._is_writing and link.failure is None:
            link.failure = error

    def _commit(self, link: Link) -> None:
        backend, failure = self._backend, link.failure
        if link.is_foreign:
            self._undo(link)
            raise StoreError(FORKED)
        if failure is not None or backend.is_spoilt(link.driver):
            self._undo(link)
            raise StoreError(
                f"a part of this transaction on {backend.location} failed, so nothing of it was written; "
                f"let its error end the block{f' ({failure})' if failure else ''}"
            ) from failure
        try:
            link.connection.commit()  # type: ignore[union-attr]
            link.driver.commit()  # where no statement went through SQLAlchemy
        except BaseException as error:
            if _cuts(error) and backend.is_idle(link.driver):  # it was too late: all is written
                link.drop_doubtful(backend)
                self._end(link)
                raise
            self._undo(link, error)
            self._raise_ours(error, committing=True)
            raise
        self._end(link)

    def _undo(self, link: Link, error: BaseException | None = None) -> None:
        """Roll back whatever there is."""
        is_clean = False
        try:
            if link.connection is not None and not link.is_foreign:
                with contextlib.suppress(Exception):
                    link.connection.rollback()
                with contextlib.suppress(Exception):
                    link.driver.rollback()
                is_clean = not link.connection.invalidated and self._backend.is_idle(link.driver)
        finally:
            if not is_clean:
                link.drop()
            elif _cuts(error):
                link.drop_doubtful(self._backend)
            calls = link.undone
            self._end(link)
            for call in calls:
                call()

    def _end(self, link: Link) -> None:
        link.depth = 0
        link.before_join = None
        link.undone = []
        link.failure = None
        if self._connections.is_closed:
            link.drop()

    def _raise_ours(self, error: BaseException, *, committing: bool = False) -> None:
        """Raise our error in the place of the driver's."""
        cause: Any = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, self._backend.driver_errors):
            raise translate(cause, self._backend.location, committing=committing) from cause


def _abandon(given: tuple[Backend, Connections, bool, Link, FrameType], own: object) -> None:
    """Undo a transaction that was cut as its `__exit__` was to begin; nothing may hang on to it."""
    backend, connections, is_writing, link, frame = given
    if link.lock.acquire(blocking=False):
        link.begun = [other for other in link.begun if other is not own]
        cut, transaction = KeyboardInterrupt(), Transaction(backend, connections, is_writing=is_writing)
        transaction._leave(link, cut)  # noqa: SLF001 # of the same class
        if link.depth == 0:
            transaction._undo(link, cut)  # noqa: SLF001
        link.lock.release()
        link.lock.release()
        end(frame)


def _cuts(error: BaseException | None) -> bool:
    """Whether something ended a block that is no error of its own, and can have come between any two instructions."""
    return error is not None and not isinstance(error, Exception)
