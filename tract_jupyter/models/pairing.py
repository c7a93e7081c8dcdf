"""Calls of tools and their answers, brought together as every provider wants them.

A provider refuses a call without an answer and an answer without its call, and wants the answers right after the
message that calls. A context may hold anything: the other half is skipped, was compressed away, comes after
something that was merged in between, or is yet to come; providers give their ids again and again. So

* an answer is moved to its call: of the calls that come before it, with its id and without an answer, the latest;
* a call without an answer becomes a note at the end of its message;
* an answer without its call becomes a message of the user that names the tool;
* an id that was used before is replaced in call and answer alike.

Nothing else moves, and no message is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tract_jupyter.models.canonical import canonical_json, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.models.context import Message
    from tract_jupyter.models.toolcall import ToolCall

_Answers = dict[tuple[int, int], int]
"""The place of a call (message, position in it) and that of its answer."""


def paired(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, each call with its answer right after it; what has no other half as text."""
    answers = _answers(messages)
    answering = set(answers.values())
    ids = _Ids()
    for index, message in enumerate(messages):
        if message.role == "assistant" and message.tool_calls:
            yield from _turn(messages, index, answers, ids)
        elif message.role != "tool":
            yield message
        elif index not in answering:
            yield as_user(message)


def as_user(answer: Message) -> Message:
    """What a tool said, as a message of the user."""
    source = f"the tool {answer.name}" if answer.name else "a tool"
    if answer.direction == "call":
        heading = f"Call of {source}:"
    else:
        heading = f"{'Error from' if answer.is_error else 'From'} {source}:"
    return answer._replace(
        role="user",
        content=f"{heading}\n{answer.content}",
        name=None,
        tool_call_id=None,
        is_error=False,
    )


def _answers(messages: Sequence[Message]) -> _Answers:
    answers: _Answers = {}
    waiting: dict[str, list[tuple[int, int]]] = {}  # calls by id, the next to be answered last
    for index, message in enumerate(messages):
        if message.role == "assistant":
            for position in reversed(range(len(message.tool_calls))):
                waiting.setdefault(message.tool_calls[position].id, []).append((index, position))
        elif message.role == "tool" and message.tool_call_id and waiting.get(message.tool_call_id):
            answers[waiting[message.tool_call_id].pop()] = index
    return answers


def _turn(messages: Sequence[Message], index: int, answers: _Answers, ids: _Ids) -> Iterator[Message]:
    message = messages[index]
    calls, replies, notes = [], [], []
    for position, call in enumerate(message.tool_calls):
        place = answers.get((index, position))
        if place is None:
            notes.append(_note(call))
        else:
            calls.append(replace(call, id=ids.unused(call.id)))
            replies.append(messages[place]._replace(tool_call_id=calls[-1].id))
    text = (
        "\n\n".join(part for part in (message.content, *notes) if part.strip()) if notes else message.content
    )
    yield message._replace(content=text, tool_calls=tuple(calls))
    yield from replies


def _note(call: ToolCall) -> str:
    # a sentence, not a syntax: what looks like a call invites the model to write its calls as text
    return f"(The tool {call.name} was called with {canonical_json(call.arguments)}; its answer is not shown here.)"


class _Ids:
    """Gives each id once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unused(self, wanted: str) -> str:
        given, attempt = wanted, 0
        while given in self._used:
            attempt += 1
            given = f"call_{sha256(f'{wanted}#{attempt}'.encode())[:24]}"
        self._used.add(given)
        return given
