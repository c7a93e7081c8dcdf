"""What an orchestrator's model is told about the context that it looks after: where it stands, and no contents.

Nothing here is a score. Tokens are counted; the rest is for the model to judge. The text does not grow with the
context: contents are read with tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import AutonomyLevel, one_line
from tract_jupyter.prompts import MEANS, filled

if TYPE_CHECKING:
    from tract_jupyter.models import CommitInfo, StatusInfo

_MOST_BRANCHES: Final = 20
_LONGEST_NAME: Final = 60
_LONGEST_MESSAGE: Final = 80
_LONGEST_REASON: Final = 1_000
_LONGEST_TASK: Final = 4_000


@dataclass(frozen=True)
class Assessment:
    """Where a context stands, for an orchestrator's model.

    Attributes:
        tract_id: of the context.
        status: its size and place.
        commits: the newest ones, newest first.
        branches: their names; the current one is in `status`.
        cost: what requests of this session have cost, in words; and the budget, if there is one.
        reason: why the orchestrator was started, as a policy or a person said.
        task: what the context is for, as a person said.
        autonomy: the level that counts.
    """

    tract_id: str
    status: StatusInfo
    commits: tuple[CommitInfo, ...]
    branches: tuple[str, ...]
    cost: str
    reason: str
    task: str
    autonomy: AutonomyLevel

    @classmethod
    def of(
        cls, tract: Any, reason: str, task: str, autonomy: AutonomyLevel, recent: int, cassette: Any
    ) -> Assessment:
        """Look at a tract.

        Args:
            tract: the tract.
            reason: see `Assessment`, like the next two.
            task: see there.
            autonomy: see there.
            recent: how many of the newest commits.
            cassette: of that tract. A replay costs nothing, and gives the costs of the recording.

        Raises:
            StoreError: the store cannot be read.
        """
        return cls(
            tract.family.agent_id,
            tract.status(),
            tuple(tract.log(recent)) if recent else (),
            tuple(branch.name for branch in tract.list_branches()),
            cassette.draw(f"costs at {tract.head}", lambda: _costs(tract)),
            reason,
            task,
            autonomy,
        )

    def __str__(self) -> str:
        status, shown = self.status, self.branches[:_MOST_BRANCHES]
        more = len(self.branches) - len(shown)
        branches = ", ".join(one_line(name, _LONGEST_NAME) for name in shown) + (
            f" and {more} more" if more else ""
        )
        lines = [
            f"Context {self.tract_id}, branch {status.branch}",
            f"- tokens: {self.pressure}",
            f"- {status.message_count:,} messages, {status.commit_count:,} commits",
            f"- branches: {branches}",
            f"- requests to models in this session: {self.cost}",
            f"- autonomy: {MEANS[self.autonomy]}",
        ]
        if self.commits:
            lines += ["", "Newest commits (no contents; the texts are their lines in the log):", self.recent]
        if self.reason:
            lines += ["", f"You were called because: {self.reason[:_LONGEST_REASON]}"]
        if self.task:
            lines += ["", f"What the context is for: {self.task[:_LONGEST_TASK]}"]
        return "\n".join(lines)

    @property
    def pressure(self) -> str:
        """How many tokens there are, of how many."""
        tokens, most = self.status.token_count, self.status.max_tokens
        if most is None:
            return f"{tokens:,}; no budget is set"
        return f"{tokens:,} of {most:,} ({tokens / most:.0%})"

    @property
    def summary(self) -> str:
        """Where the context stands, in a line."""
        return f"tokens: {self.pressure}; {self.status.message_count:,} messages on {self.status.branch}"

    @property
    def recent(self) -> str:
        """The newest commits, a line for each."""
        return "\n".join(
            f"- {one.commit_hash[:8]} {one.operation.value} {one.content_type}, {one.token_count:,} tokens, "
            f"{one.priority.value}: {one_line(one.message, _LONGEST_MESSAGE)!r}"
            for one in self.commits
        )

    def filled(self, template: str) -> str:
        """Return a text with what it names in braces."""
        most = self.status.max_tokens
        return filled(template, {
            "token_count": f"{self.status.token_count}",
            "max_tokens": "no limit" if most is None else f"{most}",
            "pct": "0" if most is None else f"{100 * self.status.token_count / most:.0f}",
            "commit_count": f"{self.status.commit_count}",
            "branch_name": self.status.branch,
            "recent_summary": self.recent,
            "task_context": self.task,
        })  # fmt: skip


def _costs(tract: Any) -> str:
    report = tract.costs()
    return str(report) if report.budget is None else f"{report}; budget: {report.budget}"


def state_of(tract: Any) -> list[Any]:
    """Return what makes a context another one than it was: what is sent of it, its branches, tags and tools."""
    context = tract.compile()
    return [
        tract.current_branch,
        [[one.commit_hash, one.role, one.content, one.priority.value] for one in context.messages],
        sorted(branch.name for branch in tract.list_branches()),
        sorted((one.name, one.count, one.description) for one in tract.tags.list()),
        sorted(tract.operations.registry.operation_names),
    ]
