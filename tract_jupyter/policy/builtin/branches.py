"""Built-in policies about branches: set a tangent apart, merge what is finished, follow another branch, put away."""

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
"""Begins the names of the branches that `BranchPolicy` makes."""
_LOOKS_AGAIN: Final = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class BranchPolicy(BuiltinPolicy):
    """Make a branch when the newest messages keep changing their type, as a conversation does that wanders off.

    It makes none from a branch that it made, and wants the same again once the messages were alike meanwhile.

    Attributes:
        content_type_window: how many messages it looks at, from 2 to 50.
        switch_threshold: how many changes of type among them make it fire.
        ignore_transitions: pairs of types between which a change, either way, is none: `dialogue:tool_io`.
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
        """Return a new branch, if the types change often enough."""
        types = view.recent_types(self.content_type_window)
        if len(types) <= self.switch_threshold:
            return None
        ignored: set[frozenset[str]] = self._ignored  # type: ignore[attr-defined] # made of a setting
        switches = sum(one != two and frozenset((one, two)) not in ignored for one, two in pairwise(types))
        branch = view.branch
        if switches < self.switch_threshold or branch is None or branch.startswith(TANGENT):
            return None
        name = f"{TANGENT}{branch}/{view.now:%Y%m%d-%H%M%S}"
        reason = f"The newest {len(types)} messages change their type {switches} times: {', '.join(types)}."
        return self._wants("branch", {"name": name}, reason, condition=branch)


@dataclass(frozen=True, kw_only=True)
class MergePolicy(BuiltinPolicy):
    """Merge the current branch into another one when work on it seems finished; you stay where you are.

    How long nothing was committed is measured at the next moment, from the last commit before that. It wants the same
    again after as many further commits.

    Attributes:
        target_branch: the branch to merge into.
        completion_commits: how many messages and edits of its own the branch must have.
        idle_seconds: for how long nothing was committed.
    """

    type_name: ClassVar[str] = "merge"
    forgets: ClassVar[bool] = False
    usual_priority: ClassVar[int] = 350

    target_branch: Name = "main"
    completion_commits: Count = 5
    idle_seconds: Seconds = 300

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a merge, if the branch has commits and nothing was committed for some time."""
        branch = view.branch
        if branch is None or branch == self.target_branch or view.generation < self.completion_commits:
            return None
        idle = view.idle_seconds
        if idle < self.idle_seconds:
            return None
        ahead = view.ahead_of(self.target_branch)
        if (
            ahead < self.completion_commits or ahead == view.generation + 1
        ):  # all of it: there is no such branch
            return None
        return self._wants(
            "merge_into", {"target_branch": self.target_branch, "source_branch": branch},
            f"{branch!r} has {ahead:,} commits of its own, and nothing was committed for {idle:,.0f} s.",
            about=f"merge {branch}", condition=f"{branch} {view.generation // self.completion_commits}",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RebasePolicy(BuiltinPolicy):
    """Put the current branch onto another one when that has moved on.

    It looks at the other branch every five commits, and wants the same again when there are as many more.

    Attributes:
        target_branch: the branch to follow.
        divergence_commits: how many messages and edits of that the current branch lacks.
    """

    type_name: ClassVar[str] = "rebase"
    usual_priority: ClassVar[int] = 400

    target_branch: Name = "main"
    divergence_commits: Count = 20

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a rebase, if the branch is far enough behind."""
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
    """Put branches away on which nothing was committed for long: each is named anew, with a prefix.

    The current branch, `main` and what is put away already stay. It looks once an hour, and wants the same again once
    the branch was committed to.

    Attributes:
        stale_days: for how many days nothing was committed.
        min_commits: the fewest commits that a branch must have, with those that it began with.
        archive_prefix: begins the new name.
        keep: branches that stay, whatever their age.
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
        """Return an archiving of each stale branch."""
        now = view.now
        if now < self._next.get("look", now):
            return None
        self._next["look"] = now + _LOOKS_AGAIN
        return [
            self._wants(
                "archive", {"branch": one.name, "name": self.archive_prefix + one.name},
                f"Nothing was committed on {one.name!r} since {one.committed_at:%Y-%m-%d}.",
                about=f"archive {one.name}", condition=one.tip,
            )
            for one in view.stale_branches(self.stale_days)
            if one.commits >= self.min_commits and not self._stays(one.name)
        ] or None  # fmt: skip

    def _stays(self, branch: str) -> bool:
        return branch.startswith(self.archive_prefix) or branch in self.keep
