"""What a child hands back: its outcome as a content, and where it came from as metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import SessionError
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from tract_jupyter.history.spawn import Family
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.protocols import Summarizer

_TRACT, _HEAD, _BRANCH = "collapse_source_tract_id", "collapse_source_head", "collapse_source_branch"


class Source(NamedTuple):
    """The child that a commit came from."""

    tract_id: str
    branch: str | None


def outcome(
    content: str | dict[str, Any] | BaseModel | None,
    summarizer: Summarizer | None,
    summarize: Callable[[Summarizer], str],
) -> dict[str, Any] | BaseModel:
    """The content of a child's outcome; a text becomes an output.

    Args:
        content: the outcome.
        summarizer: writes it instead.
        summarize: has it done.

    Raises:
        SessionError: there is none, both are given, or the summarizer is no function.
    """
    if (content is None) == (summarizer is None):
        raise SessionError(
            "a collapse needs what the child found out: give content, or a summarizer, not both"
        )
    if not (summarizer is None or callable(summarizer)):
        raise SessionError(
            f"a summarizer is a function that writes the outcome, not {brief_repr(summarizer)}"
        )
    given = content if summarizer is None else summarize(summarizer)
    if isinstance(given, str) and given.strip():
        return {"content_type": "output", "text": given}
    if given is None or isinstance(given, str):
        raise SessionError("the outcome of the child is empty; nothing was changed")
    return given


def metadata_of(child: Family, context: CompiledContext) -> dict[str, Any]:
    """What the parent's commit says about where it came from."""
    branch = {} if child.branch is None else {_BRANCH: child.branch}
    return {_TRACT: child.tract_id, _HEAD: context.head, **branch}


def source_of(metadata: dict[str, Any]) -> Source | None:
    """The child that a commit came from; None if it is no outcome of one."""
    tract_id, branch = metadata.get(_TRACT), metadata.get(_BRANCH)
    return None if tract_id is None else Source(tract_id, branch)
