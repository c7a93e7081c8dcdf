"""Reading the rows of asking: what waits, what was decided, and whether that can be believed.

Three things are signed: what is asked, each decision, and what came of the last one. All name the pending.
Whether a decision is left to the process that asked is signed too, so that a used one is not left to anybody again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models import PendingStatus
from tract_jupyter.review.decision import Decision
from tract_jupyter.review.process import has_ended
from tract_jupyter.storage import now_text, to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from tract_jupyter.review.decision import Question
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage import Database, DecisionRows, PendingRows, StoredDecision, StoredPending


_ASKED, _DECISION, _OUTCOME = "pending", "decision", "outcome"


class DecisionOutcome(NamedTuple):
    """The outcome of the decision of a round: the part of it that is signed."""

    round: int
    status: str
    fingerprint: str
    executed_at: str | None


class Signatures:
    """The signatures of one tract's questions, decisions and outcomes."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def of_decision(self, decision: Decision, pending_id: str, round_: int, *, handed_over: bool) -> str:
        """Sign a decision, and whether it is left to the process that asked."""
        return self._signer.sign(_DECISION, [decision.signed_text(pending_id, round_), handed_over])

    def holds(self, stored: StoredDecision, *, handed_over: bool) -> bool:
        """Return True if this user signed a decision, and that it is or is not left to the process that asked."""
        text = Decision.of(stored).signed_text(stored.pending_id, stored.round)
        return self._signer.verify(_DECISION, [text, handed_over], stored.signature)

    def of_asked(self, pending: Pending, question: Question, shown: Mapping[str, Any] | None) -> str:
        """Sign what is asked and shown."""
        return self._signer.sign(_ASKED, _asked(pending, question.fingerprint, shown))

    def vouches(self, stored: StoredPending) -> bool:
        """Return True if a pending lies in the store as a process of this user asked about it."""
        content = _asked(stored, stored.fingerprint, stored.request)
        return self._signer.verify(_ASKED, content, stored.signature)

    def of_outcome(self, pending_id: str, outcome: DecisionOutcome) -> str:
        """Sign what came of the last decision."""
        return self._signer.sign(_OUTCOME, [pending_id, list(outcome)])

    def came_out(self, stored: StoredPending, outcome: DecisionOutcome) -> bool:
        """Return True if this is what came of the last decision on a pending."""
        return self._signer.verify(_OUTCOME, [stored.pending_id, list(outcome)], stored.outcome)


def _asked(what: Pending | StoredPending, fingerprint: str, request: Mapping[str, Any] | None) -> list[Any]:
    times = [to_text(what.created_at), moment_text(what.expires_at)]
    who = [what.pending_id, what.operation, what.actor, what.triggered_by, what.branch, what.resumable]
    return [*who, *times, fingerprint, what.fields, request]


def moment_text(moment: datetime | None) -> str | None:
    """Return a time as the store keeps it; None for none."""
    return None if moment is None else to_text(moment)


RUN = "run "
"""The beginning of `triggered_by` for questions of a run; its id follows."""

ACTIVATE = "activate_operation"
"""The operation of a pending whose approval activates a proposed one."""

OPEN = frozenset(status.value for status in PendingStatus if status.is_open)
"""The states in which a pending can be decided."""


class PendingRecord(NamedTuple):
    """A pending and its decisions, as the store has them."""

    pending: StoredPending
    decisions: list[StoredDecision]

    def unseen(self, rounds: int) -> list[StoredDecision]:
        """Return the decisions after the first `rounds`, which the caller knows."""
        return [decision for decision in self.decisions if decision.round >= rounds]

    @property
    def last(self) -> StoredDecision | None:
        """The last decision on it."""
        return self.decisions[-1] if self.decisions else None

    @property
    def is_open(self) -> bool:
        """True if it can still be decided."""
        return self.pending.status in OPEN


class Records:
    """The pendings and decisions of one tract, to read.

    Attributes:
        under_way: the ids of the pendings that this process carries out now. They wait for no decision.
    """

    def __init__(
        self, database: Database, rows: PendingRows, decisions: DecisionRows, signatures: Signatures
    ) -> None:
        self._database = database
        self._rows = rows
        self._decisions = decisions
        self._signatures = signatures
        self.under_way: set[str] = set()

    # --- what can be believed

    def verifies(self, stored: StoredDecision) -> bool:
        """Return True if this user signed a decision."""
        return any(self._signatures.holds(stored, handed_over=flag) for flag in (False, True))

    def hands_over(self, stored: StoredDecision) -> bool:
        """Return True if this user signed a decision, and that it was left to the process that asked."""
        return self._signatures.holds(stored, handed_over=True)

    def vouches(self, stored: StoredPending) -> bool:
        """Return True if a pending lies in the store as a process of this user asked about it."""
        return self._signatures.vouches(stored)

    def proves(self, news: PendingRecord, fingerprint: str) -> bool:
        """Return True if the last decision on a pending is this user's, and came out as the store says.

        Args:
            news: what the store says.
            fingerprint: that of the pending, with the values that the store has.
        """
        last, stored = news.last, news.pending
        if last is None or not self.verifies(last):
            return False
        outcome = DecisionOutcome(last.round, stored.status, fingerprint, moment_text(stored.executed_at))
        return self._signatures.came_out(stored, outcome)

    # --- what there is

    def news(self, pending: Pending) -> PendingRecord | None:
        """Return what the store says; None if it was never stored."""
        with self._database.read() as connection:
            stored = self._rows.get(connection, pending.pending_id)
            if stored is None:
                return None
            decisions = self._decisions.of(connection, pending.pending_id)
        return PendingRecord(stored, decisions)

    def decisions(self, pending_id: str) -> list[StoredDecision]:
        """Return the decisions on a pending, in their order."""
        with self._database.read() as connection:
            return self._decisions.of(connection, pending_id)

    def newest_decisions(self, limit: int) -> list[StoredDecision]:
        """Return the latest decisions, newest first."""
        with self._database.read() as connection:
            return self._decisions.newest(connection, limit)

    def unsigned(self) -> tuple[list[StoredPending], list[StoredDecision]]:
        """Return the waiting questions and the decisions that this user did not sign, oldest first.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        with self._database.read() as connection:
            waiting = self._rows.unsettled(connection, None)
            decisions = self._decisions.newest(connection, None)
        return (
            [one for one in waiting if not self.vouches(one)],
            [one for one in reversed(decisions) if not self.verifies(one)],
        )

    def standing(self, stored: StoredPending) -> tuple[PendingStatus, StoredDecision | None]:
        """Return the state of a pending that is made again from the store.

        Returns:
            Its status, and the last decision if that was not carried out to its end. It is asked about again then, as
            nobody knows what has changed since.
        """
        with self._database.read() as connection:
            last = self._decisions.last(connection, stored.pending_id)
        unfinished = last if last is not None and last.finished_at is None else None
        if last is None or unfinished is not None or stored.status not in set(PendingStatus):
            return PendingStatus.PENDING, unfinished
        return PendingStatus(stored.status), None

    def decided(self, channels: Collection[str]) -> list[tuple[StoredDecision, StoredPending]]:
        """Return the decisions that came over some channels, oldest first, each with what it is about."""
        with self._database.read() as connection:
            decisions = self._decisions.through(connection, channels)
            about = {row.pending_id: row for row in self._rows.decided_through(connection, channels)}
        return [(decision, about[decision.pending_id]) for decision in decisions]

    def needs_asking(self, pending: Pending) -> bool:
        """Return True if nothing of the same identity waits, and nobody has turned it down."""
        with self._database.read() as connection:
            return not (
                self.is_waiting(pending) or self._decisions.was_chosen(connection, pending.identity, "reject")
            )

    def same(self, pending: Pending) -> list[StoredPending]:
        """Return what is left to decide or to run and has the same identity, oldest first."""
        with self._database.read() as connection:
            return self._rows.same(connection, pending.identity)

    def of_operation(self, operation: str) -> list[StoredPending]:
        """Return what is left to decide or to run of an operation, as this user asked it, oldest first."""
        with self._database.read() as connection:
            return [one for one in self._rows.of_operation(connection, operation) if self.vouches(one)]

    def is_waiting(self, pending: Pending) -> bool:
        """Return True if something of the same identity is left to decide or to run."""
        with self._database.read() as connection:
            return bool(self._rows.same(connection, pending.identity))

    def was_asked(self, titles: Collection[str]) -> bool:
        """Return True if anything with one of these titles was ever asked about, whatever came of it."""
        with self._database.read() as connection:
            return self._rows.has_title(connection, titles)

    def get(self, pending_id: str) -> StoredPending | None:
        """Return a stored pending; None if there is none."""
        with self._database.read() as connection:
            return self._rows.get(connection, pending_id)

    def waiting(self, limit: int = 100, after: StoredPending | None = None) -> list[StoredPending]:
        """Return the pendings of all processes that are not settled and not `under_way`, oldest first."""
        with self._database.read() as connection:
            return self._rows.unsettled(connection, limit, after, but=tuple(self.under_way))

    def count_waiting(self) -> int:
        """Count the pendings that are not settled and not `under_way`."""
        with self._database.read() as connection:
            return self._rows.count_unsettled(connection, but=tuple(self.under_way))

    def approved_before(self, pending: Pending) -> StoredDecision | None:
        """Return an approval of the very same thing that nobody has begun to carry out, and nobody waits for."""
        with self._database.read() as connection:
            for stored in self._rows.same(connection, pending.identity):
                last = self._decisions.last(connection, stored.pending_id)
                if stored.status != PendingStatus.APPROVED or last is None or is_waited_for(stored):
                    continue
                if last.channel == "grant":
                    continue  # a grant that ended allows nothing
                is_for = (stored.actor, stored.branch) == (pending.actor, pending.branch)
                if not is_for or not self.vouches(stored):
                    continue  # it was for somebody else, or elsewhere, or the store was changed to say that it was not
                if self.hands_over(last) and _is_about(last, pending):  # once begun, it is signed anew
                    return last
        return None

    def changed(self, rounds: Mapping[str, int]) -> list[str]:
        """Return the ids of pendings with more decisions than when last seen (`rounds`), or settled since."""
        with self._database.read() as connection:
            now = self._rows.standing(connection, rounds) if rounds else {}
        as_seen = {
            pending_id
            for pending_id, (status, count) in now.items()
            if status in OPEN and count == rounds[pending_id]
        }
        return [pending_id for pending_id in rounds if pending_id not in as_seen]


def is_waited_for(stored: StoredPending) -> bool:
    """Return True if the process that asked waits for the decision: it said so lately, and has not ended since."""
    until = stored.waited_until
    return until is not None and to_text(until) > now_text() and not has_ended(stored.origin)


def _is_about(stored: StoredDecision, pending: Pending) -> bool:
    """Return True if a pending, with the edits of a decision, is what that was about."""
    with pending.edited(stored.action, stored.arguments, keep=False):
        return pending.fingerprint == stored.fingerprint
