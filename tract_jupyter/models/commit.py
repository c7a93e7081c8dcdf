"""Descriptions of commits, branches and the state of a tract."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.content import Priority

if TYPE_CHECKING:
    from datetime import datetime


class CommitOperation(StrEnum):
    """The effect of a commit on the context.

    `append` adds a message, `edit` replaces an earlier one in its place, `annotate` gives an earlier one another
    priority, `merge` joins another history.
    """

    APPEND = "append"
    EDIT = "edit"
    ANNOTATE = "annotate"
    MERGE = "merge"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ContentError(f"{value!r} is not an operation of a commit; use {' or '.join(cls)}")


class CommitInfo(NamedTuple):
    """One commit.

    `token_count` counts its text alone. `context_tokens` and `context_messages` describe the whole compiled context at
    this commit. `priority` is the effective one at the position from which the commit was read.
    """

    commit_hash: str
    tract_id: str
    parent_hash: str | None
    content_hash: str
    content_type: str
    operation: CommitOperation
    edit_target: str | None
    message: str
    token_count: int
    token_counter: str
    generation: int
    """The number of earlier commits."""
    created_at: datetime
    metadata: dict[str, Any]
    generation_config: dict[str, Any]
    tags: tuple[str, ...] = ()
    priority: Priority = Priority.NORMAL
    retention: dict[str, Any] | None = None
    """The parts that a compression must keep: `instructions`, `match_patterns`, `match_mode`."""
    merge_parents: tuple[str, ...] = ()
    """The second and later parents, of a merge."""
    tools_hash: str | None = None
    """The content hash of the tools that were offered from here on."""
    context_tokens: int = 0
    """Of the whole context here. Like `token_count` as it was counted when this was committed, and never corrected."""
    context_messages: int = 0

    @property
    def parents(self) -> tuple[str, ...]:
        """All parents, the branch's own first."""
        return (*((self.parent_hash,) if self.parent_hash else ()), *self.merge_parents)

    @property
    def short_hash(self) -> str:
        """The first eight digits, for display."""
        return self.commit_hash[:8]

    def __repr__(self) -> str:
        tokens = show_tokens(self.token_count, self.token_counter)
        kind = f"{self.operation} of {self.content_type}"
        return f"<CommitInfo {self.short_hash}: {kind}, {tokens} tokens, {self.message!r}>"


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch and the commit it points at (None before its first commit)."""

    name: str
    commit_hash: str | None
    is_current: bool


class Correction(NamedTuple):
    """The factor between a provider's count and the estimate. A corrected figure is still an estimate."""

    model: str
    factor: float

    def of(self, tokens: int) -> int:
        """Return an estimate, corrected by the factor."""
        return round(tokens * self.factor)


APPROXIMATE = "approximate"


def show_tokens(count: int, source: str) -> str:
    """Return the number with thousands separators, and `≈` before an estimate."""
    return f"{'≈' if source == APPROXIMATE else ''}{count:,}"
