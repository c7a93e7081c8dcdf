"""The one reader of chat formats: conversations of OpenAI's and Anthropic's shape, told apart by their structure.

*Canonical* is a list in which each message has `role` and `content` (and `name`, `tool_calls`, `tool_call_id` where
they say something), names and ids fit OpenAI's limits, ids are not used twice, arguments are canonical JSON text,
calls have text or null (never an empty text) as their content, and each call is answered at once, in the order of
the calls. For such a list

    openai_messages(compiled(read_openai(listed))) == listed

and reading that again gives the same entries. What OpenAI's shape has no place for (`is_error`, priorities, the
kind of a content) does not survive writing it.

*Canonical* is a request whose `system`, if any, is one text that is not blank; whose roles alternate, the user
first; whose contents are texts or lists of blocks (never of a single text block); in which no text is blank, a text
of the assistant that comes last does not end with white space, texts come before calls and after results, results
have a text and say `is_error` only if it is true, stand in the order of their calls, and answer all of them at
once. For such a request

    anthropic_messages(compiled(read_anthropic(request))) == request

and reading that again gives the same entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.entries import (
    Entry,
    answered,
    attachment,
    bad,
    called,
    checked,
    entry,
    kind_of,
    mapping,
    parts,
    said,
    text,
)
from tract_jupyter.models import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read_openai(messages: Sequence[Any]) -> list[Entry]:
    """Return the entries of OpenAI-shaped messages.

    The parts of a content become lines of one text; what is not a text (images, sound, files) is one line that names
    it, and `attachments` in the metadata. Reasoning that a server gave (`reasoning_content`, `reasoning`) precedes
    its message. Other keys are not read.

    Raises:
        ContentError: a message has not this shape; it is named by its index, counted from 0.
    """
    tools: dict[str, str] = {}  # names by the ids of the calls so far
    entries: list[Entry] = []
    for index, given in enumerate(messages):
        message = mapping(given, index, "a message")
        entries.extend(checked(made, f"message {index}") for made in _entries(message, index, tools))
    return entries


def _entries(message: Mapping[str, Any], index: int, tools: dict[str, str]) -> list[Entry]:
    role = text(message.get("role"), index, "a role")
    if role not in _ROLES:
        raise bad(index, f"the role {role!r} is not known; use {', '.join(_ROLES)}")
    body, metadata = _body(message, index)
    if role == "tool":
        call_id = text(message.get("tool_call_id"), index, "tool_call_id, of the call that a tool answers,")
        made = answered(call_id, tools.get(call_id) or _name(message, index) or "", body)
        made["metadata"].update(metadata)
        return [made]
    if role == "assistant":
        calls = _calls(message, index)
        tools.update((call.id, call.name) for call in calls)
        metadata.update(called(calls))
    return [*_reasoning(message), said(_ROLES[role], body, _name(message, index), metadata)]


def _body(message: Mapping[str, Any], index: int) -> tuple[str, dict[str, Any]]:
    """Return the text, and the metadata of parts that are not text."""
    content = message.get("content")
    if isinstance(content, str):
        return content, {}
    if content is None and message.get("role") == "assistant":
        return text(message.get("refusal") or "", index, "a refusal"), {}
    lines: list[str] = []
    attachments: list[dict[str, Any]] = []
    for part in parts(content, index, "content"):
        kind = kind_of(part, index)
        if kind in {"text", "refusal"}:
            lines.append(text(part.get(kind), index, f"the {kind} of a part"))
        else:
            line, about = attachment(part, index)
            lines.append(line)
            attachments.append(about)
    return "\n".join(lines), {"attachments": attachments} if attachments else {}


def _calls(message: Mapping[str, Any], index: int) -> list[ToolCall]:
    if message.get("function_call"):
        raise bad(
            index, "function_call is the shape of before 2024; use tool_calls, with an id for each call"
        )
    try:
        return [
            ToolCall.from_dict(dict(call))
            for call in parts(message.get("tool_calls") or [], index, "tool_calls")
        ]
    except ContentError as error:
        raise error if str(error).startswith("message ") else bad(index, str(error)) from None


def _name(message: Mapping[str, Any], index: int) -> str | None:
    name = message.get("name")
    return text(name, index, "a name") if name is not None else None


def _reasoning(message: Mapping[str, Any]) -> list[Entry]:
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if message.get("role") != "assistant" or not isinstance(thoughts, str):
        return []
    return [entry({"content_type": "reasoning", "text": thoughts})]


def read_anthropic(messages: Sequence[Any], system: Any = None) -> list[Entry]:
    """Return the entries of the system's text or text blocks, then those of Anthropic-shaped messages.

    Each text block becomes an entry, together with the calls that follow it; so does each result. Images and
    documents become one line that names them, and `attachments` in the metadata. Thinking becomes reasoning, with
    its signature in the metadata; redacted thinking, which nobody can read, and other keys are left out.

    Raises:
        ContentError: a message or block has not this shape; the message is named by its index, counted from 0.
    """
    entries = [checked(made, "the system's text") for made in _system(system)]
    tools: dict[str, str] = {}  # names by the ids of the calls so far
    for index, given in enumerate(messages):
        message = mapping(given, index, "a message")
        entries.extend(
            checked(made, f"message {index}") for made in _anthropic_entries(message, index, tools)
        )
    return entries


def _system(system: Any) -> list[Entry]:
    blocks = [{"text": system}] if isinstance(system, str) else system or []
    if not isinstance(blocks, list) or not all(
        isinstance(b, dict) and isinstance(b.get("text"), str) for b in blocks
    ):
        raise ContentError("the system's text is a text or a list of text blocks")
    return [said("system", block["text"]) for block in blocks]


def _anthropic_entries(message: Mapping[str, Any], index: int, tools: dict[str, str]) -> list[Entry]:
    role, content = text(message.get("role"), index, "a role"), message.get("content")
    if role not in {"user", "assistant"}:
        raise bad(
            index, f"the role {role!r} is not known; use user or assistant, and `system` beside the messages"
        )
    if isinstance(content, str):
        return [said(role, content)]
    made: list[Entry] = []
    for block in parts(content, index, "content"):
        kind = kind_of(block, index)
        if {"tool_use": "user", "tool_result": "assistant"}.get(kind) == role:
            raise bad(index, f"a {kind} block is not the {role}'s")
        if kind == "tool_use":
            _add_call(made, block, index, tools)
        elif kind != "redacted_thinking":
            made.append(_entry(block, role, index, tools))
    return made or [said(role, "")]


def _entry(block: Mapping[str, Any], role: str, index: int, tools: Mapping[str, str]) -> Entry:
    kind = block["type"]
    if kind == "text":
        return said(role, text(block.get("text"), index, "the text of a block"))
    if kind == "tool_result":
        return _result(block, index, tools)
    if kind == "thinking":
        signature = block.get("signature")
        thought = text(block.get("thinking"), index, "the thinking of a block")
        content = {"content_type": "reasoning", "text": thought, "format": "anthropic"}
        return entry(content, {"signature": signature} if signature else None)
    line, about = attachment(block, index)
    return said(role, line, metadata={"attachments": [about]})


def _add_call(made: list[Entry], block: Mapping[str, Any], index: int, tools: dict[str, str]) -> None:
    """Add a call to the text before it, or to a message of its own."""
    try:
        call = ToolCall.from_dict(dict(block))
    except ContentError as error:
        raise bad(index, str(error)) from None
    tools[call.id] = call.name
    if not made or made[-1]["content"].get("role") != "assistant":
        made.append(said("assistant", ""))
    metadata = made[-1].setdefault("metadata", {})
    metadata["tool_calls"] = [*metadata.get("tool_calls", ()), *called([call])["tool_calls"]]


def _result(block: Mapping[str, Any], index: int, tools: Mapping[str, str]) -> Entry:
    call_id = text(block.get("tool_use_id"), index, "tool_use_id, of the call that a result answers,")
    content, lines, attachments = block.get("content") or "", [], []
    if isinstance(content, str):
        lines.append(content)
    else:
        for part in parts(content, index, "the content of a result"):
            if part.get("type") == "text":
                lines.append(text(part.get("text"), index, "the text of a block"))
            else:
                line, about = attachment(part, index)
                lines.append(line)
                attachments.append(about)
    made = answered(call_id, tools.get(call_id, ""), "\n".join(lines), is_error=bool(block.get("is_error")))
    if attachments:
        made["metadata"]["attachments"] = attachments
    return made


Shape = Literal["auto", "openai", "anthropic"]
"""Whose messages they are; `auto` finds out."""

_ONLY_ANTHROPIC = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})


def read_messages(data: Sequence[Any] | Mapping[str, Any], shape: Shape = "auto") -> list[Entry]:
    """Return the entries of a list of messages, or of a request that has `messages` (and, of Anthropic's, `system`).

    Args:
        data: what JSON gave. Of a request, the model, tools and parameters are not read.
        shape: whose it is. `auto` takes it for Anthropic's if it has a `system` or blocks that only Anthropic knows,
            else for OpenAI's. Lists of nothing but text could be either's: OpenAI's parts are lines of one message,
            Anthropic's blocks are messages of their own.

    Raises:
        ContentError: it has not this shape; the message that is wrong is named by its index, counted from 0.
    """
    if shape not in {"auto", "openai", "anthropic"}:
        raise ContentError(f"{shape!r} is not a shape of messages; use auto, openai or anthropic")
    request = data if isinstance(data, dict) else {"messages": data}
    messages = request.get("messages")
    if not isinstance(messages, list | tuple):
        raise ContentError(
            "these are not messages; use a list of them, or an object with a list named 'messages', "
            f"not {type(data if messages is None else messages).__name__}"
        )
    if shape == "anthropic" or (shape == "auto" and ("system" in request or _has_blocks(messages))):
        return read_anthropic(messages, request.get("system"))
    if "system" in request:
        raise ContentError("OpenAI's shape has no 'system' beside the messages; use shape='anthropic'")
    return read_openai(messages)


def _has_blocks(messages: Sequence[Any]) -> bool:
    contents = (message.get("content") for message in messages if isinstance(message, dict))
    blocks = (block for content in contents if isinstance(content, list) for block in content)
    return any(isinstance(block, dict) and str(block.get("type")) in _ONLY_ANTHROPIC for block in blocks)
