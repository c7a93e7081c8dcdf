"""Built-in policies for messages: compress a full context, pin important messages, remove unreachable commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import Field

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import AutonomyLevel, Priority, default_priority, patterns, text_of
from tract_jupyter.policy.builtin.base import BuiltinPolicy, Count, Days, Names
from tract_jupyter.storage import APPEND, from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.policy.protocols import PolicyAction
    from tract_jupyter.policy.view import PolicyView
    from tract_jupyter.storage import Entry, Step

_MOST_AT_ONCE: Final = 100


@dataclass(frozen=True, kw_only=True)
class CompressPolicy(BuiltinPolicy):
    """Compress when the context is nearly as large as its budget.

    The policy fires again after the context grows by a tenth of the budget, or after it was below the threshold.

    Attributes:
        threshold: the fraction of the budget, from 0 to 1, at which the policy fires. Without a budget it never
            fires.
        keep_recent: the number of newest messages that stay unchanged.
        target_tokens: the length of each summary.
        summary_content: the summary itself. By default, the configured model writes it.
    """

    type_name: ClassVar[str] = "compress"
    usual_priority: ClassVar[int] = 200
    fires_on: ClassVar[str] = "compile"

    threshold: Annotated[float, Field(ge=0.01, le=1)] = 0.9
    keep_recent: Annotated[int, Field(ge=0)] = 4
    target_tokens: Count | None = None
    summary_content: str | None = None

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a compression of all but the newest messages, if one is due."""
        most = view.max_tokens
        if not most or view.branch is None:
            return None
        tokens = view.tokens
        if tokens < self.threshold * most:
            return None
        last = ""
        for commit_hash, is_kept in view.messages_before(self.keep_recent):
            last = last or commit_hash
            if not is_kept:
                break
        else:
            return None  # a compression would change nothing
        params: dict[str, object] = {"to_commit": last}
        if self.target_tokens is not None:
            params["target_tokens"] = self.target_tokens
        if self.summary_content is not None:
            params["content"] = self.summary_content
        return self._wants(
            "compress", params,
            f"The context has {tokens:,} of {most:,} tokens ({tokens / most:.0%}).",
            condition=f"{view.branch} {int(10 * tokens / most)}",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PinPolicy(BuiltinPolicy):
    """Pin messages of some types, and messages that match a pattern, unless an annotation set their priority.

    In a new process, and after it was off, the policy examines the whole branch once.

    Attributes:
        pin_types: the content types.
        patterns: regular expressions, searched in the text.
    """

    type_name: ClassVar[str] = "pin"
    forgets: ClassVar[bool] = False

    autonomy: AutonomyLevel = AutonomyLevel.AUTONOMOUS
    pin_types: Names = ("instruction", "session")
    patterns: Names = ()

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        for pattern in self.patterns:
            wrong = patterns.problem_of(pattern)
            if wrong is not None:
                raise ContentError(f"patterns of a policy of type 'pin': {wrong}")

    def evaluate(self, view: PolicyView) -> list[PolicyAction] | None:
        """Return an annotation for each message to pin."""
        new = view.new
        matches: Sequence[Entry | Step]
        if new is None:
            matches = [step for step, is_annotated in view.steps() if not is_annotated and self._fits(step)]
        else:
            matches = [
                entry for entry in new if self._fits(entry) and not view.is_annotated(entry.commit_hash)
            ]
        return [self._pinning(one) for one in matches[:_MOST_AT_ONCE]] or None

    def _fits(self, step: Entry | Step) -> bool:
        """Return True if the message should be pinned and its own priority is neither pinned nor skip."""
        if step.operation != APPEND:
            return False
        is_typed = step.content_type in self.pin_types
        if not is_typed and not self.patterns:
            return False
        priority = step.priority or default_priority(step.content_type)
        if priority in {Priority.PINNED, Priority.SKIP}:
            return False
        return is_typed or self._matches(step)

    def _matches(self, step: Entry | Step) -> bool:
        text = text_of(from_json(step.payload.decode(), dict))
        return any(next(patterns.matches(one, text), None) is not None for one in self.patterns)

    def _pinning(self, step: Entry | Step) -> PolicyAction:
        params = {"target_hash": step.commit_hash, "priority": "pinned", "reason": f"policy {self.name}"}
        reason = (
            f"Its type is {step.content_type}."
            if step.content_type in self.pin_types
            else "It matches a pattern."
        )
        return self._wants("annotate", params, reason, about=f"pin {step.commit_hash}")


@dataclass(frozen=True, kw_only=True)
class GCPolicy(BuiltinPolicy):
    """Permanently remove unreachable commits if `gc` would remove many.

    Young commits and commits that undo needs do not count, because `gc` keeps them. The policy checks again after
    commits equal to a fifth of the history (at least 200), or after an hour. It fires again after `max_dead_commits`
    more commits become removable.

    Attributes:
        max_dead_commits: the number of commits at which the policy fires.
        orphan_retention_days: their minimum age in days.
    """

    type_name: ClassVar[str] = "gc"
    usual_priority: ClassVar[int] = 450

    max_dead_commits: Count = 50
    orphan_retention_days: Days = 7

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a garbage collection if it would remove enough commits."""
        dead = view.garbage(self.orphan_retention_days)
        if dead < self.max_dead_commits:
            return None
        return self._wants(
            "gc", {"orphan_retention_days": self.orphan_retention_days},
            f"{dead:,} commits older than {self.orphan_retention_days:g} days are unreachable.",
            condition=str(dead // self.max_dead_commits),
        )  # fmt: skip
