"""Agents of one store: their parents, their inherited context, and their outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import SessionError

if TYPE_CHECKING:
    from datetime import datetime

    from tract_jupyter.models.commit import CommitInfo

AGENT_MARK: Final = ":"
"""The separator between a tract and a branch in an id. No tract id contains it."""


class Inheritance(StrEnum):
    """The context that a child starts with.

    `head_snapshot` is the parent's compiled context as one instruction. `full_clone` is the parent's replayed history.
    `nothing` is for the conversation of an orchestrator or an agent, and no spawned child has it.
    """

    HEAD_SNAPSHOT = "head_snapshot"
    FULL_CLONE = "full_clone"
    NOTHING = "nothing"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise SessionError(f"{value!r} is not a kind of inheritance; use head_snapshot or full_clone")


@dataclass(frozen=True, slots=True)
class SpawnInfo:
    """A child and its origin. `child_tract_id` is the argument of `Session.get_tract`."""

    parent_tract_id: str
    parent_commit_hash: str | None
    child_tract_id: str
    purpose: str
    inheritance: Inheritance
    display_name: str
    created_at: datetime


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
class CollapseResult:
    """A child's outcome as a commit of another tract. Tokens are counts of whole messages."""

    commit: CommitInfo
    child_id: str
    child_head: str
    child_tokens: int
    """Of the child's whole context."""

    @property
    def commit_hash(self) -> str:
        """The hash of the commit with the result."""
        return self.commit.commit_hash

    def __str__(self) -> str:
        child = f"{self.child_id[:8]} ({self.child_tokens:,} tokens)"
        return f"collapsed {child} into {self.commit.short_hash}: {self.commit.message}"


def agent_id(tract_id: str, branch: str | None) -> str:
    """Return the id of a tract, or of one of its branches that has its own HEAD."""
    return tract_id if branch is None else f"{tract_id}{AGENT_MARK}{branch}"
