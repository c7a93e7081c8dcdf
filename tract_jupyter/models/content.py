"""What a commit can hold: eight content types, told apart by `content_type`.

Each type knows the role of the message it becomes and the priority it starts with. `validate_content` is the only
way in: it accepts a model or a dict and returns a model.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.priority import Priority

Role = Literal["system", "user", "assistant", "tool"]


class Content(BaseModel):
    """Base of the content types."""

    model_config = ConfigDict(extra="forbid", frozen=True, revalidate_instances="always")
    default_priority: ClassVar[Priority] = Priority.NORMAL
    content_type: str

    def message_role(self) -> Role:
        """The role of the message that this content becomes."""
        return "assistant"

    def message_text(self) -> str:
        """The text of the message that this content becomes."""
        text: str = getattr(self, "text", "")
        return text


class InstructionContent(Content):
    """A system prompt or a standing rule; pinned."""

    default_priority = Priority.PINNED
    content_type: Literal["instruction"] = "instruction"
    text: str

    def message_role(self) -> Role:
        """Instructions are the system's."""
        return "system"


class DialogueContent(Content):
    """A turn of the conversation."""

    content_type: Literal["dialogue"] = "dialogue"
    role: Role
    text: str
    name: str | None = None

    def message_role(self) -> Role:
        """The speaker's role."""
        return self.role


class ToolIOContent(Content):
    """A tool's call or result."""

    content_type: Literal["tool_io"] = "tool_io"
    tool_name: str
    direction: Literal["call", "result"]
    payload: dict[str, Any]
    status: str | None = None

    def message_role(self) -> Role:
        """Tool traffic has a role of its own."""
        return "tool"

    def message_text(self) -> str:
        """The payload as JSON."""
        return canonical_json(self.payload)


class ReasoningContent(Content):
    """A model's reasoning; left out of the compiled context unless asked for."""

    default_priority = Priority.SKIP
    content_type: Literal["reasoning"] = "reasoning"
    text: str
    format: str = "parsed"


class ArtifactContent(Content):
    """A document, a piece of code, a table."""

    content_type: Literal["artifact"] = "artifact"
    artifact_type: str
    content: str
    language: str | None = None

    def message_text(self) -> str:
        """The artifact itself."""
        return self.content


class OutputContent(Content):
    """A final output."""

    content_type: Literal["output"] = "output"
    text: str
    format: Literal["text", "markdown", "json"] = "text"


class FreeformContent(Content):
    """Any JSON object."""

    content_type: Literal["freeform"] = "freeform"
    payload: dict[str, Any]

    def message_text(self) -> str:
        """The payload as JSON."""
        return canonical_json(self.payload)


class SessionContent(Content):
    """The boundary of a working session: its start, end, hand-over or checkpoint; pinned."""

    default_priority = Priority.PINNED
    content_type: Literal["session"] = "session"
    session_type: Literal["start", "end", "handoff", "checkpoint"]
    summary: str
    decisions: list[str] = Field(default_factory=list)
    failed_approaches: list[str] = Field(default_factory=list)
    next_steps: list[str] = Field(default_factory=list)

    def message_role(self) -> Role:
        """Session notes are the system's."""
        return "system"

    def message_text(self) -> str:
        """A heading, the summary and a list for each part that has entries."""
        parts = [f"Session {self.session_type}: {self.summary}"]
        for heading, entries in (
            ("Decisions", self.decisions),
            ("Failed approaches", self.failed_approaches),
            ("Next steps", self.next_steps),
        ):
            if entries:
                parts.append(f"{heading}:\n" + "\n".join(f"- {entry}" for entry in entries))
        return "\n\n".join(parts)


AnyContent = Annotated[
    InstructionContent | DialogueContent | ToolIOContent | ReasoningContent
    | ArtifactContent | OutputContent | FreeformContent | SessionContent,
    Field(discriminator="content_type"),
]  # fmt: skip
_ADAPTER: TypeAdapter[Content] = TypeAdapter(AnyContent)


def validate_content(content: Content | dict[str, Any]) -> Content:
    """Return the content as its model.

    Raises:
        ContentError: the type is unknown, or parts are missing, unknown or of the wrong type.
    """
    if not isinstance(content, Content | dict):
        raise ContentError(
            f"content is a dict with a 'content_type', or a content model; got {type(content).__name__}"
        )
    try:
        return _ADAPTER.validate_python(content)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'content'}: {e['msg']}"
            for e in error.errors(include_url=False)[:5]
        )
        raise ContentError(f"this is no valid content: {problems}") from None
