"""Events of a turn: reported while it runs, and read from the store later.

An observer gets the events in order, on the turn's thread or another. The history has the messages, calls and answers.
Other facts (duration of a call, its request, a script's calls, the end of the turn) are in event rows, which are
written if the turn has an observer.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tract_jupyter.exceptions import TractError, UndecidedError
from tract_jupyter.loop.offered import OFFERED
from tract_jupyter.loop.turn import StoppedEarlyError
from tract_jupyter.models import TurnOutcome
from tract_jupyter.review import CHAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from tract_jupyter.context import Repository
    from tract_jupyter.loop.answers import CallAnswer
    from tract_jupyter.models import Attachment, ChatResponse, CommitInfo, Delta, ToolCall
    from tract_jupyter.review import Decision
    from tract_jupyter.toolkit import Alternative, CallNotes

BEGIN_EVENT: Final = "turn.began"
"""The row for the start of an observed turn: its question, and the tools of its model."""
STEP_EVENT: Final = "turn.step"
"""The row for a step of an observed turn."""
RESUME_EVENT: Final = "turn.resumed"
"""The row that says where a turn was resumed."""
END_EVENT: Final = "turn.ended"
"""The row for the end of an observed turn."""
NOTE_EVENT: Final = "turn.note"
"""The row for a note about an observed turn."""


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """A turn starts or is resumed.

    Attributes:
        question: the commit of the user's last message; empty if there is none.
        text: the text of that message.
        at: its time.
        is_resumed: True if the turn is resumed.
        attachments: the files of the message.
    """

    question: str
    text: str
    at: datetime
    is_resumed: bool = False
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestBegan:
    """A request to the model starts. `step` counts the requests of the turn from 1."""

    step: int


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """A piece of the reply arrived, as for `on_delta`."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class ReplyStored:
    """A reply is committed.

    Attributes:
        commit: its hash.
        text: its text.
        reasoning: the model's reasoning, as far as the provider reports it.
        calls: its tool calls.
        model: the model; empty if unknown.
        usage: the tokens, and the `cost` if it is known, of this request alone; see `ChatResponse.usage`.
        cut: the reason if the reply is incomplete; else empty.
        without_images: the reason if its request left out the images of results; else empty.
    """

    commit: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    cut: str = ""
    without_images: str = ""


@dataclass(frozen=True, slots=True)
class CallAsked:
    """A request to the user about a call: the pending with that id."""

    call_id: str
    pending_id: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call starts."""

    call_id: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call has its answer, which is committed.

    Attributes:
        call_id: the id of the call.
        text: the answer in the history.
        is_error: True if the call failed.
        made: the number of calls: 0 if the tool did not run. A script's calls count.
        tokens: the tokens of the answer.
        seconds: the duration without the wait for approval; None if unknown.
        decision: the decision before the call; None if no approval was needed.
        asked: the requests of its script, in order.
        script: the result of a script, as `ScriptResult.to_note`; None for other calls, or if unknown.
        commit: the hash of the answer.
        pending: the id of the request about the call; empty if there was none.
        instead: `name` and `arguments` of the alternative that the user chose; None for none.
        images: the images of the answer, which the next request sends.
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
    images: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnNoted:
    """A note about the turn, which is not in the history.

    Attributes:
        title: the note.
        text: more about it.
        is_warning: True if the user should look at it.
        key: a later note with the same key replaces it; empty for none.
    """

    title: str
    text: str = ""
    is_warning: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn ended, at least for now.

    Attributes:
        outcome: the outcome; None if unknown, because the process died or another one works on the turn.
        note: the reason and the way to continue, in a sentence; for an error its message.
        seconds: the duration since the start or the resumption; None if unknown.
        about: the result of `ToolLoop.about_end`.
    """

    outcome: TurnOutcome | None
    note: str = ""
    seconds: float | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


TurnEvent: TypeAlias = (
    TurnBegan
    | RequestBegan
    | ReplyPiece
    | ReplyStored
    | CallAsked
    | CallBegan
    | CallEnded
    | TurnNoted
    | TurnEnded
)


class ObservedTurn(Protocol):
    """A turn that an observer runs.

    Attributes:
        on_delta: gets each piece of a reply; None for no receiver.
    """

    on_delta: Callable[[Delta], object] | None

    def run(self) -> ChatResponse:
        """Run the turn to its end."""
        ...


class TurnObserver:
    """Reports the events of one turn, and stores the facts that the history does not have.

    Args:
        repository: stores the turn.
        tell: gets each event.
        offered: the name of the model's tool profile; empty for no tools.
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

    def observe(self, turn: ObservedTurn) -> ChatResponse:
        """Run a turn, and report its start and end."""
        on_delta = turn.on_delta

        def report(delta: Delta) -> None:
            self._tell(ReplyPiece(delta))
            if on_delta is not None:
                on_delta(delta)

        turn.on_delta = report
        self._began_at_question()
        try:
            response = turn.run()
        except BaseException as error:
            with suppress(TractError):  # the error of the turn is more important
                self._ended_by(error)
            raise
        self._end(response.outcome, response.note)
        return response

    def _began_at_question(self) -> None:
        """Report the start of the turn, with the question at the end of the context."""
        from tract_jupyter.loop.stored import question_of

        start = question_of(self._repository)
        self._question = start.question
        if start.is_resumed:
            head = self._repository.refs.position.commit_hash
            self._keep(RESUME_EVENT, {"question": start.question, "after": head})
        elif start.question:
            self._keep(BEGIN_EVENT, {"question": start.question, OFFERED: self._offered})
        self._tell(start)

    def request(self) -> None:
        """Report a request to the model."""
        self._step += 1
        self._tell(RequestBegan(self._step))

    def replied(self, info: CommitInfo) -> None:
        """Report a committed reply."""
        from tract_jupyter.loop.stored import message_here, reply_event

        self._tell(reply_event(message_here(self._repository, info.commit_hash)))

    def asked(self, call_id: str, pending_id: str) -> None:
        """Report a request to the user about a call."""
        self._tell(CallAsked(call_id, pending_id))

    def decided(self, call_id: str, question: Any, instead: Alternative | None = None) -> None:
        """Record the decision about a call, or about the alternative that replaced it."""
        if question.decision is not None:
            self._decisions[call_id] = (question.pending_id, question.decision)
        if instead is not None:
            self._instead[call_id] = {"name": instead.name, "arguments": instead.arguments}

    @contextmanager
    def making(self, call_id: str, notes: CallNotes) -> Iterator[None]:
        """Report the start of a call. Its notes are reported at its end."""
        self._notes[call_id] = notes
        self._tell(CallBegan(call_id))
        began = time.monotonic()
        try:
            yield
        finally:
            self._took[call_id] = time.monotonic() - began

    def answered(self, call_id: str, answer: CallAnswer, info: CommitInfo) -> None:
        """Report the answer of a call."""
        from tract_jupyter.loop.stored import message_here

        message = message_here(self._repository, info.commit_hash).message
        notes = self._notes.get(call_id)
        pending_id, decision = self._decisions.get(call_id, ("", None))
        seconds = self._took.get(call_id)
        request_ids = () if notes is None else tuple(one.pending_id for one in notes.asked)
        event = CallEnded(
            call_id, message.content, answer.is_error, answer.made,
            info.token_count, None if seconds is None else round(seconds, 3), decision,
            request_ids, None if notes is None else notes.script, info.commit_hash, pending_id,
            self._instead.get(call_id), message.attachments,
        )  # fmt: skip
        facts = {
            "seconds": event.seconds, "pending": pending_id, "asked": list(event.asked), "script": event.script,
            "instead": event.instead,
        }  # fmt: skip
        self._step_calls[call_id] = {
            name: value for name, value in facts.items() if value not in (None, "", [])
        }
        self._tell(event)

    def noted(self, note: TurnNoted) -> None:
        """Store a note about the turn, and report it."""
        data = {"title": note.title, "text": note.text, "warning": note.is_warning, "key": note.key}
        self._keep(NOTE_EVENT, {"question": self._question, **data})
        self._tell(note)

    def step_over(self, commit: str) -> None:
        """Store the facts about a step's calls that the history does not have."""
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
            self._end(TurnOutcome.STOPPED, "interrupted; chat(None) continues")

    def _end(self, outcome: TurnOutcome, note: str) -> None:
        from tract_jupyter.loop.stored import newest_message

        seconds = round(time.monotonic() - self._began, 3)
        about: Mapping[str, Any] = {}
        try:
            data = {
                "question": self._question, "last": newest_message(self._repository), "outcome": outcome.value,
                "note": note, "seconds": seconds,
            }  # fmt: skip
            about = {} if self._about_end is None else self._about_end()
            self._keep(END_EVENT, {**data, "about": about} if about else data)
        finally:
            self._tell(TurnEnded(outcome, note, seconds, about))

    def _keep(self, kind: str, data: dict[str, Any]) -> None:
        with self._repository.database.write() as connection:
            self._repository.events.append(connection, kind, CHAT, data)
