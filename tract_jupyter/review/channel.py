"""A channel: a way to reach a person; and the ticket that it shows.

The ladder, climbed down by what is observed and never by versions: a panel whose front end says `ready`; a prompt
where the front end takes input; else nobody can be asked, which is said at once.

A ticket goes through rounds. Each round shows one request and takes one answer, the first. An action may leave the
pending open (it only changed a field, or it raised); then the next round shows how things stand now.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from tract_jupyter.review.display import needed_pieces
from tract_jupyter.storage.interrupts import whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from tract_jupyter.models.pending import PendingStatus
    from tract_jupyter.review.decision import Answer, Decision, Question, Subject
    from tract_jupyter.review.recorded import RecordedDecisions
    from tract_jupyter.review.request import ReviewRequest
    from tract_jupyter.storage.questions import StoredDecision, StoredPending


class Ticket:
    """The state that the thread of a callback and the code that waits share.

    Args:
        pending: what is to be decided.
        on_answer: called once a round, from any thread, right after the first answer was taken. It must only hand
            the work on: in a widget's callback nothing may print, display or execute.
    """

    def __init__(self, pending: Reviewable, on_answer: Callable[[Ticket], None]) -> None:
        self.pending = pending
        self.on_answer = on_answer
        self.waiting = 0
        """How many pieces of code wait for the decision; without any, the answer is carried out on its own."""
        self.is_shown = False
        self.settled = threading.Event()
        self.output = ""
        """What the last action printed."""
        self.refused = 0
        """How many answers in a row came to nothing."""
        self._lock = threading.Lock()
        self._answer: tuple[Answer, str] | None = None
        self._held = False
        self.request: ReviewRequest = pending.review_request()
        self.round_id = secrets.token_hex(8)
        self.decided: list[tuple[ReviewRequest, Decision]] = []
        """What was decided so far, each with the showing that it was about."""
        self._known = pending.decision
        self._needed: tuple[str, frozenset[str]] = ("", frozenset())

    def new_round(self, note: str = "") -> None:
        """Show how things stand now, and take a new answer."""
        decision = self.pending.decision
        if decision is not None and decision is not self._known:
            self.decided.append((self.request, decision))
            self._known = decision
        self.request = self.pending.review_request(note)
        with self._lock:
            self.round_id = secrets.token_hex(8)
            self._answer, self._held = None, False

    @property
    def status(self) -> PendingStatus:
        """The pending's."""
        return self.pending.status

    @property
    def last_decision(self) -> Decision | None:
        """The last decision on the pending."""
        return self.pending.decision

    @property
    def answered(self) -> bool:
        """True if this round has its answer."""
        return self._answer is not None

    def is_asking(self, round_id: str) -> bool:
        """Return True if that round is the present one, and has no answer yet."""
        return self._answer is None and not self.settled.is_set() and round_id == self.round_id != ""

    @property
    def needed(self) -> frozenset[str]:
        """The keys of all that must have been on display before anything but a rejection is taken in this round."""
        request, (shown, keys) = self.request, self._needed
        if shown != self.round_id or not shown:
            keys = frozenset(piece.key for piece in needed_pieces(request))
            self._needed = (self.round_id, keys)
        return keys

    def not_seen(self, answer: Answer) -> str:
        """Say what of the request was not on display where the answer comes from; empty if nothing has to be said."""
        action = self.request.action(answer.action)
        if answer.seen is None or action is None or action.style == "reject":
            return ""
        unseen, all_ = len(self.needed - answer.seen), len(self.needed)
        if not unseen:
            return ""
        which, have = (f"{unseen:,} of the {all_:,} lines", "have") if all_ > 1 else ("the line", "has")
        return f"Nothing was decided: {which} that this would approve {have} not been on display here. Read on first."

    def submit(self, answer: Answer, channel: str) -> bool:
        """Take an answer from any thread.

        False if it came too late, answers another showing, or would approve what was not on display.
        """
        with self._lock:
            if not self.is_asking(answer.round_id):
                return False
            if self.request.action(answer.action) is None or self.not_seen(answer):
                return False
            self._answer = (answer, channel)
        self.on_answer(self)
        return True

    def take(self) -> tuple[Answer, str] | None:
        """Take the answer out, to carry it out; None if there is none, or somebody else is at work on it."""
        with self._lock:
            if self._held:
                return None
            taken, self._answer = self._answer, None
            if taken is not None:
                self._held = True
                self.round_id = ""  # nothing more can be submitted in this round
        return taken

    @whole_context
    def hold(self) -> Iterator[bool]:
        """Keep others from carrying an answer out meanwhile. Gives False if one is being carried out already."""
        with self._lock:
            free, self._held = not self._held, True
        try:
            yield free
        finally:
            if free:
                self._held = False


class Asked(Protocol):
    """A question, open or past: a pending, or its row."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The values that it is about."""
        ...

    @property
    def fingerprint(self) -> str:
        """The fingerprint that an approval of it binds to."""
        ...


class Reviewable(Protocol):
    """Something that can be decided: every `Pending`."""

    pending_id: str
    operation: str
    actor: str
    triggered_by: str | None
    fields: dict[str, Any]
    error: str | None
    rejection_reason: str
    created_at: datetime
    executed_at: datetime | None
    on_timeout: str
    result: Any
    status: PendingStatus
    rounds: int
    deciding_thread: int | None
    decision: Decision | None
    branch: str | None
    is_unshown: bool
    unfinished: StoredDecision | None
    note: str
    doubt: str
    unguarded: str
    origin: str | None
    not_granted: str
    timeout: float | None
    runs_elsewhere: bool

    @property
    def title(self) -> str:
        """The heading of its panel."""
        ...

    @property
    def question(self) -> Question:
        """The question as it is now, frozen."""
        ...

    def freeze(self) -> Question:
        """Compute the question anew."""
        ...

    @property
    def fingerprint(self) -> str:
        """The fingerprint that an approval of it, as it is now, binds to."""
        ...

    @property
    def is_named(self) -> bool:
        """True if the code that decides has said which text it decides about."""
        ...

    @property
    def is_definition(self) -> bool:
        """True if an approval makes code active that then runs by itself."""
        ...

    @property
    def expires_at(self) -> datetime | None:
        """The time after which it cannot be approved any more."""
        ...

    @property
    def identity(self) -> str:
        """The same without what the author calls volatile: what a recorded decision is found by."""
        ...

    @property
    def subject(self) -> Subject | None:
        """The subject that a standing approval could have; None if it is asked about each time."""
        ...

    @property
    def resumable(self) -> bool:
        """True if another process could carry it out."""
        ...

    @property
    def is_renewed(self) -> bool:
        """True if, asked again, the newer one replaces the open one, in the same process too."""
        ...

    def repeats(self, other: Asked) -> bool:
        """Return True if it asks the very same as another question of the same identity."""
        ...

    def runs_nothing(self, action: str) -> bool:
        """Return True if an action leaves undone what another one would do."""
        ...

    def is_instant(self, action: str) -> bool:
        """Return True if an action only decides, so that there is nothing to carry out."""
        ...

    def check_current(self) -> None:
        """Check that what it would run is still what is active."""
        ...

    def edited(
        self, action: str, arguments: Mapping[str, Any], *, keep: bool = True
    ) -> AbstractContextManager[None]:
        """Change the fields as an approval says; back again if the block raises, or with `keep=False`."""
        ...

    def review_request(self, note: str = "") -> ReviewRequest:
        """Return everything that is shown, as data."""
        ...

    def execute_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out an offered action."""
        ...

    def adopt(self, stored: StoredPending, decision: Decision | None) -> None:
        """Take over what another process made of it."""
        ...


class Channel(Protocol):
    """A way for requests to reach a person, and for answers to come back; see `notebook.channels`."""

    name: str

    def can_reach(self) -> bool:
        """Return True if anything but a refusal makes sense: a panel that may be live, or a prompt."""
        ...

    def recorded(self) -> RecordedDecisions | None:
        """Return the recorded decisions that count here, where no person can be reached; None if none do."""
        ...

    def refuses_code(self, pending: Reviewable, *, was_shown: bool) -> str:
        """Return why code may not approve something here, and what to do; empty if it may."""
        ...

    def show(self, ticket: Ticket) -> None:
        """Show the request, or show it anew: a new round, or decided."""
        ...

    def forget(self, ticket: Ticket) -> None:
        """Show the request in a new place the next time."""
        ...

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:
        """Return True if to go on waiting for a panel, `waited` seconds after the first showing, rather than prompt."""
        ...

    def prompt(self, ticket: Ticket, *, may_wait: bool = False) -> Answer | None:
        """Ask by `input()`; None where the front end takes no input, or if the person may wait, and would rather."""
        ...

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:
        """Run what follows from a ticket's answer soon, in a fresh task of the main thread."""
        ...

    def interruptible(self) -> AbstractContextManager[None]:
        """Let the stop button end what blocks within it."""
        ...

    def watch(self, look: Callable[[], bool]) -> bool:
        """Call `look` now and then on the main thread, when that is idle, until it says False.

        Returns:
            Whether it will.
        """
        ...


class NoChannel:
    """The channel where nobody can be asked: a script, a worker, a test. Others derive from it."""

    name = "none"

    def can_reach(self) -> bool:
        """Return False: nobody can be asked."""
        return False

    def recorded(self) -> RecordedDecisions | None:
        """Return None: a script decides in its own code."""
        return None

    def refuses_code(self, pending: Reviewable, *, was_shown: bool) -> str:  # noqa: ARG002
        """Allow it: a script decides in its own code."""
        return ""

    def show(self, ticket: Ticket) -> None:
        """Show nothing: there is nobody to look."""

    def forget(self, ticket: Ticket) -> None:
        """Do nothing: it was shown nowhere."""

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """Return False: there is no panel."""
        return False

    def prompt(self, ticket: Ticket, *, may_wait: bool = False) -> Answer | None:  # noqa: ARG002
        """Return None: there is no input."""
        return None

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:  # noqa: ARG002
        """Run it now: there is no other task."""
        run()

    def interruptible(self) -> AbstractContextManager[None]:
        """Do nothing: an interrupt ends it anyway."""
        return nullcontext()

    def watch(self, look: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Return False: nothing is on display that could change."""
        return False
