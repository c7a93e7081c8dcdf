"""Rows of pendings and of the decisions on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.storage.clock import from_text, now_text
from tract_jupyter.storage.schema import decisions, pendings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class StoredPending:
    """A pending as it lies in the store."""

    pending_id: str
    operation: str
    title: str
    fields: dict[str, Any]
    fingerprint: str
    status: str
    actor: str
    triggered_by: str | None
    resumable: bool
    error: str | None
    created_at: datetime


class PendingRows:
    """The pendings of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def insert(self, connection: Connection, values: Mapping[str, Any], fields: dict[str, Any]) -> None:
        """Add a pending that a person is to be asked about."""
        row = {"tract_id": self.tract_id, "fields_json": canonical_json(fields), **values}
        connection.execute(pendings.insert().values(**row))

    def update(self, connection: Connection, pending_id: str, **values: Any) -> None:
        """Change what is known of a pending; `fields` may be among the values."""
        if "fields" in values:
            values["fields_json"] = canonical_json(values.pop("fields"))
        connection.execute(pendings.update().where(pendings.c.pending_id == pending_id).values(**values))

    def status(self, connection: Connection, pending_id: str) -> str | None:
        """The status as the store has it, None for a pending that was never stored."""
        return connection.scalar(select(pendings.c.status).where(pendings.c.pending_id == pending_id))

    def with_status(self, connection: Connection, *statuses: str, limit: int = 100) -> list[StoredPending]:
        """Stored pendings in one of the states, oldest first."""
        query = select(pendings).where(pendings.c.tract_id == self.tract_id, pendings.c.status.in_(statuses))
        rows = connection.execute(query.order_by(pendings.c.created_at, pendings.c.pending_id).limit(limit))
        return [_stored(row) for row in rows]

    def count(self, connection: Connection, *statuses: str) -> int:
        """How many stored pendings are in one of the states."""
        query = select(func.count()).where(
            pendings.c.tract_id == self.tract_id, pendings.c.status.in_(statuses)
        )
        return connection.scalar(query) or 0

    def rounds(self, connection: Connection, pending_id: str) -> int:
        """How many decisions were made on a pending so far."""
        return connection.scalar(select(func.count()).where(decisions.c.pending_id == pending_id)) or 0

    def decide(self, connection: Connection, pending_id: str, round_: int, values: Mapping[str, Any]) -> bool:
        """Add the decision of a round; False if somebody else decided that round first."""
        row = {"tract_id": self.tract_id, "pending_id": pending_id, "round": round_, "created_at": now_text()}
        try:
            with connection.begin_nested():
                connection.execute(decisions.insert().values(**row, **values))
        except IntegrityError:
            return False
        return True


def _stored(row: Any) -> StoredPending:
    return StoredPending(
        row.pending_id, row.operation, row.title, json.loads(row.fields_json), row.fingerprint, row.status,
        row.actor, row.triggered_by, row.resumable, row.error, from_text(row.created_at),
    )  # fmt: skip
