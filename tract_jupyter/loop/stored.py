"""The turns of a history, and the events of each, read from the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import StoreCorruptError, TractError
from tract_jupyter.llm import CUT, WITHOUT_IMAGES
from tract_jupyter.loop.events import (
    BEGIN_EVENT,
    END_EVENT,
    NOTE_EVENT,
    RESUME_EVENT,
    STEP_EVENT,
    CallEnded,
    ReplyStored,
    RequestBegan,
    TurnBegan,
    TurnEnded,
    TurnNoted,
)
from tract_jupyter.loop.offered import OFFERED
from tract_jupyter.loop.turn import CONTINUES, ending_of_reply
from tract_jupyter.models import TurnOutcome, named_text, parse_message
from tract_jupyter.review import Decision
from tract_jupyter.storage import APPEND, from_json, read_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.context import Repository
    from tract_jupyter.loop.events import TurnEvent
    from tract_jupyter.models import Attachment, Message
    from tract_jupyter.review import Ledger
    from tract_jupyter.storage import Event

_MOST_EVENTS: Final = 5_000
_CALLS: Final = "calls"
CLAIMED: Final = "claimed_usage"
"""Metadata key of a reply by an outside agent: the usage that it claims, with `claimed_usd`. Nothing verifies it."""


@dataclass(frozen=True)
class PastMessage:
    """A message of a turn, with the metadata and time of its commit."""

    message: Message
    metadata: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True)
class PastTurn:
    """A turn in the history.

    Attributes:
        question: the commit of the user's message.
        text: its text.
        at: its time.
        messages: the replies and the answers of calls, in order.
        is_last: True if it is the last turn.
        attachments: the files of the message.
    """

    question: str
    text: str
    at: datetime
    messages: tuple[PastMessage, ...]
    is_last: bool = False
    attachments: tuple[Attachment, ...] = ()

    @property
    def told(self) -> str:
        """The user's text, without attached context, and with the names of attachments."""
        return named_text(self.attachments, parse_message(self.text)[1])

    @property
    def model(self) -> str:
        """The model of the last reply; empty if there is none or it is unknown."""
        named = [str(one.message.generation_config.get("model") or "") for one in self.messages]
        return next(filter(None, reversed(named)), "")


def past_turns(repository: Repository, head: str | None) -> list[PastTurn]:
    """Return the turns of a history, oldest first."""
    turns: list[PastTurn] = []
    question: PastMessage | None = None
    messages: list[PastMessage] = []
    for one in _messages(repository, head):
        if _asks(one.message, one.metadata):
            if question is not None:
                turns.append(_turn(question, messages))
            question, messages = one, []
        elif one.message.role in {"assistant", "tool"}:
            messages.append(one)
    return turns if question is None else [*turns, _turn(question, messages, is_last=True)]


def _asks(message: Message, metadata: Mapping[str, Any]) -> bool:
    """Return True if a message starts a turn. A rejection's reason or a request to continue does not."""
    return message.role == "user" and not metadata.keys() & {"rejected", CONTINUES}


def _turn(question: PastMessage, messages: Sequence[PastMessage], *, is_last: bool = False) -> PastTurn:
    message = question.message
    return PastTurn(
        message.commit_hash, message.content, question.at, tuple(messages), is_last, message.attachments
    )


def _messages(repository: Repository, head: str | None) -> Iterator[PastMessage]:
    with repository.timelines.lock:
        timeline = repository.timelines.at(head)
        messages = [
            PastMessage(
                timeline.message(step), from_json(step.metadata_json, dict), read_moment(step.created_at)
            )
            for step in timeline.steps
            if step.operation == APPEND
        ]
    yield from messages


def question_of(repository: Repository, head: str | None = None) -> TurnBegan:
    """Return the start of the turn at a commit; by default at the end of the context."""
    messages = _newest_turn(repository, head)
    if not messages or not _asks(messages[-1].message, messages[-1].metadata):
        return TurnBegan("", "", read_moment(None), bool(messages))
    message, is_resumed = messages[-1].message, len(messages) > 1
    return TurnBegan(message.commit_hash, message.content, messages[-1].at, is_resumed, message.attachments)


def images_of_turn(repository: Repository) -> list[Attachment]:
    """Return the images in the results of the turn at the end of the context."""
    messages = [one.message for one in _newest_turn(repository, None)]
    return [file for message in messages if message.role == "tool" for file in message.attachments]


def _newest_turn(repository: Repository, head: str | None) -> list[PastMessage]:
    """Return the replies and answers after the last message of the user, newest first, and then that message."""
    head = repository.refs.position.commit_hash if head is None else head
    found: list[PastMessage] = []
    with repository.timelines.lock:
        timeline = repository.timelines.at(head)
        for step in reversed(timeline.steps):
            if step.operation != APPEND:
                continue
            one = PastMessage(
                timeline.message(step), from_json(step.metadata_json, dict), read_moment(step.created_at)
            )
            is_question = _asks(one.message, one.metadata)
            if is_question or one.message.role in {"assistant", "tool"}:
                found.append(one)
            if is_question:
                break
    return found


def newest_message(repository: Repository) -> str:
    """Return the newest reply or answer in the turn at the end of the context; empty if there is none yet."""
    with repository.timelines.lock:
        timeline = repository.timelines.at(repository.refs.position.commit_hash)
        for step in reversed(timeline.steps):
            if step.operation != APPEND:
                continue
            message = timeline.message(step)
            if message.role in {"assistant", "tool"}:
                return message.commit_hash
            if _asks(message, from_json(step.metadata_json, dict)):
                break
    return ""


def _newest(turn: PastTurn) -> str:
    return turn.messages[-1].message.commit_hash if turn.messages else ""


def offered_in(repository: Repository, turn: PastTurn) -> str | None:
    """Return the tool profile of a turn's newest reply, else of its start row; None if unknown."""
    replies = [one for one in turn.messages if one.message.role == "assistant"]
    if replies:
        return str(replies[-1].metadata.get(OFFERED) or "")
    with repository.database.read() as connection:
        events = repository.events.newest(connection, BEGIN_EVENT, _MOST_EVENTS)
    began = next((one for one in events if _is_of(one, BEGIN_EVENT, turn)), None)
    return None if began is None else str(began.data.get(OFFERED) or "")


def message_here(repository: Repository, commit: str) -> PastMessage:
    """Return a message of the current history."""
    head = repository.refs.position.commit_hash
    with repository.timelines.lock:
        timeline = repository.timelines.at(head)
        step = timeline.steps[timeline.place[commit]]
        return PastMessage(
            timeline.message(step), from_json(step.metadata_json, dict), read_moment(step.created_at)
        )


def reply_event(reply: PastMessage) -> ReplyStored:
    """Return the event of a reply."""
    message, usage = reply.message, reply.metadata.get("usage") or reply.metadata.get(CLAIMED)
    return ReplyStored(
        message.commit_hash,
        message.content,
        str(message.provider_fields.get("reasoning") or ""),
        message.tool_calls,
        str(message.generation_config.get("model") or ""),
        usage if isinstance(usage, dict) else {},
        str(reply.metadata.get(CUT) or ""),
        str(reply.metadata.get(WITHOUT_IMAGES) or ""),
    )


def turn_events(repository: Repository, ledger: Ledger, turn: PastTurn) -> list[TurnEvent]:
    """Return the events of a turn from the store, without pieces of replies and starts of calls."""
    with repository.database.read() as connection:
        rows = repository.events.newest(connection, "turn.*", _MOST_EVENTS)
    known = _known_calls(rows)
    events: list[TurnEvent] = [TurnBegan(turn.question, turn.text, turn.at, attachments=turn.attachments)]
    resumed = [one.created_at for one in rows if _is_of(one, RESUME_EVENT, turn)]
    again = TurnBegan(turn.question, turn.text, turn.at, is_resumed=True)
    notes = [one for one in rows if _is_of(one, NOTE_EVENT, turn)]
    requests = 0
    open_calls: dict[str, None] = {}
    for past_message in turn.messages:
        while resumed and resumed[-1] <= past_message.at:
            resumed.pop()
            requests = 0
            events.append(again)
        while notes and notes[-1].created_at <= past_message.at:
            events.append(_note_event(notes.pop().data))
        if past_message.message.role == "assistant":
            requests += 1
            reply = reply_event(past_message)
            events += [RequestBegan(requests), reply]
            open_calls |= dict.fromkeys(call.id for call in reply.calls)
        elif past_message.message.tool_call_id is not None:
            events.append(
                _answer_event(past_message, known.get(past_message.message.tool_call_id, {}), ledger)
            )
            open_calls.pop(past_message.message.tool_call_id, None)
    events += [again] * len(resumed)
    events += [_note_event(one.data) for one in reversed(notes)]
    events.append(_end_event(turn, rows, has_open_calls=bool(open_calls)))
    return events


def _note_event(data: Mapping[str, Any]) -> TurnNoted:
    title, text, key = (str(data.get(name) or "") for name in ("title", "text", "key"))
    return TurnNoted(title, text, bool(data.get("warning")), key)


def _is_of(event: Event, kind: str, turn: PastTurn) -> bool:
    return event.event_type == kind and event.data.get("question") == turn.question


def _known_calls(rows: Sequence[Event]) -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = {}
    for event in reversed(rows):
        calls = event.data.get("calls")
        if event.event_type == STEP_EVENT and isinstance(calls, dict):
            known |= {key: value for key, value in calls.items() if isinstance(value, dict)}
    return known


def _answer_event(answer: PastMessage, known: Mapping[str, Any], ledger: Ledger) -> CallEnded:
    message, seconds, script = answer.message, known.get("seconds"), known.get("script")
    call_count = answer.metadata.get(_CALLS, 1)
    return CallEnded(
        message.tool_call_id or "",
        message.content,
        message.is_error,
        call_count if isinstance(call_count, int) else 1,
        _own_tokens(message),
        float(seconds) if isinstance(seconds, int | float) else None,
        _decision(ledger, known.get("pending")),
        tuple(map(str, known.get("asked") or ())),
        script if isinstance(script, dict) else None,
        message.commit_hash,
        str(known.get("pending") or ""),
        _instead(known.get("instead")),
        message.attachments,
    )


def _instead(value: object) -> dict[str, Any] | None:
    """Return the stored alternative that replaced a call; None for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("arguments"), dict):
        return None
    return {"name": str(value.get("name")), "arguments": value["arguments"]}


def _own_tokens(message: Message) -> int:
    from tract_jupyter.context import PER_MESSAGE

    return message.token_count - PER_MESSAGE


def _decision(ledger: Ledger, pending_id: object) -> Decision | None:
    if not isinstance(pending_id, str) or not pending_id:
        return None
    try:
        decisions = ledger.decisions(pending_id)
    except TractError:
        return None
    return Decision.of(decisions[-1]) if decisions else None


def _end_event(turn: PastTurn, rows: Sequence[Event], *, has_open_calls: bool) -> TurnEnded:
    """Return the end of the turn: from its row if that is current, else from the history."""
    last = turn.messages[-1] if turn.messages else None
    ends = (one for one in rows if _is_of(one, END_EVENT, turn))
    ended = next((one for one in ends if one.data.get("last") == _newest(turn)), None)
    if ended is not None:
        return _stored_end(ended.data)
    if last is None or last.message.role == "tool" or has_open_calls:
        return TurnEnded(None)
    return TurnEnded(*ending_of_reply(last.metadata))


def _stored_end(data: Mapping[str, Any]) -> TurnEnded:
    try:
        outcome = TurnOutcome(str(data.get("outcome")))
    except ValueError as error:
        raise StoreCorruptError("The row for the end of a turn has no valid outcome.") from error
    seconds = data.get("seconds")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    about = data.get("about")
    return TurnEnded(
        outcome,
        str(data.get("note") or ""),
        float(seconds) if is_number else None,  # type: ignore[arg-type] # checked
        about if isinstance(about, dict) else {},
    )
