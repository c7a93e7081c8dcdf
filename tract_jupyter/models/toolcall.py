"""Tool calls of models, in the shapes of the providers.

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

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import Message


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the id that its result must name, the tool, and the arguments."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read OpenAI's shape, Anthropic's tool_use block, or `{"id", "name", "arguments"}`.

        Raises:
            ContentError: it is none of the three.
        """
        try:
            if "function" in data:
                function = data["function"]
                return cls(_text(data["id"]), _text(function["name"]), _arguments(function.get("arguments")))
            arguments = data["input"] if data.get("type") == "tool_use" else data.get("arguments")
            return cls(_text(data["id"]), _text(data["name"]), _arguments(arguments))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ContentError(
                f"this is no tool call ({error!r}): use OpenAI's shape, Anthropic's tool_use block, "
                'or {"id": ..., "name": ..., "arguments": {...}}'
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the shape in which it is kept."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}

    def to_openai(self) -> dict[str, Any]:
        """Return an entry of `tool_calls`; the arguments are JSON text."""
        function = {"name": self.name, "arguments": canonical_json(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        """Return a `tool_use` block."""
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.arguments}


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"ids and names are text, not {type(given).__name__}")
    return given


def _arguments(given: Any) -> dict[str, Any]:
    if given is None or given == "":
        return {}
    value = json.loads(given) if isinstance(given, str) else given
    if not isinstance(value, dict):
        raise TypeError(f"arguments are an object, not {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """A message that calls tools, and the answers there are, in order."""

    call: CommitInfo
    results: tuple[CommitInfo, ...]
    tool_names: tuple[str, ...]
    """The tools it calls, in order."""

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits of call and answers."""
        return (self.call.commit_hash, *(result.commit_hash for result in self.results))


@dataclass(frozen=True, slots=True)
class ToolDropResult:
    """The turns that are now skipped."""

    turns: tuple[ToolTurn, ...]
    tokens: int
    """The tokens by which the context shrinks."""

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits that are now skipped."""
        return tuple(commit_hash for turn in self.turns for commit_hash in turn.commits)


@dataclass(frozen=True, slots=True)
class ToolCompactResult:
    """The answers that are shorter now."""

    commits: tuple[str, ...]
    """The answers."""
    edits: tuple[str, ...]
    """The edit of each."""
    tokens: int
    """The tokens by which the context shrinks."""


_Answers = dict[tuple[int, int], int]
"""The place of a call (message, position in it) and that of its answer."""


def paired(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, each call with its answer right after it; what has no other half as text."""
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
    """Return a tool's answer as a message of the user."""
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
