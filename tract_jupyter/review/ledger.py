"""The stored rows of pendings: request, decision, claim and outcome.

Each step is one transaction. After a crash, the rows show the last completed step: decided, begun or ended.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import PendingStatus, canonical_json
from tract_jupyter.review.decision import NO_ACTION, Decision
from tract_jupyter.review.process import may_run_elsewhere, this_process
from tract_jupyter.review.records import (
    ASKED,
    DECISION,
    OPEN,
    OUTCOME,
    DecisionOutcome,
    Records,
    moment_text,
    request_content,
    used_here,
)
from tract_jupyter.review.request import request_to_dict
from tract_jupyter.storage import now_text, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from tract_jupyter.review.decision import Question
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.request import ReviewRequest
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage import (
        Database,
        DecisionRows,
        EventRows,
        PendingRows,
        StoredDecision,
        StoredPending,
    )

_FINAL = {
    "approve": PendingStatus.APPROVED,
    "reject": PendingStatus.REJECTED,
    "pass_through": PendingStatus.PASSED_THROUGH,
    "expire": PendingStatus.EXPIRED,
}
_RUN_NOTHING = _FINAL.keys() - {"approve"}
_REOPENED = {"status": PendingStatus.PENDING.value, "settled_at": None, "executed_at": None}


class Ledger(Records):
    """The rows of one tract's pendings and decisions. Writes and reads them."""

    def __init__(
        self,
        database: Database,
        rows: PendingRows,
        decisions: DecisionRows,
        events: EventRows,
        signer: Signer,
    ) -> None:
        super().__init__(database, rows, decisions, signer)
        self._events = events

    # --- asking

    def ask(self, pending: Pending, request: ReviewRequest | None = None, *, wait: float = 0) -> None:
        """Store a pending and its request, unless they are already stored. Update the pending's round count.

        This process waits for `wait` seconds from the moment that other processes can see the pending; see `wait`.
        """
        with self._database.write() as connection:
            stored = self._rows.get(connection, pending.pending_id)
            waited: dict[str, Any] = {"waited_until": _time_in(wait)} if wait else {}
            if stored is None:
                self._insert(connection, pending, request, **waited)
            elif request is not None and _is_ours(pending, stored):
                values = self._signed_values(pending, pending.question, request_to_dict(request))
                self._rows.update(connection, pending.pending_id, **values, **_time(pending), **waited)
            pending.rounds = self._decisions.count(connection, pending.pending_id)

    def take_over(self, pending: Pending, stored: StoredPending, *, wait: float = 0) -> bool:
        """Make a pending continue a stored question that no process works on.

        The pending adopts the stored id. This process then asks the question with a new creation time. Return False if
        another process changed the stored question first.
        """
        own_id, own_moment = pending.pending_id, pending.created_at
        pending.pending_id, pending.created_at = stored.pending_id, datetime.now(UTC)
        is_taken = False
        try:
            request = request_to_dict(pending.review_request())
            with self._database.write() as connection:
                last = self._decisions.last(connection, stored.pending_id)
                is_free = last is None or last.finished_at is not None
                if is_free and self._rows.get(connection, stored.pending_id) == stored:
                    pending.rounds = 0 if last is None else last.round + 1
                    row = self._row(pending, request, waited_until=_time_in(wait) if wait else None)
                    self._rows.update(connection, pending.pending_id, **row)
                    is_taken = True
        finally:
            if not is_taken:
                pending.pending_id, pending.created_at = own_id, own_moment
        return is_taken

    def wait(self, pending_id: str, seconds: float) -> None:
        """Record that this process waits for the decision. It renews the record before the seconds are over."""
        with self._database.write() as connection:
            self._rows.update(connection, pending_id, waited_until=_time_in(seconds))

    # --- deciding and carrying out

    def decide(
        self,
        pending: Pending,
        decision: Decision,
        question: Question,
        *,
        ends: bool,
        also: Callable[[Connection], None] | None = None,
    ) -> bool:
        """Store a decision and its event in one transaction. Return False if another decision came first.

        `ends`: nothing has to run, so storing the decision completes it. `also` makes more writes in the same
        transaction.
        """
        signature = self._sign_decision(
            decision, pending.pending_id, pending.rounds, handed_over=pending.runs_elsewhere
        )
        with self._database.write() as connection:
            won = self._store(connection, pending, decision, question, ends=ends, signature=signature)
            if won and also is not None:
                also(connection)
        pending.rounds += won
        return won

    @property
    def in_transaction(self) -> bool:
        """True if current decisions belong to an open transaction and can be rolled back with it."""
        return self._database.in_transaction

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """Register a callback for a rollback of that transaction."""
        self._database.if_rolled_back(call)

    def refuse(self, stored: StoredDecision, why: str) -> None:
        """Set aside a decision that cannot be carried out, and reopen the pending."""
        with self._database.write() as connection:
            if self._claim_handed_over(connection, stored.pending_id, stored.round):
                self._decisions.finish(connection, stored.pending_id, stored.round, why)
                self._rows.update(connection, stored.pending_id, **_REOPENED)

    def reopen(self, pending: Pending) -> None:
        """Reopen a pending with this process's values, regardless of the stored state."""
        values = self._signed_values(pending, pending.question, request_to_dict(pending.review_request()))
        with self._database.write() as connection:
            self._rows.update(connection, pending.pending_id, **_REOPENED, **values)

    def settle(self, pending_id: str, round_: int, why: str) -> bool:
        """Consume an approval for another pending. Return False if another process was faster."""
        with self._database.write() as connection:
            if not self._claim_handed_over(connection, pending_id, round_):
                return False
            self._decisions.finish(connection, pending_id, round_, why)
            self._rows.update(connection, pending_id, settled_at=now_text())
        return True

    def begin(self, pending_id: str, round_: int, *, handed_over: bool = False) -> bool:
        """Claim a decision and record that this process starts carrying it out. Return False if another process did.

        With `handed_over`, claim a decision that is reserved for the asking process.
        """
        me = this_process()
        with self._database.write() as connection:
            if handed_over:
                return self._claim_handed_over(connection, pending_id, round_)
            return self._decisions.claim(connection, pending_id, round_, me, instead_of=me)

    def finish(self, pending: Pending, question: Question, round_: int, action: str) -> None:
        """Store the outcome of a carried-out decision, and the question with the action's changes."""
        is_settled = not pending.status.is_open
        executed_at = moment_text(pending.executed_at)
        values = {
            "status": pending.status.value,
            "error": pending.error,
            "executed_at": executed_at,
            "settled_at": now_text() if is_settled else None,
        }
        outcome = DecisionOutcome(round_, pending.status.value, question.fingerprint, executed_at)
        with self._database.write() as connection:
            stored = self._rows.shown(connection, pending.pending_id) if is_settled else None
            request = stored.request if stored else self._current_request(connection, pending)
            self._rows.update(
                connection,
                pending.pending_id,
                **values,
                **self._signed_values(pending, question, request, outcome),
            )
            self._decisions.finish(connection, pending.pending_id, round_, pending.error)
            self._record_outcome(connection, pending, action)

    # ---

    def _current_request(self, connection: Connection, pending: Pending) -> dict[str, Any] | None:
        """Return the current request, or the stored one if the pending cannot build a request now."""
        try:
            return request_to_dict(pending.review_request())
        except Exception:  # noqa: BLE001 # a failing summary must not stop the outcome
            before = self._rows.shown(connection, pending.pending_id)
            return None if before is None else before.request

    def _claim_handed_over(self, connection: Connection, pending_id: str, round_: int) -> bool:
        """Claim a decision that was reserved for the asking process.

        Sign it again, so no process can claim it a second time.
        """
        rounds = {decision.round: decision for decision in self._decisions.of(connection, pending_id)}
        stored = rounds.get(round_)
        if stored is None or stored.signature in used_here:
            return False
        if not self._decisions.claim(connection, pending_id, round_, this_process(), instead_of=None):
            return False
        if self.hands_over(stored):
            signature = self._sign_decision(Decision.of(stored), pending_id, round_, handed_over=False)
            self._decisions.sign(connection, pending_id, round_, signature)
            used_here.add(stored.signature)
            self._database.if_rolled_back(lambda: used_here.discard(stored.signature))
        return True

    def _sign_decision(self, decision: Decision, pending_id: str, round_: int, *, handed_over: bool) -> str:
        """Sign a decision, including whether it is handed over to the asking process."""
        return self._signer.sign(DECISION, [decision.signed_text(pending_id, round_), handed_over])

    def _signed_values(
        self,
        pending: Pending,
        question: Question,
        request: dict[str, Any] | None,
        outcome: DecisionOutcome | None = None,
    ) -> dict[str, Any]:
        """Return the signed part of a row: the question and its outcome."""
        content = request_content(pending, question.fingerprint, request)
        ended = "" if outcome is None else self._signer.sign(OUTCOME, [pending.pending_id, list(outcome)])
        signed: dict[str, Any] = {
            "request": request,
            "signature": self._signer.sign(ASKED, content),
            "outcome": ended,
        }
        if pending.is_unshown:
            signed["is_unshown"] = True
        return {**question._asdict(), "request_json": canonical_json(signed)}

    def _insert(
        self, connection: Connection, pending: Pending, request: ReviewRequest | None,
        outcome: DecisionOutcome | None = None, **more: Any,
    ) -> None:  # fmt: skip
        data = None if request is None else request_to_dict(request)
        values = {
            "pending_id": pending.pending_id,
            "status": pending.status.value,
            **self._row(pending, data, outcome),
            **more,
        }
        self._rows.insert(connection, values)

    def _row(
        self,
        pending: Pending,
        request: dict[str, Any] | None,
        outcome: DecisionOutcome | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the row of a question with the current values of this process."""
        return {
            "operation": pending.operation,
            "title": pending.title,
            "actor": pending.actor,
            "triggered_by": pending.triggered_by,
            "branch": pending.branch,
            "resumable": pending.resumable,
            "origin": this_process(),
            **_time(pending),
            "error": pending.error,
            "created_at": to_text(pending.created_at),
            **self._signed_values(pending, pending.question, request, outcome),
            **more,
        }

    def _store(
        self, connection: Connection, pending: Pending, decision: Decision, question: Question,
        *, ends: bool, signature: str,
    ) -> bool:  # fmt: skip
        pending_id, at = pending.pending_id, to_text(decision.decided_at)
        stored = self._rows.shown(connection, pending_id)
        if stored is not None and not self._is_free(connection, pending, stored.status, decision.action):
            return False
        after = _state_after(decision, at, ends=ends)
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
            # the decision holds edits for another process; that process applies them
            is_same = outcome is None and question == (
                stored.fields_json,
                stored.fingerprint,
                stored.identity,
            )
            changed = (
                {}
                if pending.runs_elsewhere or is_same
                else self._signed_values(pending, question, stored.request, outcome)
            )
            self._rows.update(connection, pending_id, **after, **changed)
        about: dict[str, Any] = {
            "pending_id": pending_id,
            "title": pending.title,
            "arguments": decision.arguments,
        }
        if pending.runs_nothing(decision.action):
            about["outcome"] = NO_ACTION
        self._events.append(connection, "decision", decision.decided_by, {**about, **values})
        return True

    def _is_free(self, connection: Connection, pending: Pending, status: str, action: str) -> bool:
        """Return True if the pending can be decided. Set aside a last decision that was not carried out."""
        if not pending.rounds:  # regardless of the status
            return not self._decisions.count(connection, pending.pending_id)
        last = self._decisions.last(connection, pending.pending_id)
        if last is None or last.round + 1 != pending.rounds:
            return False  # another decision came first in this round
        if last.finished_at is not None:
            return status in OPEN
        unfinished = pending.unfinished
        if last.claimed_by == this_process() and last.started_at is None:
            unfinished = last  # this process could not begin, for example because the store was locked
        if unfinished is None or (unfinished.round, unfinished.claimed_by) != (last.round, last.claimed_by):
            return False  # another process carries it out, or is about to
        if may_run_elsewhere(last.claimed_by) and action not in _RUN_NOTHING:
            return False  # it still may, so it would run twice
        self._decisions.claim(
            connection, last.pending_id, last.round, this_process(), instead_of=last.claimed_by
        )
        self._decisions.finish(connection, last.pending_id, last.round, "superseded by a later decision")
        return True

    def _record_outcome(self, connection: Connection, pending: Pending, action: str) -> None:
        about = {"pending_id": pending.pending_id, "action": action}
        if pending.status is PendingStatus.FAILED:
            self._events.append(connection, "failed", pending.actor, {**about, "error": pending.error})
        elif pending.status is PendingStatus.REJECTED and action != "reject":  # by the action's own code
            rejected = {**about, "reason": pending.rejection_reason}
            self._events.append(connection, "rejected", pending.actor, rejected)


def _is_ours(pending: Pending, stored: StoredPending) -> bool:
    """Return True if this process asked and no other process changed the row. Only then may it sign the row again."""
    is_asked_here = stored.origin == this_process() and not pending.runs_elsewhere
    return is_asked_here and stored.status in OPEN and not pending.doubt


def _time_in(seconds: float) -> str:
    return to_text(datetime.now(UTC) + timedelta(seconds=seconds))


def _time(pending: Pending) -> dict[str, Any]:
    return {"expires_at": moment_text(pending.expires_at), "on_timeout": pending.on_timeout}


def _state_after(decision: Decision, at: str, *, ends: bool) -> dict[str, Any]:
    """Return a pending's state after storing a decision. Without an execution time, the decision has not run yet."""
    final = _FINAL.get(decision.action)
    if final is None:
        return {}
    executed = at if ends and final is PendingStatus.APPROVED else None
    return {"status": final.value, "executed_at": executed, "settled_at": at if ends else None}


def _expected(pending: Pending, decision: Decision, after: Mapping[str, Any]) -> DecisionOutcome:
    return DecisionOutcome(pending.rounds, after["status"], decision.fingerprint, after["executed_at"])


def _claim(pending: Pending, at: str, *, ends: bool) -> dict[str, Any]:
    """Claim a decision for the deciding process, unless another process asked the question."""
    if ends:
        return {"claimed_by": this_process(), "started_at": at, "finished_at": at}
    return {"claimed_by": None if pending.runs_elsewhere else this_process()}
