"""Rows of handlers: code that decides about an operation, with the signature of its approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import handlers

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select


class StoredHandler(NamedTuple):
    """A handler as it lies in the store: text that nobody has vouched for until its signature is checked."""

    operation: str
    name: str
    spec_json: str
    spec_hash: str
    signature: str
    beside_json: str | None
    """The names of the handlers of its operation in their order, when it was signed."""


class HandlerRows:
    """The handlers of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def all(self, connection: Connection, operation: str | None = None) -> list[StoredHandler]:
        """Every stored handler, or those of an operation, in the order in which they were stored."""
        query = self._mine() if operation is None else self._mine().where(handlers.c.operation == operation)
        return [StoredHandler._make(row) for row in connection.execute(query.order_by(handlers.c.id))]

    def get(self, connection: Connection, operation: str, name: str) -> StoredHandler | None:
        """A stored handler."""
        query = self._mine().where(handlers.c.operation == operation, handlers.c.name == name)
        row = connection.execute(query).first()
        return None if row is None else StoredHandler._make(row)

    def replace(self, connection: Connection, handler: StoredHandler) -> None:
        """Store a handler; one of the same name keeps its place."""
        values = {"tract_id": self.tract_id, "created_at": now_text(), **handler._asdict()}
        changed = connection.execute(handlers.update().where(*self._is(handler)).values(**values))
        if changed.rowcount == 0:
            connection.execute(handlers.insert().values(**values))

    def delete(self, connection: Connection, operation: str, name: str | None = None) -> None:
        """Remove a handler, or all of an operation."""
        where = [handlers.c.tract_id == self.tract_id, handlers.c.operation == operation]
        if name is not None:
            where.append(handlers.c.name == name)
        connection.execute(handlers.delete().where(*where))

    def _mine(self) -> Select[Any]:
        columns = [handlers.c[name] for name in StoredHandler._fields]
        return select(*columns).where(handlers.c.tract_id == self.tract_id)

    def _is(self, handler: StoredHandler) -> tuple[ColumnElement[bool], ...]:
        table = handlers.c
        return (
            table.tract_id == self.tract_id,
            table.operation == handler.operation,
            table.name == handler.name,
        )
