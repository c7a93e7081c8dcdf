"""OpenAI's chat messages as entries.

*Canonical* is a list in which each message has `role` and `content` (and `name`, `tool_calls`, `tool_call_id` where
they say something), names and ids fit OpenAI's limits, ids are not used twice, arguments are canonical JSON text,
calls have text or null (never an empty text) as their content, and each call is answered at once, in the order of
the calls. For such a list

    openai_messages(compiled(read_openai(listed))) == listed

and reading that again gives the same entries. What OpenAI's shape has no place for (`is_error`, priorities, the
kind of a content) does not survive writing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.entries import Entry, answered, called, checked, entry, said
from tract_jupyter.interchange.parts import attachment, bad, kind_of, mapping, parts, text
from tract_jupyter.models.toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read_openai(messages: Sequence[Any]) -> list[Entry]:
    """The entries of OpenAI-shaped messages.

    The parts of a content become lines of one text; what is no text (images, sound, files) is one line that names
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
    """The text, and metadata with what is no text."""
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
