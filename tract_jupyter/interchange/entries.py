"""An entry: what `Tract.commit` takes, as a dict with a JSON form. Parts that say nothing are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.rendering import default_priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.models.context import Message
    from tract_jupyter.models.toolcall import ToolCall

Entry = dict[str, Any]

PARTS: Final = frozenset({"content", "message", "priority", "metadata", "generation_config", "tags"})
"""What an entry may have."""


def entry(content: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> Entry:
    """An entry of a content, and of what is known about it."""
    return {"content": dict(content), **({"metadata": dict(metadata)} if metadata else {})}


def said(role: str, text: str, name: str | None = None, metadata: Mapping[str, Any] | None = None) -> Entry:
    """What a participant said; the system's word without a name is an instruction."""
    if role == "system" and not name:
        return entry({"content_type": "instruction", "text": text}, metadata)
    named = {"name": name} if name else {}
    return entry({"content_type": "dialogue", "role": role, "text": text, **named}, metadata)


def called(calls: Iterable[ToolCall]) -> dict[str, Any]:
    """The metadata of an assistant that calls tools; empty if it does not."""
    listed = [call.to_dict() for call in calls]
    return {"tool_calls": listed} if listed else {}


def answered(call_id: str, tool: str, text: str, *, is_error: bool = False) -> Entry:
    """What a tool answered."""
    return entry(
        {"content_type": "tool_io", "tool_name": tool, "direction": "result", "payload": {"content": text}},
        {"tool_call_id": call_id, "name": tool, "is_error": is_error},
    )


def entry_of(message: Message) -> Entry:
    """An entry that becomes the same message. What kind of content it was is known of reasoning only."""
    if message.role == "tool" and message.tool_call_id:
        made = answered(message.tool_call_id, message.name or "", message.content, is_error=message.is_error)
    elif message.content_type == "reasoning":
        made = entry({"content_type": "reasoning", "text": message.content})
    else:
        made = said(message.role, message.content, message.name, called(message.tool_calls))
    if message.generation_config:
        made["generation_config"] = dict(message.generation_config)
    if message.priority is not default_priority(made["content"]["content_type"]):
        made["priority"] = str(message.priority)
    return made


def check_entry(given: Mapping[str, Any], place: str) -> Entry:
    """A copy of the entry as it would be read back from JSON.

    Raises:
        ContentError: it is no entry, or has no JSON form; the message begins with `place`.
    """
    content = given.get("content")
    if not isinstance(content, dict) or not isinstance(content.get("content_type"), str):
        raise ContentError(f"{place}: it has no 'content', a dict with a 'content_type'")
    unknown = sorted(set(given) - PARTS)
    if unknown:
        raise ContentError(f"{place}: {', '.join(unknown)} cannot be part of it; use {', '.join(sorted(PARTS))}")
    try:
        copy: Entry = plain(dict(given))
    except ContentError as error:
        raise ContentError(f"{place}: {error}") from None
    return copy
