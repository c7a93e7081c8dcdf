"""What starts an orchestrator by itself: a number of commits, a number of tokens, a compile, a time that has passed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import AutonomyLevel, brief_repr
from tract_jupyter.policy.builtin.base import BuiltinPolicy
from tract_jupyter.policy.protocols import ORCHESTRATE, PolicyAction

if TYPE_CHECKING:
    from tract_jupyter.policy.view import PolicyView


@dataclass(frozen=True, slots=True)
class TriggerConfig:
    """When an orchestrator is started by itself; each of them does.

    Attributes:
        on_commit_count: after so many commits on a branch.
        on_token_threshold: once for each time that the context grows to so many tokens; or to such a part of the
            budget, as 0.8 (without a budget it never does).
        on_compile: before the context is compiled, if it has changed since.
        on_schedule_seconds: when so many seconds have passed since the last start, at the next commit, compile or turn;
            there is no thread that waits.
        autonomy: how much it does without a person; collaborative if left out.

    Raises:
        ContentError: one of them is not valid.
    """

    on_commit_count: int | None = None
    on_token_threshold: float | None = None
    on_compile: bool = False
    on_schedule_seconds: float | None = None
    autonomy: AutonomyLevel | None = None

    def __post_init__(self) -> None:
        """Check them."""
        count, most = self.on_commit_count, self.on_token_threshold
        if count is not None and (type(count) is not int or count < 1):
            raise ContentError(
                f"on_commit_count is a whole number of 1 or more, or None; not {brief_repr(count)}"
            )
        is_part = type(most) is float and 0 < most < 1
        if not (most is None or is_part or (type(most) is int and most >= 1)):
            raise ContentError(
                "on_token_threshold is a whole number of tokens, a part of the budget such as 0.8, or None; not "
                f"{brief_repr(most)}"
            )
        seconds = self.on_schedule_seconds
        if seconds is not None and (type(seconds) not in {int, float} or not 0 < seconds < float("inf")):
            raise ContentError(f"on_schedule_seconds is a number above 0, or None; not {brief_repr(seconds)}")
        if type(self.on_compile) is not bool:
            raise ContentError(f"on_compile is True or False, not {brief_repr(self.on_compile)}")
        if self.autonomy is not None:
            object.__setattr__(self, "autonomy", AutonomyLevel(self.autonomy))

    @property
    def is_empty(self) -> bool:
        """True if nothing starts it."""
        return not (
            self.on_commit_count or self.on_token_threshold or self.on_compile or self.on_schedule_seconds
        )

    def to_policy(self, name: str = "") -> OrchestratePolicy:
        """Return the policy that starts an orchestrator so.

        Raises:
            ContentError: nothing would ever start it.
        """
        return OrchestratePolicy(
            name=name,
            autonomy=self.autonomy or AutonomyLevel.COLLABORATIVE,
            on_commit_count=self.on_commit_count,
            on_token_threshold=self.on_token_threshold,
            on_compile=self.on_compile,
            on_schedule_seconds=self.on_schedule_seconds,
        )


@dataclass(frozen=True, kw_only=True)
class OrchestratePolicy(BuiltinPolicy):
    """Start an orchestrator; see `TriggerConfig` for when.

    Attributes:
        on_commit_count: see there, like the next three.
        on_token_threshold: see there.
        on_compile: see there.
        on_schedule_seconds: see there.
    """

    type_name: ClassVar[str] = ORCHESTRATE
    usual_priority: ClassVar[int] = 600

    on_commit_count: int | None = None
    on_token_threshold: float | None = None
    on_compile: bool = False
    on_schedule_seconds: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if self.trigger.is_empty:
            raise ContentError(
                "nothing would ever start this orchestrator: give on_commit_count, on_token_threshold, on_compile or "
                "on_schedule_seconds"
            )

    @property
    def trigger(self) -> TriggerConfig:
        """The settings, as they were given."""
        return TriggerConfig(
            self.on_commit_count,
            self.on_token_threshold,
            self.on_compile,
            self.on_schedule_seconds,
            self.autonomy,
        )

    @property
    def fires_on(self) -> tuple[str, ...]:  # type: ignore[override] # depends on the settings
        """The moments at which one of the conditions may have come true."""
        if self.on_schedule_seconds is not None:
            return ("commit", "compile", "turn")
        commit = ("commit",) if self.on_commit_count or self.on_token_threshold else ()
        return (*commit, "compile") if self.on_compile else commit

    def evaluate(self, view: PolicyView) -> list[PolicyAction] | None:
        """Return a start for each reason that there is now."""
        found = [self._counted(view), self._grown(view), self._compiled(view), self._due(view)]
        return [one for one in found if one is not None] or None

    def _counted(self, view: PolicyView) -> PolicyAction | None:
        count, branch = self.on_commit_count, view.branch
        if count is None or branch is None:
            return None
        counted: dict[str, Any] = view.memory.setdefault("counted", {})
        new = view.new
        here = view.generation
        base = counted.get(branch)
        if type(base) is not int:
            base = counted[branch] = here - (len(new) if new else 1)
        if base > here:  # the history was made shorter
            base = counted[branch] = here
        if here - base < count:
            return None
        return self._start(
            f"There are {here - base:,} new commits on {branch!r}.", "commits", f"{branch} {here}"
        )

    def _grown(self, view: PolicyView) -> PolicyAction | None:
        given, budget = self.on_token_threshold, view.max_tokens
        if given is None or (given < 1 and budget is None):
            return None
        most = given if given >= 1 or budget is None else given * budget
        if view.tokens < most:
            return None
        least = f"{most:,}" if given >= 1 else f"{given:.0%} of the budget"
        return self._start(
            f"The context has grown to {view.tokens:,} tokens, {least} or more.", "tokens", str(given)
        )

    def _compiled(self, view: PolicyView) -> PolicyAction | None:
        if not self.on_compile or view.moment != "compile" or view.head is None:
            return None
        return self._start("The context is about to be compiled.", "compile", view.head)

    def _due(self, view: PolicyView) -> PolicyAction | None:
        seconds = self.on_schedule_seconds
        if seconds is None:
            return None
        since = view.memory.get("started")
        if not isinstance(since, str):  # it begins to count now
            view.memory["started"] = view.now.isoformat()
            return None
        if view.now - datetime.fromisoformat(since) < timedelta(seconds=seconds):
            return None
        return self._start(
            f"{seconds:,g} seconds have passed since {since[:19]}.", "schedule", view.now.isoformat()
        )

    def fired(self, view: PolicyView) -> None:
        """Begin to count anew; called after it was started."""
        if self.on_schedule_seconds is not None:
            view.memory["started"] = view.now.isoformat()
        if self.on_commit_count is not None and view.branch is not None:
            view.memory.setdefault("counted", {})[view.branch] = view.generation

    def _start(self, reason: str, about: str, condition: str) -> PolicyAction:
        return self._wants(ORCHESTRATE, {}, reason, about=about, condition=condition)
