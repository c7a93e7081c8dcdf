"""Transactions: short, on the thread's own connection, and nestable.

Within a transaction of the same thread, another `read()` or `write()` joins it. If a nested write fails, the whole
transaction is rolled back, also where the error was caught on the way: half of it is never written.

No interrupt cuts the block of a transaction. What cuts it all the same (an interrupt whose sender does not want to
wait, an exception from another thread) leaves a connection in doubt, which is not used again.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from sqlalchemy.exc import DBAPIError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage.connections import FORKED
from tract_jupyter.storage.engines import SQLITE
from tract_jupyter.storage.errors import translate
from tract_jupyter.storage.interrupts import begin, end, frame_at, whole

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from sqlalchemy import Connection

    from tract_jupyter.storage.connections import Connections, ThreadConnection
    from tract_jupyter.storage.engines import Backend


class Transaction:
    """A context manager that gives the connection. Its caller neither commits nor rolls back.

    Args:
        backend: what is connected to.
        connections: the connections to it.
        is_writing: whether to take the store's write lock.
        before: a statement that must run outside of transactions, just before this one begins.
    """

    __slots__ = ("__weakref__", "_backend", "_connections", "_frame", "_is_writing", "_link", "_opening")

    def __init__(
        self, backend: Backend, connections: Connections, *, is_writing: bool, before: str | None = None
    ) -> None:
        self._backend = backend
        self._connections = connections
        self._is_writing = is_writing
        first = backend.begin_write if is_writing else backend.begin_read
        self._opening = (first,) if before is None else (before, first)
        self._link: ThreadConnection
        self._frame: FrameType

    @whole
    def __enter__(self) -> Connection:
        frame = self._frame = frame_at(1)
        begin(frame)
        try:
            link = self._link = self._connections.enter()
            try:
                connection = self._join(link) if link.depth else self._begin(link)
                parts = self._backend, self._connections, self._is_writing, link, frame
                link.begun.append(ref(self, partial(_abandon, parts)))
            except BaseException as error:
                link.lock.release()
                if isinstance(error, UnicodeDecodeError):
                    raise translate(error, self._backend.location) from error
                self._raise_ours(error)
                raise
        except BaseException:
            end(frame)
            raise
        return connection

    @whole
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link = self._link
        try:
            link.begun.pop()
            try:
                if link.depth > 1:
                    link.depth -= 1
                    if error is not None and self._is_writing and link.failure is None:
                        link.failure = error
                elif error is None:
                    self._commit(link)
                else:
                    self._undo(link, error)
            finally:
                link.lock.release()
            if error is not None:
                self._raise_ours(error)
        finally:
            end(self._frame)

    def _begin(self, link: ThreadConnection) -> Connection:
        backend = self._backend
        is_fresh = link.connection is None
        try:
            while True:
                connection = link.connection or link.open(backend)
                try:
                    for statement in self._opening:
                        backend.run(link.driver, statement)
                    break
                except backend.driver_errors:
                    if is_fresh or not backend.was_lost(link.driver):
                        raise
                    link.drop()  # it was lost while it rested, so nothing was lost with it
                    is_fresh = True
        except BaseException as error:
            self._undo(link, error)
            raise
        link.is_writing = self._is_writing
        link.depth = 1
        return connection

    def _join(self, link: ThreadConnection) -> Connection:
        if self._is_writing and not link.is_writing:
            raise StoreError("a write cannot begin within a read of the same thread; end the read first")
        assert link.connection is not None  # noqa: S101 # for the type checker: it is open while depth > 0
        if link.before_join is not None:
            link.before_join()
        link.depth += 1
        return link.connection

    def _commit(self, link: ThreadConnection) -> None:
        backend, failure = self._backend, link.failure
        if link.pid != os.getpid():
            self._undo(link)
            raise StoreError(FORKED)
        if failure is not None or (backend.name != SQLITE and backend.is_spoilt(link.driver)):
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

    def _undo(self, link: ThreadConnection, error: BaseException | None = None) -> None:
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

    def _end(self, link: ThreadConnection) -> None:
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


def _abandon(given: tuple[Backend, Connections, bool, ThreadConnection, FrameType], own: object) -> None:
    """Roll back a transaction that was cut before its `__exit__` began; nothing may hang on to it."""
    backend, connections, is_writing, link, frame = given
    if link.lock.acquire(blocking=False):
        link.begun = [other for other in link.begun if other is not own]
        cut = KeyboardInterrupt()
        link.depth -= 1
        if is_writing and link.failure is None:
            link.failure = cut
        if link.depth == 0:
            transaction = Transaction(backend, connections, is_writing=is_writing)
            transaction._undo(link, cut)  # noqa: SLF001 # of the same class
        link.lock.release()
        link.lock.release()
        end(frame)


def _cuts(error: BaseException | None) -> bool:
    """Return True if what ended a block is not an error of its own, but came between any two instructions."""
    return error is not None and not isinstance(error, Exception)
