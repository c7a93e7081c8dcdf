"""The gate: every decision about a pending goes through here, over every channel.

The gate stores the decision first, with decider, channel and exact subject. Then it carries the decision out, and
stores the outcome. After a crash the store has one of three states: undecided, decided but not run, or begun with an
unknown end. The user is asked again about the last two. They never run again by themselves.
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
from tract_jupyter.storage import uninterrupted, whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.review.decision import DecisionContext, Question
    from tract_jupyter.review.grants import Grants
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.records import PendingRecord
    from tract_jupyter.storage import StoredDecision, StoredPending

_ALWAYS = frozenset({"reject", "pass_through"})
"""The actions that stay possible where a pending may no longer run."""
_STOPPED = frozenset(
    {PendingStatus.REJECTED.value, PendingStatus.PASSED_THROUGH.value, PendingStatus.EXPIRED.value}
)
BUSY = "another process carries it out"
_NOT_YET = "the process that asked has not carried it out yet. Look again in '%tract inbox'"


class _NotRunError(PendingStateError):
    """Raised if a decision of another process must not be carried out; nothing was."""


class Gate:
    """The one way to decide a pending, and to have what was decided carried out once.

    Args:
        ledger: where decisions and outcomes are stored.
        grants: where an approval that is to stand is kept.
        on_end: called after each decision that was carried out, with the pending and the decision.
    """

    def __init__(self, ledger: Ledger, grants: Grants, on_end: Callable[[Pending, Decision], None]) -> None:
        self.ledger = ledger
        self._grants = grants
        self._on_end = on_end
        self.check_code: Callable[[Pending, DecisionContext], None] = lambda _pending, _how: None
        """Called before code approves something; raises where it may not."""
        self._lock = threading.Lock()

    def carry_out(
        self, pending: Pending, action: str, arguments: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Decide a pending. Within `run` of another decision on it, this is a part of that one.

        Where a recorded decision settled it, code that decides the same is what was recorded, and changes nothing.

        Args:
            pending: what is decided.
            action: the name of the action.
            arguments: its validated arguments.
            run: carries it out, and changes the pending.

        Raises:
            PendingStateError: it is decided, has expired, or somebody else was faster.
            FingerprintError: it is not what was shown, or not the version that is active.
        """
        __tracebackhide__ = True
        if pending.deciding_thread == threading.get_ident():
            return run()
        if _was_recorded(pending, action, arguments):
            return pending.result
        with (
            uninterrupted()
        ):  # what the store says and what the pending says; the action itself can be stopped
            with self._alone(pending):
                decision = self._decide(pending, action, arguments)
                result = None if decision is None else self._run(pending, decision, run)
            if decision is None:
                raise DecidedFirstError(f"another decision came first: {self.catch_up(pending) or _NOT_YET}")
            self._on_end(pending, decision)
        return result

    @uninterrupted()
    def catch_up(self, pending: Pending) -> str:
        """Follow what the store has that this process has not seen: carry it out here, or take it over.

        Returns:
            What happened, in words; empty if nothing did.
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
            The other outcome in words, as from `catch_up`; empty if the request expired.

        Raises:
            DecidedFirstError: another thread decides it at this moment.
        """
        with uninterrupted():
            with self._alone(pending):
                if self._expire(pending):
                    return ""
            return self.catch_up(pending) or BUSY

    # ---

    @whole_context
    def _alone(self, pending: Pending) -> Iterator[None]:
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
        """Record it. False if somebody else decided first."""
        question = _as_text(pending)
        decision = Decision(
            "expire", {}, "timeout", question.fingerprint, "nobody", identity=question.identity
        )
        won = self.ledger.decide(pending, decision, question, ends=True)
        if won:
            pending.status, pending.decision = PendingStatus.EXPIRED, decision
        return won

    def _decide(self, pending: Pending, action: str, arguments: dict[str, Any]) -> Decision | None:
        """Store the decision; None if somebody else was faster."""
        context = decision_context()
        if context.terms and action != "approve":
            arguments = {**arguments, TERMS: dict(context.terms)}
        if not pending.status.is_open:
            raise PendingStateError(
                f"{action!r} came too late for {pending!r}: it is decided already; the first decision counts"
            )
        if self.ledger.in_transaction:
            self.ledger.if_rolled_back(_way_back(pending))
        if action not in _ALWAYS:
            if _has_expired(pending, datetime.now(UTC)):
                self._expire(pending)
                raise PendingStateError(f"{pending!r} has expired. Ask for it again")
            if context.needs_leave:
                self.check_code(pending, context)
            request = self._check(pending, action, arguments, context.shown)
        else:
            request = _as_text(pending)
        with pending.edited(action, arguments):
            # for the values as they were changed
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
        self, pending: Pending, action: str, arguments: Mapping[str, Any], shown: str | None
    ) -> Question | None:
        """Check that what would run is what was shown, and may run.

        Returns:
            The question as it is now; None if it has no JSON form, which the edits of the decision put right.
        """
        with pending.edited(action, arguments, keep=False):
            pending.check_fields()
        pending.check_current()
        try:
            question = pending.freeze()  # anew, whatever is remembered: this is what an approval is about
        except ContentError:
            if not approval_terms(action, arguments).get("edits"):
                raise
            question = None
        if shown is not None and (question is None or question.fingerprint != shown):
            raise FingerprintError("the request changed after it was shown. Read it again")
        return question

    def _check_stored(self, pending: Pending, stored: StoredDecision) -> None:
        """Check what was decided elsewhere.

        Raises:
            _NotRunError: it must not be carried out.
        """
        if stored.action in _ALWAYS:
            return  # what stops something needs no proof
        if not self.ledger.hands_over(stored):
            raise _NotRunError(
                f"{stored.decided_by} chose {stored.action!r}, but not with your signing secret, or the store was "
                "changed since; decide it yourself"
            )
        if _has_expired(pending, stored.decided_at):
            raise _NotRunError("it had expired by then")
        try:
            self._check(pending, stored.action, stored.arguments, None)
            with pending.edited(stored.action, stored.arguments, keep=False):
                if pending.fingerprint != stored.fingerprint:
                    raise _NotRunError("the decision was about another version. Read it again")
        except TractError as error:  # whatever it is: nothing has run
            raise _NotRunError(str(error)) from error

    def _follow(self, pending: Pending, stored: StoredDecision) -> str:
        """Carry out here what was decided elsewhere and handed over; put aside what must not run."""
        try:
            with self._alone(pending):
                self._check_stored(pending, stored)
                if not self.ledger.begin(pending.pending_id, stored.round, handed_over=True):
                    return BUSY
                self._carry_out_stored(pending, stored)
        except DecidedFirstError:
            return BUSY
        except _NotRunError as error:
            pending.rounds = stored.round + 1
            self.ledger.refuse(stored, str(error))
            return f"{_describe(stored)}, which was put aside: {error}"
        except Exception as error:  # noqa: BLE001 # the author's code may raise anything; the pending keeps it
            return f"{_describe(stored)}, which failed: {type(error).__name__}: {error}"
        self._on_end(pending, Decision.of(stored))
        return _describe(stored)

    def _carry_out_stored(self, pending: Pending, stored: StoredDecision) -> None:
        pending.rounds, pending.decision = stored.round + 1, Decision.of(stored)
        with pending.edited(stored.action, stored.arguments):
            pass  # and it stays so
        self._run_and_record(
            pending, stored.round, stored.action,
            lambda: pending.execute_tool(stored.action, stored.arguments),
        )  # fmt: skip

    def _take_over(self, pending: Pending, news: PendingRecord) -> str:
        """Take over what the store says came of it, if it only stops something, or proves that this user wanted it.

        Returns:
            What is wrong with it; empty if nothing is.
        """
        decision = None if news.last is None else Decision.of(news.last)
        if pending.runs_elsewhere or self.ledger.proves(news, _as_stored(pending, news.pending)):
            pending.adopt(news.pending, decision)
        elif news.pending.status in _STOPPED:
            pending.adopt(replace(news.pending, fields=pending.fields), decision)
        elif not news.is_open or (news.last is not None and news.last.error is None):
            if not news.is_open:
                self.ledger.reopen(pending)
            problem = "without a decision" if decision is None else "but not with your signing secret"
            return f", {problem}, or the store was changed since, so it was put aside; decide it yourself"
        return ""

    def _run(self, pending: Pending, decision: Decision, run: Callable[[], Any]) -> Any:
        __tracebackhide__ = True
        if pending.is_instant(decision.action):
            result = run()
            if pending.executed_at is not None:
                pending.executed_at = decision.decided_at  # as it is stored
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
                    "The action put values into the fields that have no JSON form; they were put back."
                )
                question = pending.question
            self._finish(pending, question, round_, action)

    def _finish(self, pending: Pending, question: Question, round_: int, action: str) -> None:
        try:
            self.ledger.finish(pending, question, round_, action)
        except StoreError as error:
            raise type(error)(
                f"{pending!r} was carried out, but that could not be stored: {error}"
            ) from error


def _was_recorded(pending: Pending, action: str, arguments: dict[str, Any]) -> bool:
    """Return True if this is the decision of code that was recorded, and settled the pending when it was shown."""
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
    """Return the question for a decision that runs nothing; a field without JSON form becomes a text."""
    fields: Any = pending.fields
    if not isinstance(fields, dict):  # code may have put anything there
        pending.fields = {"fields": fields}
    try:
        return pending.question
    except ContentError:
        pending.fields = {str(name): _noted(value) for name, value in pending.fields.items()}
        return pending.question


def _noted(value: object) -> object:
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


def _way_back(pending: Pending) -> Callable[[], None]:
    """Return what restores a pending's present state if the transaction of a decision is rolled back."""
    before = {name: value for name, value in vars(pending).items() if name in _STATE}
    fields = copy.deepcopy(pending.fields)

    def go_back() -> None:
        vars(pending).update(before)
        pending.fields = fields
        pending.note = (
            "The batch that it was decided in was rolled back, and the decision with it. What it did outside of the "
            "store stays done."
        )

    return go_back


def _as_stored(pending: Pending, stored: StoredPending) -> str:
    """Return the fingerprint that this pending has with the values of the store; empty if it could not have them."""
    before, pending.fields = pending.fields, stored.fields
    try:
        return pending.fingerprint
    except (TractError, LookupError, TypeError, ValueError, AttributeError):  # the store may hold anything
        return ""
    finally:
        pending.fields = before


def _describe(stored: StoredDecision) -> str:
    reason = f", as {stored.reason!r}" if stored.reason else ""
    ended = f", which ended with: {stored.error}" if stored.error else ""
    return f"{stored.decided_by} ({stored.channel}) chose {stored.action!r}{reason}{ended}"
