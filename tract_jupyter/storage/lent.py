"""A database that several tracts share: closing one of them leaves it open for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import StoreClosedError
from tract_jupyter.storage.database import Database

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection


class Lent(Database):
    """The same database for one more user.

    Args:
        owner: the database, which only its owner closes.
    """

    def __init__(self, owner: Database) -> None:
        self._owner = owner
        self.location = owner.location
        self.is_closed = False

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._owner.dialect

    @property
    def lock(self) -> threading.RLock:
        """The owner's."""
        return self._owner.lock

    def read(self) -> AbstractContextManager[Connection]:
        """A read transaction of the owner's."""
        self._check()
        return self._owner.read()

    def write(self) -> AbstractContextManager[Connection]:
        """A write transaction of the owner's."""
        self._check()
        return self._owner.write()

    def before_nested(self, call: Callable[[], None]) -> None:
        """As of the owner."""
        self._owner.before_nested(call)

    @property
    def in_transaction(self) -> bool:
        """As of the owner."""
        return self._owner.in_transaction

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """As of the owner."""
        self._owner.if_rolled_back(call)

    def close(self) -> None:
        """Give it back. The owner, and others that it is lent to, go on."""
        self.is_closed = True

    def _check(self) -> None:
        if self.is_closed:
            raise StoreClosedError(
                f"this tract of the session on {self.location} was closed; get_tract of the session opens it again"
            )
