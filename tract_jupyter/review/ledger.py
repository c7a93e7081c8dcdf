"""The rows of asking: what was asked, what was decided, who carries it out, what came of it.

Each step is one transaction, so that after a crash the rows say how far it had come: decided, begun, ended.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.decision import Decision
from tract_jupyter.review.process import has_ended, this_process
from tract_jupyter.review.request_json import request_to_dict
from tract_jupyter.storage.clock import now_text, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sqlalchemy import Connection

    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.request import ReviewRequest
    from tract_jupyter.review.trust import Trust
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.decisions import DecisionRows, StoredDecision
    from tract_jupyter.storage.events import EventRows
    from tract_jupyter.storage.pendings import PendingRows, StoredPending

_SIGNED = "decision"
_ASKED = "pending"
_OUTCOME = "outcome"
_FINAL = {
    "approve": PendingStatus.APPROVED,
    "reject": PendingStatus.REJECTED,
    "pass_through": PendingStatus.PASSED_THROUGH,
    "expire": PendingStatus.EXPIRED,
}
_REOPENED = {"status": PendingStatus.PENDING.value, "settled_at": None, "executed_at": None}
_OPEN = frozenset(status.value for status in PendingStatus if status.is_open)


_Outcome = list[str | int | None]


class News(NamedTuple):
    """What the store says of a pending."""

    pending: StoredPending
    decisions: list[StoredDecision]

    def unseen(self, rounds: int) -> list[StoredDecision]:
        """The decisions after those that somebody knows of."""
        return [decision for decision in self.decisions if decision.round >= rounds]

    @property
    def last(self) -> StoredDecision | None:
        """The last decision on it."""
        return self.decisions[-1] if self.decisions else None

    @property
    def is_open(self) -> bool:
        """Whether it can still be decided."""
        return self.pending.status in _OPEN


class Ledger:
    """Writes and reads the pendings and decisions of one tract."""

    def __init__(
        self, database: Database, rows: PendingRows, decisions: DecisionRows, events: EventRows, trust: Trust
    ) -> None:
        self._database = database
        self._rows = rows
        self._decisions = decisions
        self._events = events
        self._trust = trust

    # --- asking

    def ask(self, pending: Reviewable, request: ReviewRequest | None = None) -> None:
        """Store what is asked and shown, unless it is stored already, and note how far the store is with it."""
        with self._database.write() as connection:
            stored = self._rows.get(connection, pending.pending_id)
            if stored is None:
                self._insert(connection, pending, request)
            elif request is not None and stored.origin == this_process() and stored.status in _OPEN:
                asked = self._as_asked(pending, request_to_dict(request))
                self._rows.update(connection, pending.pending_id, **asked)
            pending.rounds = self._decisions.count(connection, pending.pending_id)

    def wait(self, pending_id: str, seconds: float) -> None:
        """Say that this process waits for the decision, and will say so again before the seconds are over."""
        until = to_text(datetime.now(UTC) + timedelta(seconds=seconds))
        with self._database.write() as connection:
            self._rows.update(connection, pending_id, waited_until=until)

    # --- deciding and carrying out

    def decide(
        self,
        pending: Reviewable,
        decision: Decision,
        *,
        ends: bool,
        also: Callable[[Connection], None] | None = None,
    ) -> bool:
        """Store a decision with its event, in one transaction. False if somebody else decided it first.

        Args:
            pending: what was decided.
            decision: the decision.
            ends: nothing has to be run for it, so that it is carried out with this.
            also: what else belongs into the transaction.
        """
        signature = self._trust.sign(_SIGNED, self._text(decision, pending.pending_id, pending.rounds,
                                                         handed_over=pending.runs_elsewhere))  # fmt: skip
        with self._database.write() as connection:
            won = self._store(connection, pending, decision, ends=ends, signature=signature)
            if won and also is not None:
                also(connection)
        pending.rounds += won
        return won

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """Have something called if what is decided now is rolled back with a transaction around it."""
        self._database.if_rolled_back(call)

    def refuse(self, stored: StoredDecision, why: str) -> None:
        """Put a decision aside that cannot be carried out, so that a person can decide again."""
        with self._database.write() as connection:
            if self._take_on(connection, stored.pending_id, stored.round):
                self._decisions.finish(connection, stored.pending_id, stored.round, why)
                self._rows.update(connection, stored.pending_id, **_REOPENED)

    def reopen(self, pending: Reviewable) -> None:
        """Have a person decide a pending, as this process has it, whatever the store says about it."""
        asked = self._as_asked(pending, request_to_dict(pending.review_request()))
        with self._database.write() as connection:
            self._rows.update(connection, pending.pending_id, **_REOPENED, **asked)

    def settle(self, pending_id: str, round_: int, why: str) -> bool:
        """Use up an approval for another pending. False if somebody else was faster."""
        with self._database.write() as connection:
            if not self._take_on(connection, pending_id, round_):
                return False
            self._decisions.finish(connection, pending_id, round_, why)
            self._rows.update(connection, pending_id, settled_at=now_text())
        return True

    def begin(self, pending_id: str, round_: int, *, handed_over: bool = False) -> bool:
        """Say that this process begins to carry a decision out: its own, or one handed over. False if another did."""
        me = this_process()
        with self._database.write() as connection:
            if handed_over:
                return self._take_on(connection, pending_id, round_)
            return self._decisions.claim(connection, pending_id, round_, me, instead_of=me)

    def finish(self, pending: Reviewable, round_: int, action: str) -> None:
        """Store what came of carrying a decision out."""
        is_settled = not pending.status.is_open
        values = {
            "status": pending.status.value,
            "error": pending.error,
            "executed_at": _text(pending.executed_at),
            "settled_at": now_text() if is_settled else None,
        }
        outcome = _outcome(round_, pending.status, pending.fingerprint, pending.executed_at)
        with self._database.write() as connection:
            stored = self._rows.get(connection, pending.pending_id)
            shown = stored.request if is_settled and stored else request_to_dict(pending.review_request())
            self._rows.update(
                connection, pending.pending_id, **values, **self._as_asked(pending, shown, outcome)
            )
            self._decisions.finish(connection, pending.pending_id, round_, pending.error)
            self._record_outcome(connection, pending, action)

    # --- looking

    def news(self, pending: Reviewable) -> News | None:
        """What the store says, None if it was never stored."""
        with self._database.read() as connection:
            stored = self._rows.get(connection, pending.pending_id)
            if stored is None:
                return None
            decisions = self._decisions.of(connection, pending.pending_id)
        return News(stored, decisions)

    def verifies(self, stored: StoredDecision) -> bool:
        """Whether this user signed a decision."""
        return any(self._is_signed(stored, handed_over=flag) for flag in (False, True))

    def hands_over(self, stored: StoredDecision) -> bool:
        """Whether this user signed a decision that was left to the process that asked: no other can pass for one."""
        return self._is_signed(stored, handed_over=True)

    def vouches(self, stored: StoredPending) -> bool:
        """Whether a pending lies in the store as a process of this user asked about it."""
        asked = _asked(stored, stored.request)
        return self._trust.verify(_ASKED, canonical_json([self._rows.tract_id, *asked]), stored.signature)

    def proves(self, news: News, fingerprint: str) -> bool:
        """Whether the last decision on a pending is this user's, and came out as the store says.

        Args:
            news: what the store says.
            fingerprint: that of the pending, with the values that the store has.
        """
        last, stored = news.last, news.pending
        if last is None or not self.verifies(last):
            return False
        outcome = _outcome(last.round, stored.status, fingerprint, stored.executed_at)
        return self._trust.verify(_OUTCOME, self._outcome_text(stored.pending_id, outcome), stored.outcome)

    def decisions(self, pending_id: str) -> list[StoredDecision]:
        """The decisions on a pending, in their order."""
        with self._database.read() as connection:
            return self._decisions.of(connection, pending_id)

    def newest_decisions(self, limit: int) -> list[StoredDecision]:
        """The newest decisions first."""
        with self._database.read() as connection:
            return self._decisions.newest(connection, limit)

    def standing(self, stored: StoredPending) -> tuple[PendingStatus, StoredDecision | None]:
        """Where a pending stands for whoever makes it again from the store.

        Returns:
            Its status, and the last decision if that was not carried out to its end. It is asked about again then, as
            nobody knows what has changed since.
        """
        with self._database.read() as connection:
            last = self._decisions.last(connection, stored.pending_id)
        if last is None or last.finished_at is None or stored.status not in set(PendingStatus):
            return PendingStatus.PENDING, last if last is not None and last.finished_at is None else None
        return PendingStatus(stored.status), None

    def decided(self, channels: Collection[str]) -> list[tuple[StoredDecision, StoredPending]]:
        """The decisions that came over some channels, oldest first, each with what it is about."""
        with self._database.read() as connection:
            decisions = self._decisions.through(connection, channels)
            about = {row.pending_id: row for row in self._rows.decided_through(connection, channels)}
        return [(decision, about[decision.pending_id]) for decision in decisions]

    def needs_asking(self, pending: Reviewable) -> bool:
        """Whether nothing of the same identity waits, and nobody has turned it down."""
        identity = pending.identity
        with self._database.read() as connection:
            waits = self._rows.same(connection, identity, PendingStatus.PENDING.value)
            return not waits and not self._decisions.was_chosen(connection, identity, "reject")

    def get(self, pending_id: str) -> StoredPending | None:
        """A stored pending."""
        with self._database.read() as connection:
            return self._rows.get(connection, pending_id)

    def waiting(self, limit: int = 100, after: StoredPending | None = None) -> list[StoredPending]:
        """What is left to decide or to run, oldest first, whichever process asked."""
        with self._database.read() as connection:
            return self._rows.unsettled(connection, limit, after)

    def count_waiting(self) -> int:
        """How many are left to decide or to run."""
        with self._database.read() as connection:
            return self._rows.count_unsettled(connection)

    def approved_before(self, pending: Reviewable) -> StoredDecision | None:
        """An approval of the very same thing that nobody has begun to carry out, and nobody waits for."""
        with self._database.read() as connection:
            same = self._rows.same(connection, pending.identity, PendingStatus.APPROVED.value)
            for stored in same:
                last = self._decisions.of(connection, stored.pending_id)[-1]
                is_free = last.claimed_by is None and not is_waited_for(stored)
                if is_free and self.hands_over(last) and _is_about(last, pending):
                    return last
        return None

    def changed(self, rounds: Mapping[str, int]) -> list[str]:
        """Those of some pendings that have more decisions by now, or are settled; `rounds` by id as last seen."""
        with self._database.read() as connection:
            return [
                pending_id
                for pending_id, known in rounds.items()
                if self._decisions.count(connection, pending_id) != known
                or self._rows.status(connection, pending_id) not in _OPEN
            ]

    # ---

    def _take_on(self, connection: Connection, pending_id: str, round_: int) -> bool:
        """Claim what was left to the process that asked. Signed anew, it does not pass for left to anybody again."""
        if not self._decisions.claim(connection, pending_id, round_, this_process(), instead_of=None):
            return False
        stored = next(one for one in self._decisions.of(connection, pending_id) if one.round == round_)
        if self.hands_over(stored):
            text = self._text(decision_of(stored), pending_id, round_, handed_over=False)
            self._decisions.sign(connection, pending_id, round_, self._trust.sign(_SIGNED, text))
        return True

    def _is_signed(self, stored: StoredDecision, *, handed_over: bool) -> bool:
        text = self._text(decision_of(stored), stored.pending_id, stored.round, handed_over=handed_over)
        return self._trust.verify(_SIGNED, text, stored.signature)

    def _text(self, decision: Decision, pending_id: str, round_: int, *, handed_over: bool) -> str:
        return canonical_json([self._rows.tract_id, decision.signed_text(pending_id, round_), handed_over])

    def _outcome_text(self, pending_id: str, outcome: _Outcome) -> str:
        return canonical_json([self._rows.tract_id, pending_id, outcome])

    def _as_asked(
        self, pending: Reviewable, shown: dict[str, Any] | None, outcome: _Outcome | None = None
    ) -> dict[str, Any]:
        """What is asked and came of it, for its row; signed, so that nothing else can be taken for it."""
        asked = canonical_json([self._rows.tract_id, *_asked(pending, shown)])
        came_of_it = "" if outcome is None else self._trust.sign(
            _OUTCOME, self._outcome_text(pending.pending_id, outcome))  # fmt: skip
        signed = {"request": shown, "signature": self._trust.sign(_ASKED, asked), "outcome": came_of_it}
        return {
            "fields": pending.fields,
            "fingerprint": pending.fingerprint,
            "identity": pending.identity,
            "request_json": canonical_json(signed),
        }

    def _insert(
        self, connection: Connection, pending: Reviewable, request: ReviewRequest | None,
        outcome: _Outcome | None = None, **more: Any,
    ) -> None:  # fmt: skip
        values = {
            "pending_id": pending.pending_id,
            "operation": pending.operation,
            "title": pending.title,
            "status": pending.status.value,
            "actor": pending.actor,
            "triggered_by": pending.triggered_by,
            "resumable": pending.resumable,
            "origin": this_process(),
            "expires_at": _text(pending.expires_at),
            "on_timeout": pending.on_timeout,
            "error": pending.error,
            "created_at": to_text(pending.created_at),
            **self._as_asked(pending, None if request is None else request_to_dict(request), outcome),
            **more,
        }
        self._rows.insert(connection, values)

    def _store(
        self, connection: Connection, pending: Reviewable, decision: Decision, *, ends: bool, signature: str
    ) -> bool:
        pending_id, at = pending.pending_id, to_text(decision.decided_at)
        stored = self._rows.get(connection, pending_id)
        if stored is not None and not self._is_free(connection, pending, stored.status):
            return False
        after = _after(decision, at, ends=ends)
        outcome = _expected(pending, decision, after) if ends else None
        if stored is None:
            self._insert(connection, pending, None, outcome, **after)
        values = {
            "action": decision.action,
            "reason": decision.reason,
            "decided_by": decision.decided_by,
            "channel": decision.channel,
            "fingerprint": decision.fingerprint,
        }
        signed = {"identity": decision.identity, "signature": signature, "created_at": at}
        row = {**values, **_claim(pending, at, ends=ends), **signed}
        self._decisions.insert(connection, pending_id, pending.rounds, decision.arguments, row)
        if stored is not None:
            # edits of what runs elsewhere are in the decision; they become its values where it is carried out
            asked = {} if pending.runs_elsewhere else self._as_asked(pending, stored.request, outcome)
            self._rows.update(connection, pending_id, **after, **asked)
        about = {"pending_id": pending_id, "title": pending.title, "arguments": decision.arguments}
        self._events.append(connection, "decision", decision.decided_by, {**about, **values})
        return True

    def _is_free(self, connection: Connection, pending: Reviewable, status: str) -> bool:
        """Whether it can be decided. A last decision that was not carried out is put aside with that."""
        last = self._decisions.last(connection, pending.pending_id)
        if (0 if last is None else last.round + 1) != pending.rounds:
            return False  # somebody else decided this round
        if last is None:
            return True  # whatever the status says: nobody has decided
        if last.finished_at is not None:
            return status in _OPEN
        asked = pending.unfinished
        if last.claimed_by == this_process() and last.started_at is None:
            asked = last  # this process could not begin, as where the store was locked just then
        if asked is None or (asked.round, asked.claimed_by) != (last.round, last.claimed_by):
            return False  # it is being carried out, or is about to be
        self._decisions.claim(
            connection, last.pending_id, last.round, this_process(), instead_of=last.claimed_by
        )
        self._decisions.finish(connection, last.pending_id, last.round, "superseded by a later decision")
        return True

    def _record_outcome(self, connection: Connection, pending: Reviewable, action: str) -> None:
        what = {"pending_id": pending.pending_id, "action": action}
        if pending.status is PendingStatus.FAILED:
            self._events.append(connection, "failed", pending.actor, {**what, "error": pending.error})
        elif pending.status is PendingStatus.REJECTED and action != "reject":  # by the action's own code
            rejected = {**what, "reason": pending.rejection_reason}
            self._events.append(connection, "rejected", pending.actor, rejected)


def is_waited_for(stored: StoredPending) -> bool:
    """Whether the process that asked waits for the decision: it said so lately, and has not ended since."""
    until = stored.waited_until
    return until is not None and to_text(until) > now_text() and not has_ended(stored.origin)


def decision_of(stored: StoredDecision) -> Decision:
    """A stored decision as a value."""
    return Decision(
        stored.action,
        stored.arguments,
        stored.channel,
        stored.fingerprint,
        stored.decided_by,
        stored.decided_at,
        stored.identity,
    )


def _is_about(stored: StoredDecision, pending: Reviewable) -> bool:
    """Whether a pending, with the edits of a decision, is what that was about."""
    with pending.edited(stored.arguments, keep=False):
        return pending.fingerprint == stored.fingerprint


def _after(decision: Decision, at: str, *, ends: bool) -> dict[str, Any]:
    """Where a pending stands once a decision on it is stored. Without an execution time: decided, not run yet."""
    final = _FINAL.get(decision.action)
    if final is None:
        return {}
    executed = at if ends and final is PendingStatus.APPROVED else None
    return {"status": final.value, "executed_at": executed, "settled_at": at if ends else None}


def _asked(what: Reviewable | StoredPending, request: Mapping[str, Any] | None) -> list[Any]:
    """What the signature of a pending covers."""
    times = [to_text(what.created_at), _text(what.expires_at)]
    who = [what.pending_id, what.operation, what.actor, what.triggered_by]
    return [*who, *times, what.fingerprint, what.fields, request]


def _outcome(round_: int, status: str, fingerprint: str, executed_at: datetime | None) -> _Outcome:
    """What came of a decision: the part of it that is signed."""
    return [round_, str(status), fingerprint, _text(executed_at)]


def _expected(pending: Reviewable, decision: Decision, after: Mapping[str, Any]) -> _Outcome:
    """What comes of a decision that ends it."""
    return [pending.rounds, after["status"], decision.fingerprint, after["executed_at"]]


def _claim(pending: Reviewable, at: str, *, ends: bool) -> dict[str, Any]:
    """Who carries a decision out: whoever decides, but for what was asked by another process."""
    if ends:
        return {"claimed_by": this_process(), "started_at": at, "finished_at": at}
    return {"claimed_by": None if pending.runs_elsewhere else this_process()}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)
