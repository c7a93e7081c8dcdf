"""Rows of events: what happened, by whom, when. Append-only."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.storage.clock import from_text, now_text
from tract_jupyter.storage.columns import from_json
from tract_jupyter.storage.schema import events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `event_type` is `custom:<operation>`, `operation.activated`, `decision`, ..."""

    event_id: int
    event_type: str
    actor: str
    data: dict[str, Any]
    created_at: datetime


_triggered_by: ContextVar[str | None] = ContextVar("triggered_by", default=None)


@contextmanager
def triggered(by: str | None) -> Iterator[None]:
    """Have the events of a block say what set it off; None leaves that to an outer block."""
    token = _triggered_by.set(by if by is not None else _triggered_by.get())
    try:
        yield
    finally:
        _triggered_by.reset(token)


def what_triggered() -> str | None:
    """What set off what this block does, if anybody has said so."""
    return _triggered_by.get()


class EventRows:
    """The events of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def append(self, connection: Connection, event_type: str, actor: str, data: dict[str, Any]) -> None:
        """Add an event, in the caller's transaction."""
        by = _triggered_by.get()
        if by is not None:
            data = {"triggered_by": by, **data}
        row = {
            "tract_id": self.tract_id,
            "event_type": event_type,
            "actor": actor,
            "data_json": canonical_json(data),
            "created_at": now_text(),
        }
        connection.execute(events.insert(), row)

    def newest(self, connection: Connection, event_type: str | None, limit: int) -> list[Event]:
        """The newest events first; with a type that ends in `*`, those whose type begins so."""
        query = select(events).where(events.c.tract_id == self.tract_id)
        if event_type is not None and event_type.endswith("*"):
            query = query.where(events.c.event_type.startswith(event_type[:-1], autoescape=True))
        elif event_type is not None:
            query = query.where(events.c.event_type == event_type)
        rows = connection.execute(query.order_by(events.c.id.desc()).limit(limit))
        return [
            Event(
                row.id, row.event_type, row.actor, from_json(row.data_json, dict), from_text(row.created_at)
            )
            for row in rows
        ]
