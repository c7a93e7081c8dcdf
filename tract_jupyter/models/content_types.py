"""The eight content types as pydantic models, and their attachments: the rules for a valid content."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.attachment import LONGEST_NAME, MEDIA_TYPES, MOST_FILES, kind_of
from tract_jupyter.models.content import Role  # noqa: TC001 # pydantic reads it
from tract_jupyter.models.text import one_line, size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.attachment import Kind


def _name(name: str) -> str:
    if one_line(name, LONGEST_NAME) != name or not name:
        raise ValueError(f"a name must have 1 to {LONGEST_NAME} printable characters in one line")
    return name


def _media_type(media_type: str) -> str:
    if media_type not in MEDIA_TYPES:
        raise ValueError(f"this type cannot be attached; use one of {', '.join(sorted(MEDIA_TYPES))}")
    return media_type


class Attachment(BaseModel):
    """A file of a message. The store has its bytes, once for each hash.

    Attributes:
        name: the path within its workspace, as one printable line.
        media_type: the type of its content.
        sha256: the hash of its bytes, 64 hex digits.
        size: the size in bytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    name: Annotated[str, AfterValidator(_name)]
    media_type: Annotated[str, AfterValidator(_media_type)]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(gt=0)

    @property
    def kind(self) -> Kind:
        """The kind: an image, a PDF or a text."""
        return kind_of(self.media_type)

    def __str__(self) -> str:
        return f"[{self.name}, {self.media_type}, {size_text(self.size)}]"


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


def validate_content(content: BaseModel | dict[str, Any]) -> Content:
    """Return a content of one of the eight types as its model."""
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
    return _validated_against_all(content)


def _validated_against_all(content: Content | dict[str, Any]) -> Content:
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
