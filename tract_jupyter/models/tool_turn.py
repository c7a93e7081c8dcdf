"""A model's calls of tools together with their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tract_jupyter.models.commit import CommitInfo


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """A message that calls tools, and the answers there are, in order."""

    call: CommitInfo
    results: tuple[CommitInfo, ...]
    tool_names: tuple[str, ...]
    """The tools it calls, in order."""

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits of call and answers."""
        return (self.call.commit_hash, *(result.commit_hash for result in self.results))


@dataclass(frozen=True, slots=True)
class ToolDropResult:
    """The turns that are now skipped."""

    turns: tuple[ToolTurn, ...]
    tokens: int
    """How many tokens less the context takes."""

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits that are now skipped."""
        return tuple(commit_hash for turn in self.turns for commit_hash in turn.commits)


@dataclass(frozen=True, slots=True)
class ToolCompactResult:
    """The answers that are shorter now."""

    commits: tuple[str, ...]
    """The answers."""
    edits: tuple[str, ...]
    """The edit of each."""
    tokens: int
    """How many tokens less the context takes."""
