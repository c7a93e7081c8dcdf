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

PARTS: Final[dict[str, type]] = {
    "content": dict,
    "generation_config": dict,
    "message": str,
    "metadata": dict,
    "priority": str,
    "retain": str,
    "retain_match": list,
    "retain_match_mode": str,
    "tags": list,
}
"""What an entry may have, and of which type it is in JSON."""

_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "dialogue": {"name": None},
    "tool_io": {"status": None},
    "artifact": {"language": None},
    "reasoning": {"format": "parsed"},
    "output": {"format": "text"},
    "session": {"decisions": [], "failed_approaches": [], "next_steps": []},
}


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
    content = {
        "content_type": "tool_io",
        "tool_name": tool,
        "direction": "result",
        "payload": {"content": text},
    }
    metadata: dict[str, Any] = {"tool_call_id": call_id, "name": tool}
    if is_error:
        content["status"] = "error"
        metadata["is_error"] = True
    return entry(content, metadata)


def entry_of(
    message: Message,
    content: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
) -> Entry:
    """An entry that becomes the same message.

    Args:
        message: a message of a compiled context.
        content: what was committed, where it is known. Otherwise the entry is what was said, thought or answered.
        metadata: what was committed with it.
        tags: those that it was committed with.
    """
    made = entry(content, metadata) if content is not None else _heard(message)
    kind = made["content"]["content_type"]
    if message.priority is not default_priority(kind):
        made["priority"] = str(message.priority)
    return checked(
        {**made, "generation_config": dict(message.generation_config), "tags": list(tags)}, "a message"
    )


def checked(given: Any, place: str) -> Entry:
    """A copy of the entry as it would be read back from JSON, without the parts that say nothing.

    Raises:
        ContentError: it is no entry, or has no JSON form; the message begins with `place`.
    """
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, dict) or not isinstance(content.get("content_type"), str):
        raise ContentError(f"{place}: it has no 'content', a dict with a 'content_type'")
    unknown = sorted(str(part) for part in given.keys() - PARTS.keys())
    if unknown:
        raise ContentError(
            f"{place}: {', '.join(unknown)} cannot be part of it; use {', '.join(sorted(PARTS))}"
        )
    try:
        copy = plain(given)
    except ContentError as error:
        raise ContentError(f"{place}: {error}") from None
    kept = {part: value for part, value in copy.items() if value not in (None, {}, [])}
    for part, value in kept.items():
        if not isinstance(value, PARTS[part]):
            raise ContentError(f"{place}: {part} is a {PARTS[part].__name__}, not {type(value).__name__}")
    defaults = _DEFAULTS.get(content["content_type"], {})
    kept["content"] = {k: v for k, v in kept["content"].items() if k not in defaults or v != defaults[k]}
    return kept


def _heard(message: Message) -> Entry:
    if message.role == "tool" and message.tool_call_id:
        return answered(message.tool_call_id, message.name or "", message.content, is_error=message.is_error)
    if message.content_type == "reasoning":
        return entry({"content_type": "reasoning", "text": message.content})
    return said(message.role, message.content, message.name, called(message.tool_calls))
