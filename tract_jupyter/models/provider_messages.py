"""Messages in the shapes of providers, in a form that they accept.

Providers refuse a call without an answer and an answer without its call. They require the answers directly after the
message with the calls, and refuse some names and ids. A context may contain anything: the other half may be skipped,
compressed, still to come, or separated by a merge, and providers reuse ids. So

* an answer moves to the latest earlier call with its id that has no answer yet;
* a call without an answer becomes a note at the end of its message;
* an answer without its call becomes a user message that names the tool;
* a repeated id is replaced in call and answer alike, and so are names and ids that providers would refuse.

Nothing else moves, and no message is lost.

The rules: https://platform.openai.com/docs/api-reference/chat/create,
https://docs.anthropic.com/en/api/messages and https://docs.anthropic.com/en/docs/agents-and-tools/tool-use.
"""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.attachment import anthropic_block, attached_parts
from tract_jupyter.models.canonical import canonical_json, sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tract_jupyter.models.attachment import Reader
    from tract_jupyter.models.context import Message
    from tract_jupyter.models.turn import ToolCall


OPENING: Final = "(The conversation begins with the assistant.)"
"""The user's first message if the context begins with another role."""
NO_TEXT: Final = "(It failed without a message.)"
"""The text of a failed call's result that has none."""

_LONGEST_NAME = 64  # of a participant and of a tool, with both providers
_LONGEST_ID = 40  # OpenAI's limit; Anthropic's is longer
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def openai_message(message: Message, read: Reader | None = None) -> dict[str, Any]:
    """Return one message in OpenAI's shape, regardless of its neighbors. Without `read`, files are only named.

    A tool result without a call (a manually committed `tool_io` content) becomes a user message that names the tool. A
    participant's name keeps its ASCII letters, digits, `_` and `-`; other characters become `_`. OpenAI has no field
    for `is_error`.
    """
    if message.role == "tool" and message.tool_call_id:
        return {"role": "tool", "content": message.content, "tool_call_id": _openai_id(message.tool_call_id)}
    if message.role == "tool":
        message = as_user(message)
    calls = _openai_calls(message) if message.role == "assistant" else []
    shape: dict[str, Any] = {"role": message.role, "content": message.told}
    if message.attachments and read is not None:
        shape["content"] = attached_parts(message.attachments, message.content, read)
    if calls:
        shape["content"] = message.content or None
        shape["tool_calls"] = calls
    name = _name(message.name or "")
    if name:
        shape["name"] = name
    return shape


def openai_messages(messages: Sequence[Message], read: Reader | None = None) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's shape, each answer after its call. Without `read`, files are only named."""
    return [openai_message(message, read) for message in paired(messages)]


def sent_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages in the form for clients: as `openai_messages`, with the fields that OpenAI's shape lacks."""
    rendering: Rendering = getattr(messages, "rendering", None) or Rendering()
    return rendering.of(messages)


class Rendering:
    """A thread-safe cache of the messages for clients, for a list that only grows.

    Each step of a turn sends the whole context and adds two messages. A message is rendered once, and again only if the
    caller changed it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._converted: list[dict[str, Any]] = []  # the first messages; later messages cannot change them
        self._handed_out: list[dict[str, Any]] = []  # a copy
        self._ids = _Ids()

    def of(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the rendered messages for this list, which may be longer than the last one.

        Raises:
            ContentError: a tool call has arguments without a JSON form.
        """
        with self._lock:
            if len(messages) < len(self._converted):  # as the list was before
                return Rendering().of(messages)
            if self._handed_out != self._converted:
                self._handed_out = _copied(self._converted)
            new = messages[len(self._converted) :]
            complete = _complete(new)
            try:
                added = [sent_message(message) for message in paired(new[:complete], self._ids)]
            except BaseException:
                self._begin()  # some ids are already in use
                raise
            self._converted += added
            self._handed_out += _copied(added)
            if complete == len(new):
                return self._handed_out.copy()
            return [
                *self._handed_out,
                *(sent_message(message) for message in paired(new[complete:], self._ids.copy())),
            ]


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _complete(messages: Sequence[Message]) -> int:
    """Return the number of leading messages whose calls all have answers. Later messages cannot change them."""
    answering = set(_answers(messages).values())
    complete, waiting = 0, 0
    for index, message in enumerate(messages):
        if message.role == "assistant":
            waiting += len(message.tool_calls)
        waiting -= index in answering
        if not waiting:
            complete = index + 1
    return complete


def sent_message(message: Message) -> dict[str, Any]:
    """Return one message in the form between packages: as `openai_message`, with the fields that OpenAI's shape lacks.

    Attachments are values in this form. `with_parts` replaces them with their bytes for a client.
    """
    shape = openai_message(message)
    if message.attachments:
        shape |= {
            "content": message.content,
            "attachments": [attachment.model_dump() for attachment in message.attachments],
        }
    if message.is_error and message.role == "tool":
        shape["is_error"] = True
    blocks = message.provider_fields.get("provider_blocks")
    return {**shape, "provider_blocks": blocks} if blocks and message.role == "assistant" else shape


def anthropic_messages(messages: Sequence[Message], read: Reader | None = None) -> dict[str, Any]:
    """Return `messages` and any `system` in Anthropic's shape. Without `read`, files are only named.

    All system messages are joined by blank lines. Roles alternate: consecutive messages of one role become blocks of
    one message, and `OPENING` is added if the user does not begin. Blank texts and names of participants are omitted. A
    message with a single text is a plain string.
    """
    system = [m.content for m in messages if m.role == "system" and m.content.strip()]
    turns: list[dict[str, Any]] = []
    for message in paired([m for m in messages if m.role != "system"]):
        role, blocks = _anthropic_blocks(message, read)
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if messages and (not turns or turns[0]["role"] == "assistant"):
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    _trim_end(turns)
    return {
        **({"system": "\n\n".join(system)} if system else {}),
        "messages": [{**turn, "content": _simplest(turn["content"])} for turn in turns],
    }


def anthropic_tool(openai_tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool in OpenAI's shape, `{"type": "function", "function": {...}}`, in the shape of Anthropic's API."""
    function = openai_tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ContentError(
            f"this is not a tool in OpenAI's shape: {openai_tool!r:.80}; "
            'use {"type": "function", "function": {"name": ..., "description": ..., "parameters": {...}}}'
        )
    description = function.get("description")
    return {
        "name": provider_name(function["name"]),
        **({"description": description} if description else {}),
        "input_schema": {"type": "object", **(function.get("parameters") or {"properties": {}})},
    }


def _openai_calls(message: Message) -> list[dict[str, Any]]:
    calls = [call.to_openai() for call in message.tool_calls]
    for call in calls:
        call["id"] = _openai_id(call["id"])
        call["function"]["name"] = provider_name(call["function"]["name"])
    return calls


def _anthropic_blocks(message: Message, read: Reader | None) -> tuple[str, list[dict[str, Any]]]:
    if message.role == "tool":
        return "user", [_tool_result(message)]
    if message.attachments and read is not None:
        parts = attached_parts(message.attachments, message.content, read)
        return message.role, [anthropic_block(part) or part for part in parts]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": message.told}] if message.told.strip() else []
    calls = message.tool_calls if message.role == "assistant" else ()
    uses = ({**c.to_anthropic(), "id": _anthropic_id(c.id), "name": provider_name(c.name)} for c in calls)
    return message.role, [*blocks, *uses]


def _tool_result(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _anthropic_id(message.tool_call_id or "")}
    if message.content.strip():
        result["content"] = message.content
    if message.is_error:
        result.setdefault("content", NO_TEXT)  # an error must not be empty
        result["is_error"] = True
    return result


def _trim_end(turns: list[dict[str, Any]]) -> None:
    # a last message of the assistant is the beginning of the answer, and must not end with white space
    if turns and turns[-1]["role"] == "assistant":
        block = turns[-1]["content"][-1]
        turns[-1]["content"][-1] = {**block, "text": block["text"].rstrip()}


def _simplest(blocks: list[dict[str, Any]]) -> Any:
    return blocks[0]["text"] if [block["type"] for block in blocks] == ["text"] else blocks


def _openai_id(call_id: str) -> str:
    return call_id if 0 < len(call_id) <= _LONGEST_ID else _hashed(call_id)


def _anthropic_id(call_id: str) -> str:
    return call_id if _ANTHROPIC_ID.fullmatch(call_id) else _hashed(call_id)


def _hashed(text: str) -> str:
    return f"call_{sha256(text.encode())[:24]}"


def provider_name(name: str) -> str:
    """Return the tool's name for providers, which accept 64 letters, digits, `_` and `-`."""
    return _name(name) or "tool"


def _name(original: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", original)[:_LONGEST_NAME]
    return name if name.strip("_") else ""


_Answers = dict[tuple[int, int], int]
"""Maps the place of a call (message, position in it) to the place of its answer."""


def paired(messages: Sequence[Message], ids: _Ids | None = None) -> Iterator[Message]:
    """Yield the messages, each call with its answer directly after it. One without the other becomes text."""
    answers = _answers(messages)
    answering = set(answers.values())
    ids = ids or _Ids()
    for index, message in enumerate(messages):
        if message.role == "assistant" and message.tool_calls:
            yield from _turn(messages, index, answers, ids)
        elif message.role != "tool":
            yield message
        elif index not in answering:
            yield as_user(message)


def as_user(answer: Message) -> Message:
    """Return a tool's answer as a user message."""
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
    # a sentence, not call syntax: call syntax in a text invites the model to write its calls as text
    return f"(The tool {call.name} was called with {canonical_json(call.arguments)}; its answer is not shown here.)"


class _Ids:
    """Replaces repeated ids with unique ones."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)

    def copy(self) -> _Ids:
        return _Ids(self._used)

    def unused(self, wanted: str) -> str:
        candidate, attempt = wanted, 0
        while candidate in self._used:
            attempt += 1
            candidate = f"call_{sha256(f'{wanted}#{attempt}'.encode())[:24]}"
        self._used.add(candidate)
        return candidate
