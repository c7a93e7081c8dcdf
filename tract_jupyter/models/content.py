"""The contents of commits: eight content types, distinguished by `content_type`.

`plain_content` is the only entrance: it takes a model or a dict and returns a plain dict. `rendering` turns contents
into messages.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.attachment import MOST_FILES, Attachment, named_text
from tract_jupyter.models.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


class Content(BaseModel):
    """Base of the content types."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, revalidate_instances="always",
        defer_build=True,  # most processes commit contents of few types
    )  # fmt: skip
    content_type: str


def _only_with(name: str, value: str, problem: str) -> Callable[..., tuple[Attachment, ...]]:
    """Return a check: attachments are allowed only if the earlier field `name` has this value."""

    def check(
        cls: type[Content],  # noqa: ARG001 # pydantic passes the class
        attachments: tuple[Attachment, ...],
        info: ValidationInfo,
    ) -> tuple[Attachment, ...]:
        if attachments and info.data.get(name, value) != value:
            raise ValueError(problem)
        return attachments

    return check


class InstructionContent(Content):
    """A system prompt or a standing rule; pinned."""

    content_type: Literal["instruction"] = "instruction"
    text: str


class DialogueContent(Content):
    """A turn of the conversation. A user's turn may have attachments. The store has their bytes."""

    content_type: Literal["dialogue"] = "dialogue"
    role: Role
    text: str
    name: str | None = None
    attachments: tuple[Attachment, ...] = Field(default=(), max_length=MOST_FILES)

    _checked = field_validator("attachments")(
        _only_with("role", "user", "only a user message can have attachments")
    )


class ToolIOContent(Content):
    """A tool's call or result. A result may have attachments, such as images."""

    content_type: Literal["tool_io"] = "tool_io"
    tool_name: str
    direction: Literal["call", "result"]
    payload: dict[str, Any]
    status: str | None = None
    attachments: tuple[Attachment, ...] = Field(default=(), max_length=MOST_FILES)

    _checked = field_validator("attachments")(
        _only_with("direction", "result", "only a tool result can have attachments, not a tool call")
    )


class ReasoningContent(Content):
    """A model's reasoning. By default, the compiled context omits it."""

    content_type: Literal["reasoning"] = "reasoning"
    text: str
    format: str = "parsed"


class ArtifactContent(Content):
    """A document, a piece of code, a table."""

    content_type: Literal["artifact"] = "artifact"
    artifact_type: str
    content: str
    language: str | None = None


class OutputContent(Content):
    """A final output."""

    content_type: Literal["output"] = "output"
    text: str
    format: Literal["text", "markdown", "json"] = "text"


class FreeformContent(Content):
    """Any JSON object."""

    content_type: Literal["freeform"] = "freeform"
    payload: dict[str, Any]


class SessionContent(Content):
    """The boundary of a working session: its start, end, hand-over or checkpoint; pinned."""

    content_type: Literal["session"] = "session"
    session_type: Literal["start", "end", "handoff", "checkpoint"]
    summary: str
    decisions: list[str] = Field(default_factory=list)
    failed_approaches: list[str] = Field(default_factory=list)
    next_steps: list[str] = Field(default_factory=list)


AnyContent = Annotated[
    InstructionContent | DialogueContent | ToolIOContent | ReasoningContent
    | ArtifactContent | OutputContent | FreeformContent | SessionContent,
    Field(discriminator="content_type"),
]  # fmt: skip
_BUILT_IN: Final = {model.model_fields["content_type"].default: model for model in Content.__subclasses__()}


def plain_content(content: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """Return a content of one of the eight types as a plain dict with its `content_type`.

    Raises:
        ContentError: the type is unknown, or parts are missing, unknown or of the wrong type.
    """
    fields = dict(validate_content(content).__dict__)  # iterating a model takes ten times as long
    attachments = fields.pop("attachments", ())  # without them the form has no such field
    if attachments:
        fields["attachments"] = [attachment.model_dump() for attachment in attachments]
    return fields


def validate_content(content: BaseModel | dict[str, Any]) -> Content:
    """Return a content of one of the eight types as its model.

    Raises:
        ContentError: the type is unknown, or parts are missing, unknown or of the wrong type.
    """
    if not isinstance(content, (dict, Content)):  # a union would be made each time
        raise ContentError(
            f"content must be a dict with a 'content_type', or a content model, not {type(content).__name__}"
        )
    name = content.get("content_type") if isinstance(content, dict) else content.content_type
    model = _BUILT_IN.get(name) if isinstance(name, str) else None
    if model is not None:
        try:
            # the model's own method costs half as much again
            valid: Content = model.__pydantic_validator__.validate_python(content)
        except ValidationError:
            pass  # the error names all types
        else:
            return valid
    return _validated_or_told(content)


def _validated_or_told(content: Content | dict[str, Any]) -> Content:
    """Validate a content against all types, for a better error."""
    try:
        valid: Content = _of_any_type().validate_python(content)
    except ValidationError as error:
        raise ContentError(f"this is not a valid content: {_problems(error)}") from None
    return valid


@cache
def _of_any_type() -> TypeAdapter[Content]:
    return TypeAdapter(AnyContent)


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, e['loc'])) or 'content'}: {e['msg']}"
        for e in error.errors(include_url=False)[:5]
    )


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
    return tuple(Attachment(**attachment) for attachment in attachments) if attachments else ()


def told_text(content: Mapping[str, Any]) -> str:
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
