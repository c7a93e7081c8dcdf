"""Rows of compile records: which context was sent, in a few numbers. The messages follow from head and parameters."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.storage.clock import from_text, now_text
from tract_jupyter.storage.columns import from_json
from tract_jupyter.storage.schema import compile_records

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class CompileRecord:
    """One context that was sent to a model."""

    record_id: str
    head: str | None
    token_count: int
    message_count: int
    token_source: str
    params: dict[str, Any]
    """What `compile` was called with, and `commits` where the head alone does not say which."""
    created_at: datetime


class CompileRows:
    """The compile records of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(
        self,
        connection: Connection,
        head: str | None,
        tokens: int,
        messages: int,
        source: str,
        params: dict[str, Any],
    ) -> str:
        """Add a record, and return its id."""
        record_id = secrets.token_hex(8)
        connection.execute(
            compile_records.insert().values(
                record_id=record_id,
                tract_id=self.tract_id,
                head_hash=head,
                token_count=tokens,
                message_count=messages,
                token_source=source,
                params_json=canonical_json(params),
                created_at=now_text(),
            )
        )
        return record_id

    def newest(self, connection: Connection, limit: int) -> list[CompileRecord]:
        """The newest records first."""
        query = select(compile_records).where(compile_records.c.tract_id == self.tract_id)
        rows = connection.execute(query.order_by(compile_records.c.created_at.desc()).limit(limit))
        return [_record(row) for row in rows]

    def get(self, connection: Connection, record_id: str) -> CompileRecord | None:
        """One record."""
        where = (compile_records.c.tract_id == self.tract_id, compile_records.c.record_id == record_id)
        row = connection.execute(select(compile_records).where(*where)).first()
        return _record(row) if row else None


def _record(row: Any) -> CompileRecord:
    return CompileRecord(
        record_id=row.record_id,
        head=row.head_hash,
        token_count=row.token_count,
        message_count=row.message_count,
        token_source=row.token_source,
        params=from_json(row.params_json, dict),
        created_at=from_text(row.created_at),
    )
