"""Rows of the hook log: what each handler did. The oldest go once there are more than `KEPT` of a tract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tract_jupyter.storage.schema import hook_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

KEPT = 10_000
_SLACK = 100  # rows more before some go: deleting at each write would cost more than the writing


class HookLogRows:
    """The hook log of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id
        self._added = _SLACK  # looks at the first writing: what only short processes write is bounded too

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, oldest first."""
        connection.execute(hook_log.insert(), [{"tract_id": self.tract_id, **row} for row in rows])
        self._added += len(rows)
        if self._added >= _SLACK:
            self._added = 0
            self._shorten(connection)

    def newest(
        self,
        connection: Connection,
        *,
        operation: str | None,
        handler: str | None,
        outcome: str | None,
        pending_id: str | None,
        limit: int,
    ) -> list[Row[Any]]:
        """The newest rows first, of those that fit."""
        wanted = {"operation": operation, "handler": handler, "outcome": outcome, "pending_id": pending_id}
        where = [hook_log.c[name] == value for name, value in wanted.items() if value is not None]
        query = select(hook_log).where(hook_log.c.tract_id == self.tract_id, *where)
        return list(connection.execute(query.order_by(hook_log.c.id.desc()).limit(limit)))

    def _shorten(self, connection: Connection) -> None:
        mine = hook_log.c.tract_id == self.tract_id
        oldest_kept = (
            select(hook_log.c.id).where(mine).order_by(hook_log.c.id.desc()).offset(KEPT - 1).limit(1)
        )
        oldest = connection.scalar(oldest_kept)
        if oldest is not None:
            connection.execute(hook_log.delete().where(mine, hook_log.c.id < oldest))
