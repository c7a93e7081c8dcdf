"""A model reviews first: the place between standing approvals and a person, with the rules that no model can get past.

Off unless a person switches it on. What the model is never asked about is decided here, and by the pending itself
(`why_a_person`), before anything is sent. Whatever goes wrong afterwards, a person is asked.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from tract_jupyter.exceptions import ContentError, OperationError, TractError
from tract_jupyter.models import PendingStatus, one_line
from tract_jupyter.review.decision import MODEL_REVIEWER, Decision, current_person, deciding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.models import PersonsWords
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.recorded import RecordedDecisions
    from tract_jupyter.review.reviewable import Reviewable
    from tract_jupyter.storage import StoredDecision, StoredPending

Verdict = Literal["clear", "refuse", "ask"]
_KEPT: Final = 1_000
_LATELY: Final = 200  # decisions that are looked through for something that a person turned down
_ADVICE: Final = 300  # characters of what a model said that a person is shown


class Look(NamedTuple):
    """What a model that reviews first said about one call.

    Attributes:
        verdict: `clear`, `refuse`, or `ask` to leave it to a person.
        reason: why, in the model's own words; of `ask` also what went wrong.
        model: its name.
        is_own: whether `reason` is the model's text, rather than what went wrong with asking it.
    """

    verdict: Verdict
    reason: str
    model: str
    is_own: bool = True


class FirstReviewer(Protocol):
    """What looks at a call before a person is asked."""

    most_cleared: int
    """How many calls it may clear before the person says something again."""

    def look(self, pending: Reviewable, said: PersonsWords) -> Look:
        """Look at a call that the rules leave to it. Whatever goes wrong is a look that leaves it to a person."""
        ...


class LookRecord(NamedTuple):
    """What became of one question that came to the place of a model that reviews first.

    Attributes:
        pending_id: of the question.
        title: its heading.
        outcome: `cleared`, `refused`, `passed on` (the model was asked, and a person decides), or `kept` (the rules
            leave it to a person, so that the model was not asked).
        reason: why.
        model: who was asked; empty if nobody was.
        at: when, in UTC.
    """

    pending_id: str
    title: str
    outcome: str
    reason: str
    model: str
    at: datetime


class FirstLook:
    """The place of a model that reviews first, in one tract.

    Args:
        ledger: what was asked and decided.
        recorded: gives the decisions that are recorded for this run, if any.
        said: the person's own words.

    Attributes:
        records: what became of the newest questions that came here, in this process.
    """

    def __init__(
        self, ledger: Ledger, recorded: Callable[[], RecordedDecisions | None], said: PersonsWords
    ) -> None:
        self.records: deque[LookRecord] = deque(maxlen=_KEPT)
        self._ledger = ledger
        self._recorded = recorded
        self._said = said
        self._reviewer: FirstReviewer | None = None
        self._cleared: dict[str, tuple[FirstReviewer, Reviewable]] = {}
        self._withdrawn: set[str] = set()
        self._since: tuple[int, int] = (0, 0)  # how often the person had spoken, and the calls cleared since
        self._lock = threading.Lock()

    @property
    def reviewer(self) -> FirstReviewer | None:
        """The model that reviews first; None if none does."""
        return self._reviewer

    @reviewer.setter
    def reviewer(self, reviewer: FirstReviewer | None) -> None:
        """Have this one review first from now on. What another one has cleared and was not run is asked about.

        Raises:
            ContentError: it is none.
        """
        if reviewer is not None and not callable(getattr(reviewer, "look", None)):
            raise ContentError(
                "a model that reviews first is made with ModelReviewer(), or None to have none; "
                f"{type(reviewer).__name__} has no method 'look'"
            )
        self._reviewer = reviewer

    # --- deciding

    def settles(self, pending: Reviewable) -> bool:
        """Have the model decide, where it may. False if a person is to be asked: `advice` says what the model said."""
        reviewer = self._reviewer
        if reviewer is None:
            return False
        try:
            why = next(filter(None, self._why_a_person(pending, reviewer)), "")
            shown = pending.fingerprint
        except TractError as error:
            why, shown = f"what it is about cannot be read: {error}", ""
        if why:
            self._record(pending, "kept", why)
            return False
        look = reviewer.look(pending, self._said)
        if self._reviewer is not reviewer:
            look = Look("ask", "it was switched off meanwhile", look.model, is_own=False)
        try:
            return self._carried_out(pending, look, reviewer, shown)
        except TractError as error:  # it changed, or somebody else decided: nothing was done here
            self._record(pending, "passed on", str(error), look.model)
            return not pending.status.is_open

    def _carried_out(self, pending: Reviewable, look: Look, reviewer: FirstReviewer, shown: str) -> bool:
        by = f"model:{one_line(look.model, 80)}"
        if look.verdict == "clear":
            with deciding(MODEL_REVIEWER, by, shown=shown, reason=look.reason):
                pending.execute_tool(pending.cleared_by, {})
            with self._lock:
                self._cleared[pending.pending_id] = (reviewer, pending)
                while len(self._cleared) > _KEPT:  # of turns that were left, which never make them
                    del self._cleared[next(iter(self._cleared))]
                count, cleared = self._since
                self._since = (self._said.count, cleared + 1 if count == self._said.count else 1)
            self._record(pending, "cleared", look.reason, look.model)
            return True
        if look.verdict == "refuse":
            with deciding(MODEL_REVIEWER, by, shown=shown):
                pending.execute_tool("reject", {"reason": look.reason})
            self._record(pending, "refused", look.reason, look.model)
            return True
        pending.advice = _advice(look)
        self._record(pending, "passed on", look.reason, look.model)
        return False

    def _why_a_person(self, pending: Reviewable, reviewer: FirstReviewer) -> Iterator[str]:
        """Yield why this question is a person's, whatever a model would say; nothing if a model may decide."""
        if (
            pending.status is not PendingStatus.PENDING
            or pending.runs_elsewhere
            or pending.origin is not None
        ):
            yield "another process asked it, or it is decided already"
        if self._ledger.in_transaction:
            yield "it is a part of a batch, in which no model is asked"
        if pending.unguarded or pending.doubt or pending.unfinished is not None or pending.error:
            yield "there is something about it that a person has to know"
        if pending.identity in self._withdrawn:
            yield "its clearance was withdrawn by a person"
        recorded = self._recorded()
        if recorded is not None and recorded.knows(pending.identity):
            yield "a person's decision about it is recorded"
        yield pending.why_a_person()
        count, cleared = self._since
        if count == self._said.count and cleared >= reviewer.most_cleared:
            yield f"{cleared:,} calls were cleared since the person last said something"
        if self._was_turned_down(pending):
            yield "the person has turned down such a call before"

    def _was_turned_down(self, pending: Reviewable) -> bool:
        """Return True if a person, or anybody, lately turned down what has this title, with whatever values."""
        for stored in self._ledger.newest_decisions(_LATELY):
            if stored.action == "reject" and Decision.of(stored).is_personal:
                asked = self._ledger.get(stored.pending_id)
                if asked is not None and asked.title == pending.title:
                    return True
        return False

    # --- taking back

    def holds(self, pending_id: str) -> bool:
        """Return True if a clearance still counts, and use it up: it is asked for right before the call is made."""
        with self._lock:
            reviewer, _ = self._cleared.pop(pending_id, (None, None))
        return reviewer is not None and reviewer is self._reviewer

    @property
    def not_run(self) -> tuple[str, ...]:
        """The ids of the questions that were cleared, and whose calls were not made yet."""
        return tuple(self._cleared)

    def withdraw(self, pending_id: str) -> str:
        """Take the clearance of a call back that was not made yet: a person is asked about it then.

        Args:
            pending_id: of the question, or its beginning.

        Returns:
            The question's whole id.

        Raises:
            OperationError: no call that was cleared and not made has this id.
        """
        with self._lock:
            found = [one for one in self._cleared if pending_id and one.startswith(pending_id)]
            if len(found) != 1:
                listed = ", ".join(one[:8] for one in self._cleared) or "none"
                raise OperationError(
                    f"{'several calls' if found else 'no call'} that a model has cleared, and that was not made yet, "
                    f"begins with {pending_id!r}; there are: {listed}. What was made is taken back with undo"
                )
            _, pending = self._cleared.pop(found[0])
            self._withdrawn.add(pending.identity)
        self._ledger.withdraw(pending, current_person())
        return found[0]

    # --- looking back

    def decisions(self) -> list[tuple[StoredDecision, StoredPending]]:
        """Return all decisions of models that reviewed first, oldest first, each with what it was about."""
        return self._ledger.decided({MODEL_REVIEWER})

    def _record(self, pending: Reviewable, outcome: str, reason: str, model: str = "") -> None:
        self.records.append(
            LookRecord(pending.pending_id, pending.title, outcome, reason, model, datetime.now(UTC))
        )


def _advice(look: Look) -> str:
    """Return what a person is told of it: marked as a model's words, in which nothing can end the quotation."""
    model, said = one_line(look.model, 80), one_line(look.reason, _ADVICE)
    if not look.is_own:
        return f"A model was to review this first and could not ({said})."
    said = said.translate({ord(mark): "'" for mark in '"“”„«»'})
    return f"The model {model} would not decide. Its words, which nobody has checked: “{said}”."
