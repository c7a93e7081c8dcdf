"""Rows of pendings (requests and their states) and of decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, func, select, tuple_

from tract_jupyter.models import canonical_json
from tract_jupyter.storage.columns import now_text, to_text
from tract_jupyter.storage.errors import read_dict, read_moment
from tract_jupyter.storage.schema import decisions, pendings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection, Select


@dataclass(frozen=True, slots=True)
class StoredPending:
    """A stored pending.

    `request` is the displayed question; None without a question. `signature` is the signature of the asking process.
    `outcome` is the signature of the process that executed the last decision.
    """

    pending_id: str
    operation: str
    title: str
    fields: dict[str, Any]
    fingerprint: str
    identity: str
    status: str
    actor: str
    triggered_by: str | None
    branch: str | None
    resumable: bool
    request: dict[str, Any] | None
    signature: str
    outcome: str
    origin: str | None
    waited_until: datetime | None
    expires_at: datetime | None
    on_timeout: str
    error: str | None
    created_at: datetime
    executed_at: datetime | None
    is_unshown: bool = False
    """True if code added the pending to the inbox, and no user was asked."""


class ShownPending(NamedTuple):
    """The columns of a stored pending that a decision checks."""

    status: str
    fields_json: str
    fingerprint: str
    identity: str
    request: dict[str, Any] | None


# built once: building a statement takes longer than running it
_IS_IT = pendings.c.pending_id == bindparam("id_")
_GET = select(pendings).where(_IS_IT)
_SHOWN = select(
    pendings.c.status,
    pendings.c.fields_json,
    pendings.c.fingerprint,
    pendings.c.identity,
    pendings.c.request_json,
).where(_IS_IT)
_STANDING = (
    select(pendings.c.pending_id, pendings.c.status, func.count(decisions.c.pending_id))
    .outerjoin(decisions, decisions.c.pending_id == pendings.c.pending_id)
    .where(pendings.c.pending_id.in_(bindparam("ids", expanding=True)))
    .group_by(pendings.c.pending_id, pendings.c.status)
)
_UPDATE = pendings.update().where(_IS_IT)
_UNSETTLED = select(pendings).where(
    pendings.c.tract_id == bindparam("its_tract_id"), pendings.c.settled_at.is_(None)
)
_SAME = _UNSETTLED.where(pendings.c.identity == bindparam("its_identity")).order_by(pendings.c.created_at)
_OF_OPERATION = _UNSETTLED.where(pendings.c.operation == bindparam("its_operation")).order_by(
    pendings.c.created_at
)
_BUT_SOME = _UNSETTLED.where(pendings.c.pending_id.not_in(bindparam("but", expanding=True)))
_COUNT_UNSETTLED = select(func.count()).select_from(
    _BUT_SOME.with_only_columns(pendings.c.pending_id).subquery()
)


class PendingRows:
    """The pendings of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def insert(self, connection: Connection, values: Mapping[str, Any]) -> None:
        """Add a pending."""
        connection.execute(pendings.insert(), {"tract_id": self.tract_id, **values})

    def update(self, connection: Connection, pending_id: str, **values: Any) -> None:
        """Update a pending."""
        if values:
            connection.execute(_UPDATE, {"id_": pending_id, **values})

    def get(self, connection: Connection, pending_id: str) -> StoredPending | None:
        """Return a pending; None if it does not exist."""
        row = connection.execute(_GET, {"id_": pending_id}).first()
        return None if row is None else _stored(row)

    def shown(self, connection: Connection, pending_id: str) -> ShownPending | None:
        """Return a pending's request, its display and its state; None if it does not exist."""
        row = connection.execute(_SHOWN, {"id_": pending_id}).first()
        if row is None:
            return None
        return ShownPending(*row[:-1], read_dict(row.request_json).get("request"))

    def decided_through(self, connection: Connection, channels: Collection[str]) -> list[StoredPending]:
        """Return the pendings with a decision over one of these channels."""
        decided = select(decisions.c.pending_id).where(
            decisions.c.tract_id == self.tract_id, decisions.c.channel.in_(channels)
        )
        query = select(pendings).where(pendings.c.pending_id.in_(decided))
        return [_stored(row) for row in connection.execute(query)]

    def standing(self, connection: Connection, ids: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Return the status and the number of decisions of pendings, by id. Omit unknown ids."""
        rows = connection.execute(_STANDING, {"ids": list(ids)})
        return {pending_id: (status, count) for pending_id, status, count in rows}

    def all(self, connection: Connection) -> list[StoredPending]:
        """Return all pendings, oldest first."""
        query = select(pendings).where(pendings.c.tract_id == bindparam("its_tract_id"))
        return self._stored(connection, query.order_by(pendings.c.created_at, pendings.c.pending_id))

    def unsettled(
        self,
        connection: Connection,
        limit: int | None,
        after: StoredPending | None = None,
        but: Collection[str] = (),
    ) -> list[StoredPending]:
        """Return the unsettled pendings after `after`, oldest first, without the ids in `but`."""
        order = (pendings.c.created_at, pendings.c.pending_id)
        query = _BUT_SOME.order_by(*order).limit(limit)
        if after is not None:
            query = query.where(tuple_(*order) > (to_text(after.created_at), after.pending_id))
        return self._stored(connection, query, but=but)

    def count_unsettled(self, connection: Connection, but: Collection[str] = ()) -> int:
        """Count the unsettled pendings without the ids in `but`."""
        return connection.scalar(_COUNT_UNSETTLED, {"its_tract_id": self.tract_id, "but": but}) or 0

    def same(self, connection: Connection, identity: str) -> list[StoredPending]:
        """Return the unsettled pendings of an identity, oldest first."""
        return self._stored(connection, _SAME, its_identity=identity)

    def of_operation(self, connection: Connection, operation: str) -> list[StoredPending]:
        """Return the unsettled pendings of an operation, oldest first."""
        return self._stored(connection, _OF_OPERATION, its_operation=operation)

    def has_title(self, connection: Connection, titles: Collection[str]) -> bool:
        """Return True if a pending with one of these titles exists."""
        query = select(pendings.c.pending_id).where(
            pendings.c.tract_id == self.tract_id, pendings.c.title.in_(titles)
        )
        return connection.execute(query.limit(1)).first() is not None

    def _stored(
        self, connection: Connection, query: Select[Any], **parameters: object
    ) -> list[StoredPending]:
        rows = connection.execute(query, {"its_tract_id": self.tract_id, **parameters})
        return [_stored(row) for row in rows]


def _stored(row: Any) -> StoredPending:
    question = read_dict(row.request_json)
    return StoredPending(
        row.pending_id, row.operation, row.title, read_dict(row.fields_json), row.fingerprint, row.identity,
        row.status, row.actor, row.triggered_by, row.branch, row.resumable,
        question.get("request"), str(question.get("signature", "")), str(question.get("outcome", "")), row.origin,
        _moment(row.waited_until), _moment(row.expires_at), row.on_timeout, row.error,
        read_moment(row.created_at), _moment(row.executed_at), bool(question.get("is_unshown")),
    )  # fmt: skip


def _moment(text: str | None) -> datetime | None:
    return None if text is None else read_moment(text)


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A stored decision. `claimed_by` is the process that executes or executed it."""

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


# built once: building a statement takes longer than running it
_ON_IT = decisions.c.pending_id == bindparam("id_")
_COUNT = select(func.count()).where(_ON_IT)
_OF = select(decisions).where(_ON_IT).order_by(decisions.c.round)
_LAST = select(decisions).where(_ON_IT).order_by(decisions.c.round.desc()).limit(1)
_ROUND = decisions.update().where(_ON_IT, decisions.c.round == bindparam("round_"))
_CLAIM = _ROUND.where(decisions.c.finished_at.is_(None), decisions.c.claimed_by == bindparam("before_"))
_TAKE = _ROUND.where(decisions.c.finished_at.is_(None), decisions.c.claimed_by.is_(None))


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
        """Add the decision of an undecided round."""
        row = {
            "tract_id": self.tract_id,
            "pending_id": pending_id,
            "round": round_,
            "arguments_json": canonical_json(arguments),
            **values,
        }
        connection.execute(decisions.insert(), row)

    def count(self, connection: Connection, pending_id: str) -> int:
        """Count the decisions on a pending."""
        return connection.scalar(_COUNT, {"id_": pending_id}) or 0

    def of(self, connection: Connection, pending_id: str) -> list[StoredDecision]:
        """Return the decisions on a pending in order."""
        return [_stored_decision(row) for row in connection.execute(_OF, {"id_": pending_id})]

    def last(self, connection: Connection, pending_id: str) -> StoredDecision | None:
        """Return the last decision on a pending; None if there is none."""
        row = connection.execute(_LAST, {"id_": pending_id}).first()
        return None if row is None else _stored_decision(row)

    def was_chosen(self, connection: Connection, identity: str, action: str) -> bool:
        """Return True if a decision on a pending of this identity chose the action."""
        table = decisions.c
        where = (table.tract_id == self.tract_id, table.identity == identity, table.action == action)
        return connection.scalar(select(table.id).where(*where).limit(1)) is not None

    def newest(self, connection: Connection, limit: int | None) -> list[StoredDecision]:
        """Return decisions, newest first."""
        query = select(decisions).where(decisions.c.tract_id == self.tract_id)
        return [
            _stored_decision(row)
            for row in connection.execute(query.order_by(decisions.c.id.desc()).limit(limit))
        ]

    def through(self, connection: Connection, channels: Collection[str]) -> list[StoredDecision]:
        """Return the decisions over these channels, oldest first."""
        where = (decisions.c.tract_id == self.tract_id, decisions.c.channel.in_(channels))
        return [
            _stored_decision(row)
            for row in connection.execute(select(decisions).where(*where).order_by(decisions.c.id))
        ]

    def claim(
        self, connection: Connection, pending_id: str, round_: int, by: str, *, instead_of: str | None
    ) -> bool:
        """Claim the execution for `by`. False if another process claimed it.

        Args:
            connection: the connection of a write transaction.
            pending_id: the pending.
            round_: the number of the decision on it.
            by: the claiming process.
            instead_of: the process that claimed it before; None if no process did. Another process than `by` requires
                the user's consent.
        """
        values = {"id_": pending_id, "round_": round_, "claimed_by": by, "started_at": now_text()}
        if instead_of is None:
            return connection.execute(_TAKE, values).rowcount == 1
        return connection.execute(_CLAIM, {**values, "before_": instead_of}).rowcount == 1

    def sign(self, connection: Connection, pending_id: str, round_: int, signature: str) -> None:
        """Replace the signature of a decision."""
        connection.execute(_ROUND, {"id_": pending_id, "round_": round_, "signature": signature})

    def finish(self, connection: Connection, pending_id: str, round_: int, error: str | None) -> None:
        """Record the end of the execution, with its error."""
        values = {"id_": pending_id, "round_": round_, "finished_at": now_text(), "error": error}
        connection.execute(_ROUND, values)


def _stored_decision(row: Any) -> StoredDecision:
    return StoredDecision(
        row.pending_id, row.round, row.action, read_dict(row.arguments_json), row.reason, row.decided_by,
        row.channel, row.fingerprint, row.identity, row.signature, read_moment(row.created_at), row.claimed_by,
        None if row.started_at is None else read_moment(row.started_at),
        None if row.finished_at is None else read_moment(row.finished_at), row.error,
    )  # fmt: skip
