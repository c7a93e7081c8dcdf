"""The contents of commits as plain dicts, distinguished by `content_type`.

`plain_content` is the only entrance: it takes a model of `content_types` or a dict and returns a plain dict.
`rendering` turns contents into messages.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.attachment import named_text
from tract_jupyter.models.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from tract_jupyter.models.content_types import Attachment


class Priority(StrEnum):
    """skip < normal < important < pinned.

    Skipped messages are not compiled. Pinned messages survive every compression word for word.
    """

    SKIP = "skip"
    NORMAL = "normal"
    IMPORTANT = "important"
    PINNED = "pinned"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ContentError(f"{value!r} is not a priority; use {', '.join(cls)}")


Role = Literal["system", "user", "assistant", "tool"]
_ROLE_NAMES: Final = frozenset(get_args(Role))
_TEXT: Final = frozenset({str, type(None)})


def plain_content(content: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """Return a content of one of the eight types as a plain dict with its `content_type`.

    Raises:
        ContentError: the type is unknown, or parts are missing, unknown or of the wrong type.
    """
    text_fields = _text_fields(content) if isinstance(content, dict) else None
    if text_fields is not None:
        return text_fields
    from tract_jupyter.models.content_types import validate_content  # pydantic is slow to import

    fields = dict(validate_content(content).__dict__)  # iterating a model takes ten times as long
    attachments = fields.pop("attachments", ())  # without them the form has no such field
    if attachments:
        fields["attachments"] = [attachment.model_dump() for attachment in attachments]
    return fields


def _text_fields(content: dict[str, Any]) -> dict[str, Any] | None:
    """Return an instruction or a dialogue of valid texts, as most contents are; None for any other content."""
    match content:
        case {"content_type": "instruction", "text": str(), **others} if not others:
            fields = {**content}
        case {"content_type": "dialogue", "role": str(role), "text": str(), **others} if (
            role in _ROLE_NAMES and others.keys() <= {"name"}
        ):
            fields = {"name": None, **content}
        case _:
            return None
    if not _TEXT.issuperset(map(type, fields.values())):  # no subclasses
        return None
    try:
        "".join(filter(None, fields.values())).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return None
    return fields


_ROLES: Final = {"instruction": "system", "session": "system", "tool_io": "tool"}
_PRIORITIES: Final = {
    "instruction": Priority.PINNED,
    "session": Priority.PINNED,
    "reasoning": Priority.SKIP,
}
SKIPPED: Final = frozenset(name for name, priority in _PRIORITIES.items() if priority is Priority.SKIP)
_PLAIN_TEXT: Final = frozenset({"instruction", "dialogue", "reasoning", "output"})


def default_priority(content_type: str) -> Priority:
    """Return the default priority of a commit of this type."""
    return _PRIORITIES.get(content_type, Priority.NORMAL)


def role_of(content: Mapping[str, Any]) -> str:
    """Return the message's role: `system`, `user`, `assistant` or `tool`; a user's type defines its own."""
    content_type = content["content_type"]
    if content_type == "dialogue":
        role: str = content["role"]
        return role
    return _ROLES.get(content_type, "assistant")


def attachments_of(content: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Return the attachments of the message."""
    attachments = content.get("attachments") if content["content_type"] in {"dialogue", "tool_io"} else None
    if not attachments:
        return ()
    from tract_jupyter.models.content_types import Attachment

    return tuple(Attachment(**attachment) for attachment in attachments)


def display_text(content: Mapping[str, Any]) -> str:
    """Return the text of the message for display: one line for each attachment, then the text."""
    return named_text(attachments_of(content), text_of(content))


def text_of(content: Mapping[str, Any]) -> str:
    """Return the text of the message, without its attachments."""
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
    """Return the tool's text, or the payload as JSON."""
    only = payload.get("content") if len(payload) == 1 else None
    return only if isinstance(only, str) else canonical_json(payload)


def _session_text(content: Mapping[str, Any]) -> str:
    """Return a heading, the summary and a list for each part that has entries."""
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
