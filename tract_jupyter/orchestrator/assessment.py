"""The description of a context for an orchestrator's model: its size and state, and the log lines of new commits.

It has no score. It counts tokens, and the model judges the rest. Its size does not depend on the context's size. The
log line of a commit without a message is the start of its text; the model reads the rest of the contents with tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import AutonomyLevel, one_line
from tract_jupyter.prompts import MEANS, NEWEST_COMMITS, filled

if TYPE_CHECKING:
    from tract_jupyter.models import CommitInfo, StatusInfo

_MOST_BRANCHES: Final = 20
_LONGEST_NAME: Final = 60
_LONGEST_MESSAGE: Final = 80
_LONGEST_REASON: Final = 1_000
_LONGEST_TASK: Final = 4_000


@dataclass(frozen=True)
class Assessment:
    """The state of a context, for an orchestrator's model.

    Attributes:
        tract_id: the id of the context.
        status: its size and position.
        commits: its newest commits, newest first.
        branches: the names of its branches. `status` has the current one.
        cost: the cost of this session's requests, in words, with the budget if there is one.
        reason: the reason of the run, from a policy or the user.
        task: the purpose of the context, in the user's words.
        autonomy: the effective level.
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
        """Assess a tract.

        Args:
            tract: the tract.
            reason: see `Assessment`.
            task: see `Assessment`.
            autonomy: see `Assessment`.
            recent: the number of newest commits.
            cassette: the tract's cassette. A replay has no cost, so it uses the recorded cost.
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
            lines += ["", NEWEST_COMMITS, self.recent]
        if self.reason:
            lines += ["", f"You were called because: {self.reason[:_LONGEST_REASON]}"]
        if self.task:
            lines += ["", f"Purpose of the context: {self.task[:_LONGEST_TASK]}"]
        return "\n".join(lines)

    @property
    def pressure(self) -> str:
        """The number of tokens, and the limit."""
        tokens, most = self.status.token_count, self.status.max_tokens
        if most is None:
            return f"{tokens:,}; no budget is set"
        return f"{tokens:,} of {most:,} ({tokens / most:.0%})"

    @property
    def summary(self) -> str:
        """The state of the context, in a line."""
        return f"tokens: {self.pressure}; {self.status.message_count:,} messages on {self.status.branch}"

    @property
    def recent(self) -> str:
        """The newest commits, one per line."""
        return "\n".join(
            f"- {one.commit_hash[:8]} {one.operation.value} {one.content_type}, {one.token_count:,} tokens, "
            f"{one.priority.value}: {one_line(one.message, _LONGEST_MESSAGE)!r}"
            for one in self.commits
        )

    def filled(self, template: str) -> str:
        """Return a template with its names in braces replaced by their values."""
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
    """Return the parts of a context whose change is a change of the context: messages, branches, tags and tools."""
    context = tract.compile()
    return [
        tract.current_branch,
        [[one.commit_hash, one.role, one.content, one.priority.value] for one in context.messages],
        sorted(branch.name for branch in tract.list_branches()),
        sorted((one.name, one.count, one.description) for one in tract.tags.list()),
        sorted(tract.operations.registry.operation_names),
    ]
