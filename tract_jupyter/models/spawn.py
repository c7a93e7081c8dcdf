"""Agents of one store: their parents, their inherited context, and their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import SessionError
from tract_jupyter.models.checks import check_text, listed
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.protocols import Summarizer

AGENT_MARK: Final = ":"
"""The separator between a tract and a branch in the id of a deployed agent. No tract id contains it."""


class Inheritance(StrEnum):
    """The context that a child starts with.

    `head_snapshot` is the parent's compiled context as one instruction. `full_clone` is the parent's replayed history.
    `selective` is a part of this history. `branch` is the parent's own history, for a deployed agent. `nothing` is for
    the conversation of an orchestrator, and no spawned child has it.
    """

    HEAD_SNAPSHOT = "head_snapshot"
    FULL_CLONE = "full_clone"
    SELECTIVE = "selective"
    BRANCH = "branch"
    NOTHING = "nothing"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise SessionError(
            f"{value!r} is not a kind of inheritance; use head_snapshot, full_clone or selective"
        )


@dataclass(frozen=True, slots=True)
class SpawnInfo:
    """A child and its origin. A deployed agent has the parent's tract, and its branch is `child_branch`."""

    parent_tract_id: str
    parent_commit_hash: str | None
    child_tract_id: str
    child_branch: str | None
    purpose: str
    inheritance: Inheritance
    display_name: str
    created_at: datetime

    @property
    def child_id(self) -> str:
        """The argument of `Session.get_tract`."""
        return agent_id(self.child_tract_id, self.child_branch)


@dataclass(frozen=True, slots=True)
class TractInfo:
    """A tract of a store and its position. `head` is None before its first commit."""

    tract_id: str
    display_name: str
    created_at: datetime
    branch: str | None
    head: str | None
    commit_count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened in one tract of a store: `kind` is `commit`, or the type of an event."""

    created_at: datetime
    tract_id: str
    kind: str
    text: str
    commit_hash: str | None = None


@dataclass(frozen=True, slots=True)
class CollapseResult:
    """A child's outcome as a commit of another tract. Tokens are counts of whole messages."""

    commit: CommitInfo
    child_id: str
    child_head: str
    child_tokens: int
    """Of the child's whole context."""

    @property
    def commit_hash(self) -> str:
        """The argument of `Session.get_child_tract`."""
        return self.commit.commit_hash

    def __str__(self) -> str:
        child = f"{self.child_id[:8]} ({self.child_tokens:,} tokens)"
        return f"collapsed {child} into {self.commit.short_hash}: {self.commit.message}"


@dataclass(frozen=True, slots=True)
class Curation:
    """The reduction of an agent's branch before it starts. The steps run in this order.

    Hashes, prefixes or branches name the commits, as in the parent.

    Args:
        keep_tags: skip all messages that have none of these tags. Pinned messages stay.
        drop: skip these messages.
        compact_before: replace all messages before this one with one summary, except pinned messages.
        summary: the summary's text, or a function that writes it.
        reorder: messages to put first, in this order. The others follow in their old order.

    Raises:
        SessionError: a part is of the wrong type, or a summary has no messages to replace.
    """

    keep_tags: Sequence[str] = ()
    drop: Sequence[str] = ()
    compact_before: str | None = None
    summary: str | Summarizer | None = None
    reorder: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the parts."""
        for name in ("keep_tags", "drop", "reorder"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise SessionError(f"{name} of a curation must be a list of strings, not {brief_repr(value)}")
            texts = listed(value, f"{name} of a curation", error=SessionError)
            object.__setattr__(self, name, tuple(texts))  # the original may change, or be an iterator
        if self.compact_before is not None:
            check_text(self.compact_before, "compact_before of a curation", error=SessionError)
        if not (self.summary is None or isinstance(self.summary, str) or callable(self.summary)):
            raise SessionError(
                f"summary of a curation must be a string, or a function that writes it, not {brief_repr(self.summary)}"
            )
        if (self.compact_before is None) != (self.summary is None):
            raise SessionError(
                "compact_before and summary must be set together: the replaced commits and the summary"
            )

    @staticmethod
    def of(curation: Curation | Mapping[str, Any] | None) -> Curation:
        """Return a curation. Convert a dict if necessary.

        Raises:
            SessionError: the value is not a curation, has unknown parts, or a part has the wrong type.
        """
        if curation is None or isinstance(curation, Curation):
            return curation or Curation()
        if not isinstance(curation, Mapping):
            raise SessionError(
                f'a curation must be a dict such as {{"keep_tags": ["fact"]}}, or a Curation, not '
                f"{brief_repr(curation)}"
            )
        known = [field.name for field in fields(Curation)]
        unknown = [str(name) for name in curation if name not in known]
        if unknown:
            raise SessionError(f"a curation has no {', '.join(unknown)}; it has {', '.join(known)}")
        return Curation(**curation)


def agent_id(tract_id: str, branch: str | None) -> str:
    """Return the id of a tract, or of an agent that was deployed on one of its branches."""
    return tract_id if branch is None else f"{tract_id}{AGENT_MARK}{branch}"
