"""The gate: every decision about a pending goes through it, over every channel.

The gate stores the decision first, with decider, channel and exact subject. Then it carries the decision out, and
stores the outcome. After a crash the store has one of three states: undecided, decided but not run, or begun with an
unknown outcome. In the last two cases, the user decides again. The action never runs again by itself.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import (
    ContentError,
    DecidedFirstError,
    FingerprintError,
    PendingStateError,
    StoreError,
    TractError,
)
from tract_jupyter.models import PendingStatus, brief_repr, plain, printable
from tract_jupyter.review.decision import (
    RECORDED,
    TERMS,
    Decision,
    approval_terms,
    decision_context,
    in_code,
    without_grant,
)
from tract_jupyter.storage import protected_context, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.review.decision import DecisionContext, Question
    from tract_jupyter.review.grants import Grants
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.records import PendingRecord
    from tract_jupyter.storage import StoredDecision, StoredPending

_ALWAYS = frozenset({"reject", "pass_through"})
"""The actions that stay possible if a pending may no longer run."""
_STOPPED = frozenset(
    {PendingStatus.REJECTED.value, PendingStatus.PASSED_THROUGH.value, PendingStatus.EXPIRED.value}
)
BUSY = "another process carries it out"
_NOT_YET = "the asking process has not carried it out yet. Look again in '%tract inbox'"


class _NotRunError(PendingStateError):
    """Raised if a decision of another process must not run. Nothing ran."""


class Gate:
    """The only way to decide a pending. It carries out each decision once.

    `on_end` is called after each decision was carried out.
    """

    def __init__(self, ledger: Ledger, grants: Grants, on_end: Callable[[Pending, Decision], None]) -> None:
        self.ledger = ledger
        self._grants = grants
        self._on_end = on_end
        self.check_code: Callable[[Pending, DecisionContext], None] = lambda _pending, _how: None
        """Called before code approves a pending; raises if the code may not."""
        self._lock = threading.Lock()

    def carry_out(
        self, pending: Pending, action: str, arguments: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Decide a pending. A call within `run` of another decision on it is a part of that decision.

        If a recorded decision already settled the pending, the same decision by code changes nothing.

        Raises:
            PendingStateError: it is decided, has expired, or another decision came first.
            FingerprintError: it has changed since the user saw it, or its code is not the active version.
        """
        __tracebackhide__ = True
        if pending.deciding_thread == threading.get_ident():
            return run()
        if _was_recorded(pending, action, arguments):
            return pending.result
        with uninterrupted():  # store and pending must agree; the action itself can be stopped
            with self._exclusively(pending):
                decision = self._decide(pending, action, arguments)
                result = None if decision is None else self._run(pending, decision, run)
            if decision is None:
                raise DecidedFirstError(f"another decision came first: {self.catch_up(pending) or _NOT_YET}")
            self._on_end(pending, decision)
        return result

    @uninterrupted()
    def catch_up(self, pending: Pending) -> str:
        """Apply stored decisions of other processes: carry them out here, or adopt their outcome.

        Return a description of them; empty if there are none.
        """
        news = self.ledger.news(pending)
        if news is None:
            return ""
        outcomes = []
        for stored in news.unseen(pending.rounds):
            if stored.claimed_by is None and not pending.runs_elsewhere:
                outcomes.append(self._follow(pending, stored))
            elif stored.finished_at is None and stored.claimed_by is not None:
                return BUSY
            else:
                pending.rounds = stored.round + 1
                outcomes.append(
                    _describe(stored) + (self._take_over(pending, news) if stored is news.last else "")
                )
        if not outcomes and not news.is_open and pending.status.is_open:
            outcomes.append(f"it was {news.pending.status}{self._take_over(pending, news)}")
        return "; ".join(outcomes)

    def expire(self, pending: Pending) -> str:
        """Mark the request as expired. Expiry is not a rejection.

        Returns:
            A description of another outcome, as from `catch_up`; empty if the request expired.

        Raises:
            DecidedFirstError: another thread is deciding it.
        """
        with uninterrupted():
            with self._exclusively(pending):
                if self._expire(pending):
                    return ""
            return self.catch_up(pending) or BUSY

    # ---

    @protected_context
    def _exclusively(self, pending: Pending) -> Iterator[None]:
        with self._lock:
            if pending.deciding_thread is not None:
                raise DecidedFirstError(
                    f"{pending!r} is being decided by another thread; nothing was run here"
                )
            pending.deciding_thread = threading.get_ident()
        pending_id = pending.pending_id
        self.ledger.under_way.add(pending_id)
        try:
            yield
        finally:
            self.ledger.under_way.discard(pending_id)
            pending.deciding_thread = None

    def _expire(self, pending: Pending) -> bool:
        """Store the expiry. Return False if another decision came first."""
        question = _as_text(pending)
        decision = Decision(
            "expire", {}, "timeout", question.fingerprint, "nobody", identity=question.identity
        )
        won = self.ledger.decide(pending, decision, question, ends=True)
        if won:
            pending.status, pending.decision = PendingStatus.EXPIRED, decision
        return won

    def _decide(self, pending: Pending, action: str, arguments: dict[str, Any]) -> Decision | None:
        """Store and return the decision. Return None if another decision came first."""
        context = decision_context()
        if context.terms and action != "approve":
            arguments = {**arguments, TERMS: dict(context.terms)}
        if not pending.status.is_open:
            raise PendingStateError(
                f"{action!r} came too late for {pending!r}: it is already decided; the first decision counts"
            )
        if self.ledger.in_transaction:
            self.ledger.if_rolled_back(_restorer(pending))
        if action not in _ALWAYS:
            if _has_expired(pending, datetime.now(UTC)):
                self._expire(pending)
                raise PendingStateError(f"{pending!r} has expired. Propose it again")
            if context.needs_leave:
                self.check_code(pending, context)
            request = self._check(pending, action, arguments, context.shown)
        else:
            request = _as_text(pending)
        with pending.edited(action, arguments):
            # grant and question cover the edited values
            grant = self._grants.asked_for(pending, action, arguments, context)
            question = pending.question
            decision = Decision(
                action,
                {**arguments, "reason": context.reason} if context.reason else arguments,
                context.channel,
                question.fingerprint,
                context.decided_by,
                identity=(request or question).identity,
            )
            ends = pending.is_instant(action)
            if not self.ledger.decide(pending, decision, question, ends=ends, also=grant):
                return None
        pending.decision, pending.unfinished = decision, None
        return decision

    def _check(
        self, pending: Pending, action: str, arguments: Mapping[str, Any], shown_fingerprint: str | None
    ) -> Question | None:
        """Check that the pending is unchanged since it was displayed, and that it may run.

        Returns:
            The current question. None if it has no JSON form, but the edits of the decision correct this.
        """
        with pending.edited(action, arguments, keep=False):
            pending.check_fields()
        pending.check_current()
        try:
            question = pending.freeze()  # without the cache, because an approval binds to it
        except ContentError:
            if not approval_terms(action, arguments).get("edits"):
                raise
            question = None
        if shown_fingerprint is not None and (question is None or question.fingerprint != shown_fingerprint):
            raise FingerprintError("the request has changed since you saw it. Read it again")
        return question

    def _check_stored(self, pending: Pending, stored: StoredDecision) -> None:
        """Check a decision of another process.

        Raises:
            _NotRunError: it must not run.
        """
        if stored.action in _ALWAYS:
            return  # a rejection needs no proof
        if not self.ledger.hands_over(stored):
            raise _NotRunError(
                f"{stored.decided_by} chose {stored.action!r}, but without your signature, or the store was changed "
                "afterwards; decide it yourself"
            )
        if _has_expired(pending, stored.decided_at):
            raise _NotRunError("it had already expired")
        try:
            self._check(pending, stored.action, stored.arguments, None)
            with pending.edited(stored.action, stored.arguments, keep=False):
                if pending.fingerprint != stored.fingerprint:
                    raise _NotRunError("the decision was about another version. Read it again")
        except TractError as error:  # nothing has run yet
            raise _NotRunError(str(error)) from error

    def _follow(self, pending: Pending, stored: StoredDecision) -> str:
        """Carry out a decision that another process handed over. Set it aside if it must not run."""
        try:
            with self._exclusively(pending):
                self._check_stored(pending, stored)
                if not self.ledger.begin(pending.pending_id, stored.round, handed_over=True):
                    return BUSY
                self._carry_out_stored(pending, stored)
        except DecidedFirstError:
            return BUSY
        except _NotRunError as error:
            pending.rounds = stored.round + 1
            self.ledger.refuse(stored, str(error))
            return f"{_describe(stored)}, which was set aside: {error}"
        except Exception as error:  # noqa: BLE001 # the author's code may raise anything; the pending keeps it
            return f"{_describe(stored)}, which failed: {type(error).__name__}: {error}"
        self._on_end(pending, Decision.of(stored))
        return _describe(stored)

    def _carry_out_stored(self, pending: Pending, stored: StoredDecision) -> None:
        pending.rounds, pending.decision = stored.round + 1, Decision.of(stored)
        with pending.edited(stored.action, stored.arguments):
            pass  # the edits stay
        self._run_and_record(
            pending, stored.round, stored.action,
            lambda: pending.execute_tool(stored.action, stored.arguments),
        )  # fmt: skip

    def _take_over(self, pending: Pending, news: PendingRecord) -> str:
        """Adopt the stored outcome if it only stops the pending, or if this user signed it.

        Return the problem with the outcome; empty if there is none.
        """
        decision = None if news.last is None else Decision.of(news.last)
        if pending.runs_elsewhere or self.ledger.proves(news, _as_stored(pending, news.pending)):
            pending.adopt(news.pending, decision)
        elif news.pending.status in _STOPPED:
            pending.adopt(replace(news.pending, fields=pending.fields), decision)
        elif not news.is_open or (news.last is not None and news.last.error is None):
            if not news.is_open:
                self.ledger.reopen(pending)
            problem = "without a decision" if decision is None else "but without your signature"
            return (
                f", {problem}, or the store was changed afterwards, so it was set aside; decide it yourself"
            )
        return ""

    def _run(self, pending: Pending, decision: Decision, run: Callable[[], Any]) -> Any:
        __tracebackhide__ = True
        if pending.is_instant(decision.action):
            if not pending.status.is_open:  # a waiting thread has read this decision in the store
                return pending.result
            result = run()
            if pending.executed_at is not None:
                pending.executed_at = decision.decided_at  # the stored time
            return result
        if pending.runs_elsewhere:
            return run()
        round_ = pending.rounds - 1
        if not self.ledger.begin(pending.pending_id, round_):
            raise DecidedFirstError(f"another process carries {pending!r} out; nothing was run here")
        return self._run_and_record(pending, round_, decision.action, run)

    def _run_and_record(self, pending: Pending, round_: int, action: str, run: Callable[[], Any]) -> Any:
        __tracebackhide__ = True
        before = copy.deepcopy(pending.fields)
        pending.note = ""
        try:
            with in_code():
                return run()
        finally:  # also if it raised or was interrupted
            try:
                question = pending.question
            except ContentError:
                pending.fields = before
                pending.note = (
                    "The action set fields to values without a JSON form; the old values were restored."
                )
                question = pending.question
            self._finish(pending, question, round_, action)

    def _finish(self, pending: Pending, question: Question, round_: int, action: str) -> None:
        try:
            self.ledger.finish(pending, question, round_, action)
        except StoreError as error:
            raise type(error)(
                f"{pending!r} was carried out, but its outcome could not be stored: {error}"
            ) from error


def _was_recorded(pending: Pending, action: str, arguments: dict[str, Any]) -> bool:
    """Return True if code repeats the recorded decision that settled the pending."""
    decision = pending.decision
    if (
        decision is None
        or decision.channel != RECORDED
        or pending.status.is_open
        or decision_context().channel != "code"
    ):
        return False
    return (decision.action, decision.arguments) == (action, without_grant(action, arguments))


def _as_text(pending: Pending) -> Question:
    """Return the question for a decision that runs nothing. A field without JSON form becomes a text."""
    fields: Any = pending.fields
    if not isinstance(fields, dict):  # code may have put anything there
        pending.fields = {"fields": fields}
    try:
        return pending.question
    except ContentError:
        pending.fields = {str(name): _plain_or_text(value) for name, value in pending.fields.items()}
        return pending.question


def _plain_or_text(value: object) -> object:
    try:
        return plain(value)
    except ContentError:
        return printable(brief_repr(value))


def _has_expired(pending: Pending, at: datetime) -> bool:
    return pending.expires_at is not None and pending.expires_at <= at


_STATE = frozenset({
    "status", "rejection_reason", "error", "executed_at", "result", "rounds", "decision", "unfinished",
    "_approved_hash",
})  # fmt: skip


def _restorer(pending: Pending) -> Callable[[], None]:
    """Return a function that restores the current state after a rollback of the decision's transaction."""
    before = {name: value for name, value in vars(pending).items() if name in _STATE}
    fields = copy.deepcopy(pending.fields)

    def go_back() -> None:
        vars(pending).update(before)
        pending.fields = fields
        pending.note = (
            "The batch of the decision was rolled back, and the decision with it. Effects outside of the store "
            "remain."
        )

    return go_back


def _as_stored(pending: Pending, stored: StoredPending) -> str:
    """Return the fingerprint with the stored field values; empty if they do not fit this pending."""
    before, pending.fields = pending.fields, stored.fields
    try:
        return pending.fingerprint
    except (TractError, LookupError, TypeError, ValueError, AttributeError):  # the store may hold anything
        return ""
    finally:
        pending.fields = before


def _describe(stored: StoredDecision) -> str:
    reason = f" because {stored.reason!r}" if stored.reason else ""
    ended = f", which ended with: {stored.error}" if stored.error else ""
    return f"{stored.decided_by} ({stored.channel}) chose {stored.action!r}{reason}{ended}"
