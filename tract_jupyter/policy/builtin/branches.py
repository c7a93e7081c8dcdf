"""Built-in policies for branches: branch off a tangent, merge finished work, follow another branch, archive."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import Field

from tract_jupyter.policy.builtin.base import BuiltinPolicy, Count, Days, Name, Names, Seconds

if TYPE_CHECKING:
    from tract_jupyter.policy.protocols import PolicyAction
    from tract_jupyter.policy.view import PolicyView

TANGENT: Final = "tangent/"
"""The prefix of the branch names from `BranchPolicy`."""
_LOOKS_AGAIN: Final = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class BranchPolicy(BuiltinPolicy):
    """Make a branch if the newest messages keep changing their type, a sign of a digression.

    The policy makes no branch from its own branches. It fires again only after the changes of type fell below the
    threshold.

    Attributes:
        content_type_window: the number of messages to examine, from 2 to 50.
        switch_threshold: the number of type changes among them that triggers the policy.
        ignore_transitions: pairs of types whose changes do not count in either direction, such as `dialogue:tool_io`.
    """

    type_name: ClassVar[str] = "branch"
    usual_priority: ClassVar[int] = 300

    content_type_window: Annotated[int, Field(ge=2, le=50)] = 5
    switch_threshold: Count = 4
    ignore_transitions: Names = ("dialogue:tool_io",)

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        ignored = {frozenset(pair.split(":")) for pair in self.ignore_transitions}
        object.__setattr__(self, "_ignored", ignored)

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a new branch if the types change often enough."""
        types = view.recent_types(self.content_type_window)
        if len(types) <= self.switch_threshold:
            return None
        ignored: set[frozenset[str]] = self._ignored  # type: ignore[attr-defined] # set in __post_init__
        switches = sum(one != two and frozenset((one, two)) not in ignored for one, two in pairwise(types))
        branch = view.branch
        if switches < self.switch_threshold or branch is None or branch.startswith(TANGENT):
            return None
        name = f"{TANGENT}{branch}/{view.now:%Y%m%d-%H%M%S}"
        reason = f"The newest {len(types)} messages change their type {switches} times: {', '.join(types)}."
        return self._wants("branch", {"name": name}, reason, condition=branch)


@dataclass(frozen=True, kw_only=True)
class MergePolicy(BuiltinPolicy):
    """Merge the current branch into another one if work on it seems finished. The current branch stays checked out.

    The idle time is measured at the next moment, from the last commit before it. The policy fires again after
    `completion_commits` further commits.

    Attributes:
        target_branch: the branch to merge into.
        completion_commits: the minimum number of messages and edits that only this branch has.
        idle_seconds: the minimum time without a commit.
    """

    type_name: ClassVar[str] = "merge"
    forgets: ClassVar[bool] = False
    usual_priority: ClassVar[int] = 350

    target_branch: Name = "main"
    completion_commits: Count = 5
    idle_seconds: Seconds = 300

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a merge if the branch has enough commits and was idle long enough."""
        branch = view.branch
        if branch is None or branch == self.target_branch or view.generation < self.completion_commits:
            return None
        idle = view.idle_seconds
        if idle < self.idle_seconds:
            return None
        ahead = view.ahead_of(self.target_branch)
        if ahead < self.completion_commits or ahead == view.generation + 1:
            return None  # too few commits, or all of them: the target does not exist
        return self._wants(
            "merge_into", {"target_branch": self.target_branch, "source_branch": branch},
            f"{branch!r} has {ahead:,} separate commits, and no new one for {idle:,.0f} s.",
            about=f"merge {branch}", condition=f"{branch} {view.generation // self.completion_commits}",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RebasePolicy(BuiltinPolicy):
    """Rebase the current branch onto another one that has new commits.

    The policy checks the other branch every five commits. It fires again after `divergence_commits` more commits
    there.

    Attributes:
        target_branch: the branch to follow.
        divergence_commits: the number of its messages and edits that the current branch lacks.
    """

    type_name: ClassVar[str] = "rebase"
    usual_priority: ClassVar[int] = 400

    target_branch: Name = "main"
    divergence_commits: Count = 20

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a rebase if the branch is far enough behind."""
        branch = view.branch
        if branch is None or branch == self.target_branch or view.head is None:
            return None
        behind = view.behind(self.target_branch)
        if behind < self.divergence_commits:
            return None
        return self._wants(
            "rebase", {"target_branch": self.target_branch},
            f"{branch!r} lacks {behind:,} commits of {self.target_branch!r}.",
            about=f"rebase {branch}", condition=f"{branch} {behind // self.divergence_commits}",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ArchivePolicy(BuiltinPolicy):
    """Archive stale branches: each gets a new name with a prefix.

    The current branch, `main` and archived branches are exempt. The policy checks once an hour. It fires again for a
    branch after a new commit on it.

    Attributes:
        stale_days: the number of days without a commit.
        min_commits: the minimum number of commits of a branch, including inherited ones.
        archive_prefix: the prefix of the new name.
        keep: branches that are never archived.
    """

    type_name: ClassVar[str] = "archive"
    forgets: ClassVar[bool] = False
    usual_priority: ClassVar[int] = 500
    fires_on: ClassVar[str] = "compile"

    stale_days: Days = 7
    min_commits: Count = 3
    archive_prefix: Name = "archive/"
    keep: Names = ("main",)
    _next: dict[str, datetime] = field(default_factory=dict, init=False, repr=False, compare=False)

    def evaluate(self, view: PolicyView) -> list[PolicyAction] | None:
        """Return an archive action for each stale branch."""
        now = view.now
        if now < self._next.get("look", now):
            return None
        self._next["look"] = now + _LOOKS_AGAIN
        return [
            self._wants(
                "archive", {"branch": one.name, "name": self.archive_prefix + one.name},
                f"{one.name!r} has no new commit since {one.committed_at:%Y-%m-%d}.",
                about=f"archive {one.name}", condition=one.tip,
            )
            for one in view.stale_branches(self.stale_days)
            if one.commits >= self.min_commits and not self._stays(one.name)
        ] or None  # fmt: skip

    def _stays(self, branch: str) -> bool:
        return branch.startswith(self.archive_prefix) or branch in self.keep
