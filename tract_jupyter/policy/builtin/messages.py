"""Built-in policies about messages: compress when it is full, pin what must stay, remove what nothing leads to."""

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

    It wants the same again once the context is a tenth of the budget larger, or was below the threshold meanwhile.

    Attributes:
        threshold: the part of the budget, from 0 to 1, from which on it fires. Without a budget it never does.
        keep_recent: the newest messages that it leaves as they are.
        target_tokens: how long each summary should be.
        summary_content: the summary itself; the configured model writes it if left out.
    """

    type_name: ClassVar[str] = "compress"
    usual_priority: ClassVar[int] = 200
    fires_on: ClassVar[str] = "compile"

    threshold: Annotated[float, Field(ge=0.01, le=1)] = 0.9
    keep_recent: Annotated[int, Field(ge=0)] = 4
    target_tokens: Count | None = None
    summary_content: str | None = None

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a compression of all but the newest messages, if it is time."""
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
            return None  # there is nothing that a compression would change
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
    """Pin messages of some types, and those in which a pattern is found, unless somebody gave them a priority.

    In a new process, and where it was off, it looks at the whole branch once.

    Attributes:
        pin_types: the content types.
        patterns: regular expressions, looked for in the text.
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
        """Return an annotation of each message that is to be pinned."""
        new = view.new
        found: Sequence[Entry | Step]
        if new is None:
            found = [step for step, is_annotated in view.steps() if not is_annotated and self._fits(step)]
        else:
            found = [entry for entry in new if self._fits(entry) and not view.is_annotated(entry.commit_hash)]
        return [self._pinning(one) for one in found[:_MOST_AT_ONCE]] or None

    def _fits(self, step: Entry | Step) -> bool:
        """Return True if it is to be pinned, and nothing but its own making says how much it matters."""
        if step.operation != APPEND:
            return False
        is_typed = step.content_type in self.pin_types
        if not is_typed and not self.patterns:
            return False
        own = step.priority or default_priority(step.content_type)
        if own in {Priority.PINNED, Priority.SKIP}:
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
            else "It fits a pattern."
        )
        return self._wants("annotate", params, reason, about=f"pin {step.commit_hash}")


@dataclass(frozen=True, kw_only=True)
class GCPolicy(BuiltinPolicy):
    """Remove commits for good that nothing leads to, when there are many that `gc` would remove.

    What is young, or can be undone to, is not counted, as `gc` keeps it. It looks again after a fifth of the history
    (200 commits at least), or an hour. It wants the same again when there are so many more.

    Attributes:
        max_dead_commits: from how many on it fires.
        orphan_retention_days: how old they must be, in days.
    """

    type_name: ClassVar[str] = "gc"
    usual_priority: ClassVar[int] = 450

    max_dead_commits: Count = 50
    orphan_retention_days: Days = 7

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return a garbage collection, if it would remove enough."""
        dead = view.garbage(self.orphan_retention_days)
        if dead < self.max_dead_commits:
            return None
        return self._wants(
            "gc", {"orphan_retention_days": self.orphan_retention_days},
            f"Nothing leads to {dead:,} commits older than {self.orphan_retention_days:g} days.",
            condition=str(dead // self.max_dead_commits),
        )  # fmt: skip
