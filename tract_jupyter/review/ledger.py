"""The rows of asking: what was asked, what was decided, what came of it. Each step is one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.storage.clock import to_text

if TYPE_CHECKING:
    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.ticket import Ticket
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.events import EventRows
    from tract_jupyter.storage.pendings import PendingRows, StoredPending

_FINAL = {"approve": PendingStatus.APPROVED, "reject": PendingStatus.REJECTED}
_OPEN = tuple(status.value for status in PendingStatus if status.is_open)


class Ledger:
    """Writes and reads the pendings and decisions of one tract."""

    def __init__(self, database: Database, rows: PendingRows, events: EventRows) -> None:
        self._database = database
        self._rows = rows
        self._events = events

    def ask(self, ticket: Ticket) -> None:
        """Store what is asked, unless it is stored already, and number the ticket's round."""
        pending = ticket.pending
        values = {
            "pending_id": pending.pending_id,
            "operation": pending.operation,
            "title": ticket.request.title,
            "fingerprint": ticket.request.fingerprint,
            "status": pending.status.value,
            "actor": pending.actor,
            "triggered_by": pending.triggered_by,
            "resumable": pending.resumable,
            "created_at": to_text(pending.created_at),
        }
        with self._database.write() as connection:
            if self._rows.status(connection, pending.pending_id) is None:
                self._rows.insert(connection, values, pending.fields)
            ticket.round_number = self._rows.rounds(connection, pending.pending_id)

    def decide(self, ticket: Ticket, decision: Decision) -> bool:
        """Store the decision of a round, with its event. False if somebody else decided it, or that round, first."""
        pending_id = ticket.pending.pending_id
        values = {
            "action": decision.action,
            "reason": decision.reason,
            "decided_by": decision.decided_by,
            "channel": decision.channel,
            "fingerprint": decision.fingerprint,
        }
        row = {**values, "arguments_json": canonical_json(decision.arguments)}
        data = {
            "pending_id": pending_id,
            "title": ticket.request.title,
            "arguments": decision.arguments,
            **values,
        }
        with self._database.write() as connection:
            if self._rows.status(connection, pending_id) not in _OPEN:
                return False
            if not self._rows.decide(connection, pending_id, ticket.round_number, row):
                return False
            self._events.append(connection, "decision", decision.decided_by, data)
            if decision.action in _FINAL:  # decided, not run yet: so it shows after a crash in between
                self._rows.update(connection, pending_id, status=_FINAL[decision.action].value)
        return True

    def finish(self, pending: Reviewable, action: str) -> None:
        """Store what came of carrying an action out."""
        values = {
            "status": pending.status.value,
            "error": pending.error,
            "executed_at": to_text(pending.executed_at) if pending.executed_at else None,
            "fields": pending.fields,
        }
        with self._database.write() as connection:
            self._rows.update(connection, pending.pending_id, **values)
            what = {"pending_id": pending.pending_id, "action": action}
            if pending.status is PendingStatus.FAILED:
                self._events.append(connection, "failed", pending.actor, {**what, "error": pending.error})
            elif pending.status is PendingStatus.REJECTED and action != "reject":  # by the action's own code
                rejected = {**what, "reason": pending.rejection_reason}
                self._events.append(connection, "rejected", pending.actor, rejected)

    def renumber(self, ticket: Ticket) -> None:
        """Number the ticket's next round."""
        with self._database.read() as connection:
            ticket.round_number = self._rows.rounds(connection, ticket.pending.pending_id)

    def status(self, pending_id: str) -> PendingStatus | None:
        """The status as the store has it."""
        with self._database.read() as connection:
            status = self._rows.status(connection, pending_id)
        return None if status is None else PendingStatus(status)

    def waiting(self, limit: int = 100) -> list[StoredPending]:
        """What awaits a decision, oldest first, whichever process asked."""
        with self._database.read() as connection:
            return self._rows.with_status(connection, *_OPEN, limit=limit)

    def count_waiting(self) -> int:
        """How many await a decision."""
        with self._database.read() as connection:
            return self._rows.count(connection, *_OPEN)
