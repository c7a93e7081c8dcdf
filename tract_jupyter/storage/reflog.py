"""Rows of the reflog: every move of a branch or of HEAD, but for plain commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import reflog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection


class Move(NamedTuple):
    """One move. For a branch `old` and `new` are commits; for HEAD a branch or a commit."""

    id: int
    ref_name: str
    old: str | None
    new: str | None
    operation: str
    message: str
    undoes: int | None
    created_at: str


_COLUMNS = tuple(reflog.c[name] for name in Move._fields)


class ReflogRows:
    """The reflog of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(
        self,
        connection: Connection,
        ref_name: str,
        old: str | None,
        new: str | None,
        operation: str,
        message: str = "",
        undoes: int | None = None,
        at: str | None = None,
    ) -> None:
        """Record a move, as of now or of a time that is given."""
        values = {
            "tract_id": self.tract_id,
            "ref_name": ref_name,
            "old": old,
            "new": new,
            "operation": operation,
            "message": message,
            "undoes": undoes,
            "created_at": at or now_text(),
        }
        connection.execute(reflog.insert().values(**values))

    def newest_first(self, connection: Connection, ref_name: str, limit: int | None = None) -> Iterator[Move]:
        """The moves of a ref; read on only as far as it is looked at."""
        where = (reflog.c.tract_id == self.tract_id, reflog.c.ref_name == ref_name)
        query = select(*_COLUMNS).where(*where).order_by(reflog.c.id.desc())
        with connection.execute(query if limit is None else query.limit(limit)) as rows:
            for row in rows:
                yield Move._make(row)
