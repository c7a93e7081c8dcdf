"""Rows of decisions. The first one of a round wins, and each is carried out by whoever claims it first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.lenient import read_dict, read_moment
from tract_jupyter.storage.schema import decisions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision as it lies in the store. `claimed_by` tells who carries it out, or did."""

    pending_id: str
    round: int
    action: str
    arguments: dict[str, Any]
    reason: str
    decided_by: str
    channel: str
    fingerprint: str
    identity: str
    signature: str
    decided_at: datetime
    claimed_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None


# made once: building a statement takes longer than running it
_ON_IT = decisions.c.pending_id == bindparam("id_")
_COUNT = select(func.count()).where(_ON_IT)
_OF = select(decisions).where(_ON_IT).order_by(decisions.c.round)
_LAST = select(decisions).where(_ON_IT).order_by(decisions.c.round.desc()).limit(1)
_UPDATE = decisions.update().where(_ON_IT, decisions.c.round == bindparam("round_"))
_CLAIM = _UPDATE.where(decisions.c.finished_at.is_(None), decisions.c.claimed_by == bindparam("before_"))
_TAKE = _UPDATE.where(decisions.c.finished_at.is_(None), decisions.c.claimed_by.is_(None))


class DecisionRows:
    """The decisions of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def insert(
        self,
        connection: Connection,
        pending_id: str,
        round_: int,
        arguments: dict[str, Any],
        values: Mapping[str, Any],
    ) -> None:
        """Add the decision of a round that nobody has decided."""
        row = {
            "tract_id": self.tract_id,
            "pending_id": pending_id,
            "round": round_,
            "arguments_json": canonical_json(arguments),
            **values,
        }
        connection.execute(decisions.insert(), row)

    def count(self, connection: Connection, pending_id: str) -> int:
        """How many decisions were made on a pending so far."""
        return connection.scalar(_COUNT, {"id_": pending_id}) or 0

    def of(self, connection: Connection, pending_id: str) -> list[StoredDecision]:
        """The decisions on a pending, in their order."""
        return [_stored(row) for row in connection.execute(_OF, {"id_": pending_id})]

    def last(self, connection: Connection, pending_id: str) -> StoredDecision | None:
        """The last decision on a pending."""
        row = connection.execute(_LAST, {"id_": pending_id}).first()
        return None if row is None else _stored(row)

    def was_chosen(self, connection: Connection, identity: str, action: str) -> bool:
        """Whether an action was ever chosen about the same thing."""
        table = decisions.c
        where = (table.tract_id == self.tract_id, table.identity == identity, table.action == action)
        return connection.scalar(select(table.id).where(*where).limit(1)) is not None

    def newest(self, connection: Connection, limit: int) -> list[StoredDecision]:
        """The newest decisions first."""
        query = select(decisions).where(decisions.c.tract_id == self.tract_id)
        return [
            _stored(row) for row in connection.execute(query.order_by(decisions.c.id.desc()).limit(limit))
        ]

    def through(self, connection: Connection, channels: Collection[str]) -> list[StoredDecision]:
        """The decisions that came over some channels, oldest first."""
        where = (decisions.c.tract_id == self.tract_id, decisions.c.channel.in_(channels))
        return [
            _stored(row)
            for row in connection.execute(select(decisions).where(*where).order_by(decisions.c.id))
        ]

    def claim(
        self, connection: Connection, pending_id: str, round_: int, by: str, *, instead_of: str | None
    ) -> bool:
        """Say that `by` begins to carry it out. False if somebody else did.

        Args:
            connection: of a write transaction.
            pending_id: the pending.
            round_: which decision on it.
            by: the process.
            instead_of: who was to carry it out: itself, or None if it was left to whoever asked. For another process
                a person must have said so.
        """
        values = {"id_": pending_id, "round_": round_, "claimed_by": by, "started_at": now_text()}
        if instead_of is None:
            return connection.execute(_TAKE, values).rowcount == 1
        return connection.execute(_CLAIM, {**values, "before_": instead_of}).rowcount == 1

    def sign(self, connection: Connection, pending_id: str, round_: int, signature: str) -> None:
        """Give a decision another signature."""
        connection.execute(_UPDATE, {"id_": pending_id, "round_": round_, "signature": signature})

    def finish(self, connection: Connection, pending_id: str, round_: int, error: str | None) -> None:
        """Record that it was carried out, or failed."""
        values = {"id_": pending_id, "round_": round_, "finished_at": now_text(), "error": error}
        connection.execute(_UPDATE, values)


def _stored(row: Any) -> StoredDecision:
    return StoredDecision(
        row.pending_id, row.round, row.action, read_dict(row.arguments_json), row.reason, row.decided_by,
        row.channel, row.fingerprint, row.identity, row.signature, read_moment(row.created_at), row.claimed_by,
        None if row.started_at is None else read_moment(row.started_at),
        None if row.finished_at is None else read_moment(row.finished_at), row.error,
    )  # fmt: skip
