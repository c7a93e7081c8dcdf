"""How a content becomes a message: its role, its text, and the priority it starts with.

Contents are read as plain dicts, so that a store reads the same whether or not a type of the user's own was registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES: Final = {"instruction": "system", "session": "system", "tool_io": "tool"}
_PRIORITIES: Final = {
    "instruction": Priority.PINNED,
    "session": Priority.PINNED,
    "reasoning": Priority.SKIP,
}
SKIPPED: Final = frozenset(name for name, priority in _PRIORITIES.items() if priority is Priority.SKIP)
_PLAIN_TEXT: Final = frozenset({"instruction", "dialogue", "reasoning", "output"})


def default_priority(content_type: str) -> Priority:
    """The priority that a commit of this type has if nobody gives it another."""
    return _PRIORITIES.get(content_type, Priority.NORMAL)


def role_of(content: Mapping[str, Any]) -> str:
    """The role of the message: `system`, `user`, `assistant` or `tool`; the model's for a type of the user's own."""
    content_type = content["content_type"]
    if content_type == "dialogue":
        role: str = content["role"]
        return role
    return _ROLES.get(content_type, "assistant")


def text_of(content: Mapping[str, Any]) -> str:
    """The text of the message."""
    content_type = content["content_type"]
    if content_type in _PLAIN_TEXT:
        text: str = content["text"]
        return text
    if content_type == "artifact":
        artifact: str = content["content"]
        return artifact
    if content_type == "tool_io":
        return _tool_text(content["payload"])
    if content_type == "freeform":
        return canonical_json(content["payload"])
    return _session_text(content) if content_type == "session" else _custom_text(content)


def _tool_text(payload: Mapping[str, Any]) -> str:
    """The text that the tool gave, or the payload as JSON."""
    only = payload.get("content") if len(payload) == 1 else None
    return only if isinstance(only, str) else canonical_json(payload)


def _session_text(content: Mapping[str, Any]) -> str:
    """A heading, the summary and a list for each part that has entries."""
    parts = [f"Session {content['session_type']}: {content['summary']}"]
    for heading, key in (
        ("Decisions", "decisions"),
        ("Failed approaches", "failed_approaches"),
        ("Next steps", "next_steps"),
    ):
        entries = content.get(key)
        if entries:
            parts.append(f"{heading}:\n" + "\n".join(f"- {entry}" for entry in entries))
    return "\n\n".join(parts)


def _custom_text(content: Mapping[str, Any]) -> str:
    text = content.get("text")
    return (
        text
        if isinstance(text, str)
        else canonical_json({k: v for k, v in content.items() if k != "content_type"})
    )
