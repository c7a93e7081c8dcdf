"""Read the stored pendings and decisions, and verify their signatures.

The store has three kinds of signatures: for the request, for each decision, and for the outcome of the last decision.
Each of them covers the pending's id. The signature of a decision also covers whether it is handed over to the asking
process. A process signs a decision again as it consumes it, so no process can consume it twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models import PendingStatus
from tract_jupyter.review.decision import Decision
from tract_jupyter.review.process import has_ended
from tract_jupyter.storage import now_text, to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage import Database, DecisionRows, PendingRows, StoredDecision, StoredPending


ASKED, DECISION, OUTCOME = "pending", "decision", "outcome"
"""The kinds of signatures."""


class DecisionOutcome(NamedTuple):
    """The signed part of a round's outcome."""

    round: int
    status: str
    fingerprint: str
    executed_at: str | None


class Unsigned(NamedTuple):
    """The rows without a valid signature of this user, oldest first.

    `outcomes` are the pendings with a signed request and an unsigned stored outcome.
    """

    questions: list[StoredPending]
    outcomes: list[StoredPending]
    decisions: list[StoredDecision]


def _is_copied(stored: StoredDecision) -> bool:
    """Return True if the column with the reason repeats the signed reason, which is in the arguments."""
    return stored.reason == Decision.of(stored).reason


def request_content(
    pending: Pending | StoredPending, fingerprint: str, request: Mapping[str, Any] | None
) -> list[Any]:
    """Return the signed part of a request."""
    times = [to_text(pending.created_at), moment_text(pending.expires_at)]
    identity = [
        pending.pending_id,
        pending.operation,
        pending.actor,
        pending.triggered_by,
        pending.branch,
        pending.resumable,
    ]
    return [*identity, *times, fingerprint, pending.fields, request, pending.is_unshown]


def moment_text(moment: datetime | None) -> str | None:
    """Return a time in the format of the store. None for None."""
    return None if moment is None else to_text(moment)


RUN = "run "
"""The start of `triggered_by` for questions of a run. The run's id follows."""

ACTIVATE = "activate_operation"
"""The operation of a pending whose approval activates a proposed operation."""

OPEN = frozenset(status.value for status in PendingStatus if status.is_open)
"""The states of a pending that can be decided."""

used_here: set[str] = set()
"""The signatures of approvals of other processes that this process used. A restored row does not count again."""


class PendingRecord(NamedTuple):
    """A stored pending with its decisions."""

    pending: StoredPending
    decisions: list[StoredDecision]

    def unseen(self, rounds: int) -> list[StoredDecision]:
        """Return the decisions after the first `rounds`. The caller knows the earlier ones."""
        return [decision for decision in self.decisions if decision.round >= rounds]

    @property
    def last(self) -> StoredDecision | None:
        """The last decision on the pending."""
        return self.decisions[-1] if self.decisions else None

    @property
    def is_open(self) -> bool:
        """True if a decision is still possible."""
        return self.pending.status in OPEN


class Records:
    """The pendings and decisions of one tract, for reading.

    Attributes:
        under_way: the ids of the pendings that this process carries out now. They do not wait for a decision.
    """

    def __init__(
        self, database: Database, rows: PendingRows, decisions: DecisionRows, signer: Signer
    ) -> None:
        self._database = database
        self._rows = rows
        self._decisions = decisions
        self._signer = signer
        self.under_way: set[str] = set()

    # --- signatures

    def verifies(self, stored: StoredDecision) -> bool:
        """Return True if this user signed a decision."""
        return any(self._is_signed(stored, handed_over=flag) for flag in (False, True))

    def hands_over(self, stored: StoredDecision) -> bool:
        """Return True if this user signed the decision as handed over to the asking process."""
        return self._is_signed(stored, handed_over=True)

    def _is_signed(self, stored: StoredDecision, *, handed_over: bool) -> bool:
        text = Decision.of(stored).signed_text(stored.pending_id, stored.round)
        return self._signer.verify(DECISION, [text, handed_over], stored.signature)

    def vouches(self, stored: StoredPending) -> bool:
        """Return True if the stored pending is unchanged since a process of this user asked it."""
        content = request_content(stored, stored.fingerprint, stored.request)
        return self._signer.verify(ASKED, content, stored.signature)

    def proves(self, news: PendingRecord, fingerprint: str) -> bool:
        """Return True if this user signed the last decision, and its stored outcome is genuine."""
        last = news.last
        if last is None or not self.verifies(last):
            return False
        return self._has_outcome(news.pending, last.round, fingerprint)

    def _has_outcome(self, stored: StoredPending, round_: int, fingerprint: str) -> bool:
        outcome = DecisionOutcome(round_, stored.status, fingerprint, moment_text(stored.executed_at))
        return self._signer.verify(OUTCOME, [stored.pending_id, list(outcome)], stored.outcome)

    # --- lookups

    def news(self, pending: Pending) -> PendingRecord | None:
        """Return the stored record. None if the pending was never stored."""
        with self._database.read() as connection:
            stored = self._rows.get(connection, pending.pending_id)
            if stored is None:
                return None
            decisions = self._decisions.of(connection, pending.pending_id)
        return PendingRecord(stored, decisions)

    def decisions(self, pending_id: str) -> list[StoredDecision]:
        """Return the decisions on a pending, in order."""
        with self._database.read() as connection:
            return self._decisions.of(connection, pending_id)

    def newest_decisions(self, limit: int) -> list[StoredDecision]:
        """Return the latest decisions, newest first."""
        with self._database.read() as connection:
            return self._decisions.newest(connection, limit)

    def unsigned(self) -> Unsigned:
        """Return the questions, outcomes and decisions without a signature of this user.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        with self._database.read() as connection:
            questions = self._rows.all(connection)
            decisions = self._decisions.newest(connection, None)[::-1]
        rounds = {decision.pending_id: decision.round for decision in decisions}
        own: list[StoredPending] = []
        foreign: list[StoredPending] = []
        for row in questions:
            (own if self.vouches(row) else foreign).append(row)
        forged = [
            row
            for row in own
            if row.outcome
            and not (
                row.pending_id in rounds and self._has_outcome(row, rounds[row.pending_id], row.fingerprint)
            )
        ]
        unsigned = [row for row in decisions if not (self.verifies(row) and _is_copied(row))]
        return Unsigned(foreign, forged, unsigned)

    def standing(self, stored: StoredPending) -> tuple[PendingStatus, StoredDecision | None]:
        """Return the state of a pending that is restored from the store.

        Returns:
            The status, and the last decision if it is unfinished. An unfinished decision reopens the pending, because
                the state may have changed since.
        """
        with self._database.read() as connection:
            last = self._decisions.last(connection, stored.pending_id)
        unfinished = last if last is not None and last.finished_at is None else None
        if last is None or unfinished is not None or stored.status not in set(PendingStatus):
            return PendingStatus.PENDING, unfinished
        return PendingStatus(stored.status), None

    def may_have_run(self, pending_ids: Iterable[str]) -> bool:
        """Return True if a process began to carry out one of these pendings, except by a rehearsal of changed code."""
        with self._database.read() as connection:
            for pending_id in pending_ids:
                stored, decisions = (
                    self._rows.get(connection, pending_id),
                    self._decisions.of(connection, pending_id),
                )
                begun = [one for one in decisions if one.started_at is not None]
                is_over = bool(begun) and begun[-1] is decisions[-1] and begun[-1].finished_at is not None
                is_done = is_over and stored is not None and stored.status == PendingStatus.APPROVED
                if is_done or any(one.finished_at is None or one.error is not None for one in begun):
                    return True
        return False

    def rejection(self, pending_id: str) -> str | None:
        """Return the user's reason if a pending of an ended process was rejected. None if not."""
        with self._database.read() as connection:
            stored = self._rows.get(connection, pending_id)
            last = self._decisions.last(connection, pending_id)
        if stored is None or last is None or stored.status != PendingStatus.REJECTED:
            return None
        return last.reason if Decision.of(last).is_personal and has_ended(stored.origin) else None

    def decided(self, channels: Collection[str]) -> list[tuple[StoredDecision, StoredPending]]:
        """Return the decisions from these channels, oldest first, each with its pending."""
        with self._database.read() as connection:
            decisions = self._decisions.through(connection, channels)
            about = {row.pending_id: row for row in self._rows.decided_through(connection, channels)}
        return [(decision, about[decision.pending_id]) for decision in decisions]

    def needs_asking(self, pending: Pending) -> bool:
        """Return True if no pending with the same identity is open, and none was rejected."""
        with self._database.read() as connection:
            return not (
                self.is_waiting(pending) or self._decisions.was_chosen(connection, pending.identity, "reject")
            )

    def same(self, pending: Pending) -> list[StoredPending]:
        """Return the pendings with the same identity that still need a decision or a run, oldest first."""
        with self._database.read() as connection:
            return self._rows.same(connection, pending.identity)

    def of_operation(self, operation: str) -> list[StoredPending]:
        """Return an operation's pendings that still need a decision or a run, oldest first.

        The result includes only pendings that this user signed.
        """
        with self._database.read() as connection:
            return [row for row in self._rows.of_operation(connection, operation) if self.vouches(row)]

    def is_waiting(self, pending: Pending) -> bool:
        """Return True if a pending with the same identity still needs a decision or a run."""
        with self._database.read() as connection:
            return bool(self._rows.same(connection, pending.identity))

    def was_asked(self, titles: Collection[str]) -> bool:
        """Return True if any pending ever had one of these titles, regardless of the outcome."""
        with self._database.read() as connection:
            return self._rows.has_title(connection, titles)

    def get(self, pending_id: str) -> StoredPending | None:
        """Return a stored pending, or None."""
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
        """Return an approval of the identical question that no process has begun or waits for."""
        with self._database.read() as connection:
            for stored in self._rows.same(connection, pending.identity):
                last = self._decisions.last(connection, stored.pending_id)
                if stored.status != PendingStatus.APPROVED or last is None or is_waited_for(stored):
                    continue
                if last.channel == "grant" or last.signature in used_here:
                    continue  # an ended grant allows nothing; a used approval was restored
                is_for = (stored.actor, stored.branch) == (pending.actor, pending.branch)
                if not is_for or not self.vouches(stored):
                    continue  # another actor, another branch, or a changed row
                if self.hands_over(last) and _is_about(
                    last, pending
                ):  # a claimed decision has another signature
                    return last
        return None

    def changed(self, rounds: Mapping[str, int]) -> list[str]:
        """Return the ids of pendings that were settled, or have more decisions than in `rounds`.

        `rounds` holds the number of decisions that the caller last saw for each pending.
        """
        with self._database.read() as connection:
            now = self._rows.standing(connection, rounds) if rounds else {}
        as_seen = {
            pending_id
            for pending_id, (status, count) in now.items()
            if status in OPEN and count == rounds[pending_id]
        }
        return [pending_id for pending_id in rounds if pending_id not in as_seen]


def is_waited_for(stored: StoredPending) -> bool:
    """Return True if the asking process waits for the decision: its last report is recent, and it still runs."""
    until = stored.waited_until
    return until is not None and to_text(until) > now_text() and not has_ended(stored.origin)


def _is_about(stored: StoredDecision, pending: Pending) -> bool:
    """Return True if the decision covers this pending with the decision's edits."""
    with pending.edited(stored.action, stored.arguments, keep=False):
        return pending.fingerprint == stored.fingerprint
