"""What a child hands back: its outcome as a content, and where it came from as metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import CompressionError, SessionError
from tract_jupyter.models.compression import CompressGroup
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tract_jupyter.history.spawn import Family
    from tract_jupyter.history.summaries import Source
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.protocols import Summarizer

_TRACT, _HEAD, _BRANCH = "collapse_source_tract_id", "collapse_source_head", "collapse_source_branch"


class Origin(NamedTuple):
    """The child that a commit came from."""

    tract_id: str
    branch: str | None


def check_outcome(content: object, summarizer: Summarizer | None) -> None:
    """Check that there is one way to the child's outcome.

    Raises:
        SessionError: there is none, both are given, or the summarizer is no function.
    """
    if (content is None) == (summarizer is None):
        raise SessionError(
            "a collapse needs what the child found out: give content, or a summarizer, not both; or configure a model, "
            "which writes it"
        )
    if not (summarizer is None or callable(summarizer)):
        raise SessionError(
            f"a summarizer is a function that writes the outcome, not {brief_repr(summarizer)}"
        )


def outcome_of(context: CompiledContext, source: Source) -> str:
    """Have the outcome of a child written, from all that it said.

    Raises:
        SessionError: no text was good; nothing was changed.
    """
    group = CompressGroup((context.head or "",), tuple(context.messages))
    try:
        return source.texts([group])[0]
    except CompressionError as error:
        raise SessionError(f"the outcome of the child is empty, or not good: {error}") from error


def as_content(given: str | dict[str, Any] | BaseModel) -> dict[str, Any] | BaseModel:
    """Return the outcome as a content; a text becomes an output.

    Raises:
        SessionError: it is empty.
    """
    if isinstance(given, str) and not given.strip():
        raise SessionError("the outcome of the child is empty; nothing was changed")
    return {"content_type": "output", "text": given} if isinstance(given, str) else given


def metadata_of(child: Family, context: CompiledContext) -> dict[str, Any]:
    """What the parent's commit says about where it came from."""
    branch = {} if child.branch is None else {_BRANCH: child.branch}
    return {_TRACT: child.tract_id, _HEAD: context.head, **branch}


def source_of(metadata: dict[str, Any]) -> Origin | None:
    """The child that a commit came from; None if it is no outcome of one."""
    tract_id, branch = metadata.get(_TRACT), metadata.get(_BRANCH)
    return None if tract_id is None else Origin(tract_id, branch)
