"""What happens in a turn, told while it goes on; and the same of a turn that is over, read from the store.

Whoever looks on is given values in their order, on the turn's thread or another. The history says what was said, called
and answered. What it does not say (how long a call took, who was asked about it, what a script called, how the turn
ended) is kept in rows of events, if somebody looked on.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tract_jupyter.exceptions import TractError, UndecidedError
from tract_jupyter.loop.offered import OFFERED
from tract_jupyter.loop.turn import StoppedEarlyError
from tract_jupyter.models import TurnOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from tract_jupyter.context import Repository
    from tract_jupyter.loop.answers import CallAnswer
    from tract_jupyter.loop.turn import StoredTurn
    from tract_jupyter.models import Attachment, ChatResponse, CommitInfo, Delta, ToolCall
    from tract_jupyter.review import Decision
    from tract_jupyter.toolkit import Alternative, CallNotes

BEGIN_EVENT: Final = "turn.began"
"""The row of the beginning of a turn that somebody looked on: of its question, and the tools that its model has."""
STEP_EVENT: Final = "turn.step"
"""The row of a step that somebody looked on."""
RESUME_EVENT: Final = "turn.resumed"
"""The row that says where a turn was gone on with."""
END_EVENT: Final = "turn.ended"
"""The row of the end of a turn that somebody looked on."""


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """A turn began, or goes on where it was left.

    Attributes:
        question: the commit with what the user said last; empty if nothing was said.
        text: what the user said.
        at: when.
        is_resumed: it goes on.
        attachments: what goes with it.
    """

    question: str
    text: str
    at: datetime
    is_resumed: bool = False
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestBegan:
    """The model is asked; `step` counts the requests of the turn from 1."""

    step: int


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """A piece of the reply came, as `on_delta` is given it."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class ReplyStored:
    """A reply is committed.

    Attributes:
        commit: its hash.
        text: what it says.
        reasoning: what the model thought before, as far as the provider tells.
        calls: what it calls.
        model: who replied; empty if nobody said.
        usage: the tokens, and the `cost` where it is known, as `ChatResponse.usage`; of this request alone.
        cut: why it is not whole; empty if it is.
    """

    commit: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    cut: str = ""


@dataclass(frozen=True, slots=True)
class CallAsked:
    """A person is asked about a call, in the pending of that id."""

    call_id: str
    pending_id: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call is carried out from now on."""

    call_id: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call has its answer, which is committed.

    Attributes:
        call_id: of the call.
        text: what the model is told, as it stands in the history.
        is_error: whether that tells of a failure.
        made: how many calls were made for it: 0 if it was not carried out; those of a script count.
        tokens: of the answer.
        seconds: how long it took, without waiting for a person beforehand; None if nobody knows.
        decision: who decided about it before; None if nobody was asked.
        asked: the pendings that its script asked, in order.
        script: what a script did, as `ScriptResult.to_note`; None for other calls, and if nobody knows.
        commit: the hash of the answer.
        pending: that in which a person was asked before it was carried out; empty if nobody was.
        instead: the `name` and `arguments` of the call that the user chose in its place; None for none.
    """

    call_id: str
    text: str
    is_error: bool = False
    made: int = 1
    tokens: int = 0
    seconds: float | None = None
    decision: Decision | None = None
    asked: tuple[str, ...] = ()
    script: Mapping[str, Any] | None = None
    commit: str = ""
    pending: str = ""
    instead: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over, for now.

    Attributes:
        outcome: how it ended; None if nobody knows: its process ended, or another one works on it.
        note: what that means and how to go on, in a sentence; of an error what it says.
        seconds: how long it took from its beginning, or from where it was resumed; None if nobody knows.
        about: what `ToolLoop.about_end` gave.
    """

    outcome: TurnOutcome | None
    note: str = ""
    seconds: float | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


TurnEvent: TypeAlias = (
    TurnBegan | RequestBegan | ReplyPiece | ReplyStored | CallAsked | CallBegan | CallEnded | TurnEnded
)


class TurnObserver:
    """Tells somebody what happens in one turn, and keeps what the history does not say.

    Args:
        repository: where the turn is stored.
        tell: is given each event.
        offered: the name of the tool profile that the model has; empty for no tools.
        about_end: see `ToolLoop`.
    """

    def __init__(
        self,
        repository: Repository,
        tell: Callable[[TurnEvent], object],
        offered: str = "",
        about_end: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        self._repository = repository
        self._tell = tell
        self._offered = offered
        self._about_end = about_end
        self._began = time.monotonic()
        self._question = ""
        self._step = 0
        self._took: dict[str, float] = {}
        self._notes: dict[str, CallNotes] = {}
        self._decisions: dict[str, tuple[str, Decision]] = {}
        self._instead: dict[str, dict[str, Any]] = {}
        self._step_calls: dict[str, dict[str, Any]] = {}

    def observe(self, turn: StoredTurn) -> ChatResponse:
        """Have a turn carried out, and tell how it begins and ends.

        Raises:
            TractError: as `StoredTurn.run` does.
        """
        on_delta = turn.on_delta

        def told(delta: Delta) -> None:
            self._tell(ReplyPiece(delta))
            if on_delta is not None:
                on_delta(delta)

        turn.on_delta = told
        self._began_at_question()
        try:
            response = turn.run()
        except BaseException as error:
            with suppress(TractError):  # what ended the turn is what counts
                self._ended_by(error)
            raise
        self._end(response.outcome, response.note)
        return response

    def _began_at_question(self) -> None:
        """Tell that the turn began, of what the context ends with."""
        from tract_jupyter.loop.stored import question_of

        found = question_of(self._repository)
        self._question = found.question
        if found.is_resumed:
            head = self._repository.refs.position.commit_hash
            self._keep(RESUME_EVENT, {"question": found.question, "after": head})
        elif found.question:
            self._keep(BEGIN_EVENT, {"question": found.question, OFFERED: self._offered})
        self._tell(found)

    def request(self) -> None:
        """Tell that the model is asked."""
        self._step += 1
        self._tell(RequestBegan(self._step))

    def replied(self, info: CommitInfo) -> None:
        """Tell of a reply that is committed."""
        from tract_jupyter.loop.stored import reply_event, said_here

        self._tell(reply_event(said_here(self._repository, info.commit_hash)))

    def asked(self, call_id: str, pending_id: str) -> None:
        """Tell that a person is asked about a call."""
        self._tell(CallAsked(call_id, pending_id))

    def decided(self, call_id: str, question: Any, instead: Alternative | None = None) -> None:
        """Note the decision about a call, or about the call that was chosen in its place."""
        if question.decision is not None:
            self._decisions[call_id] = (question.pending_id, question.decision)
        if instead is not None:
            self._instead[call_id] = {"name": instead.name, "arguments": instead.arguments}

    @contextmanager
    def making(self, call_id: str, notes: CallNotes) -> Iterator[None]:
        """Tell that a call is carried out from now on; what is noted of it will be told at its end."""
        self._notes[call_id] = notes
        self._tell(CallBegan(call_id))
        began = time.monotonic()
        try:
            yield
        finally:
            self._took[call_id] = time.monotonic() - began

    def answered(self, call_id: str, answer: CallAnswer, info: CommitInfo) -> None:
        """Tell that a call has its answer."""
        from tract_jupyter.loop.stored import said_here

        message = said_here(self._repository, info.commit_hash).message
        notes = self._notes.get(call_id)
        pending_id, decision = self._decisions.get(call_id, ("", None))
        seconds = self._took.get(call_id)
        asked = () if notes is None else tuple(one.pending_id for one in notes.asked)
        told = CallEnded(
            call_id, message.content, answer.is_error, answer.made,
            info.token_count, None if seconds is None else round(seconds, 3), decision,
            asked, None if notes is None else notes.script, info.commit_hash, pending_id,
            self._instead.get(call_id),
        )  # fmt: skip
        kept = {
            "seconds": told.seconds, "pending": pending_id, "asked": list(told.asked), "script": told.script,
            "instead": told.instead,
        }  # fmt: skip
        self._step_calls[call_id] = {
            name: value for name, value in kept.items() if value not in (None, "", [])
        }
        self._tell(told)

    def step_over(self, commit: str) -> None:
        """Keep what the history does not say of a step's calls.

        Raises:
            StoreError: that cannot be stored.
        """
        calls, self._step_calls = self._step_calls, {}
        if calls:
            self._keep(STEP_EVENT, {"message": commit, "calls": calls})

    def _ended_by(self, error: BaseException) -> None:
        if isinstance(error, StoppedEarlyError):
            self._end(error.response.outcome, error.response.note)
        elif isinstance(error, UndecidedError):
            self._end(TurnOutcome.WAITING, str(error))
        elif isinstance(error, Exception):
            self._end(TurnOutcome.ERROR, str(error))
        else:
            self._end(TurnOutcome.STOPPED, "interrupted; chat(None) goes on")

    def _end(self, outcome: TurnOutcome, note: str) -> None:
        from tract_jupyter.loop.stored import newest_said

        seconds = round(time.monotonic() - self._began, 3)
        about: Mapping[str, Any] = {}
        try:
            data = {
                "question": self._question, "last": newest_said(self._repository), "outcome": outcome.value,
                "note": note, "seconds": seconds,
            }  # fmt: skip
            about = {} if self._about_end is None else self._about_end()
            self._keep(END_EVENT, {**data, "about": about} if about else data)
        finally:
            self._tell(TurnEnded(outcome, note, seconds, about))

    def _keep(self, kind: str, data: dict[str, Any]) -> None:
        with self._repository.database.write() as connection:
            self._repository.events.append(connection, kind, "agent:chat", data)
