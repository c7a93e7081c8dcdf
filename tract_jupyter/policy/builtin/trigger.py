"""Policies with a `Trigger`: one starts an orchestrator, the other fires an operation."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 # for check_fields
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import MOMENTS, Trigger, brief_repr
from tract_jupyter.operations import FiringCondition
from tract_jupyter.policy.builtin.base import BuiltinPolicy
from tract_jupyter.policy.protocols import ORCHESTRATE, PolicyAction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.policy.policies import Policies
    from tract_jupyter.policy.view import PolicyView

_NEWS = {
    "commit": "there is a new commit",
    "compile": "the context is about to be compiled",
    "turn": "a turn has ended",
}


class _Cause(NamedTuple):
    """The reason why a trigger holds now, and the state of the context that allows only one start."""

    reason: str
    condition: str


@dataclass(frozen=True, kw_only=True)
class TriggeredPolicy(BuiltinPolicy):
    """Base class of policies with triggers. Commits and seconds count from the last action."""

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The triggers. One of them is enough."""
        raise NotImplementedError

    @property
    def fires_on(self) -> tuple[str, ...]:  # type: ignore[override] # depends on the settings
        """The moments at which one of the triggers is checked."""
        moments = {moment for one in self.triggers for moment in one.moments}
        return tuple(moment for moment in MOMENTS if moment in moments)

    def fired(self, view: PolicyView) -> None:
        """Restart the counters. Called after the action."""
        view.memory["since"] = view.now.isoformat()
        if view.branch is not None:
            view.memory.setdefault("counted", {})[view.branch] = view.generation

    def _cause(self, trigger: Trigger, view: PolicyView) -> _Cause | None:
        """Return the cause if all conditions of a trigger hold."""
        if view.head is None or view.moment not in trigger.moments:
            return None
        causes = []
        for given, check in (
            (trigger.commits, _check_commits),
            (trigger.seconds, _check_seconds),
            (trigger.tokens, _check_tokens),
            (trigger.content_type, _check_type),
        ):
            cause = None if given is None else check(trigger, view)
            if cause is not None:
                causes.append(cause)
            elif given is not None:
                return None
        causes = causes or [_Cause(_NEWS[view.moment], view.head)]
        return _Cause(" and ".join(one.reason for one in causes), " ".join(one.condition for one in causes))


def _check_tokens(trigger: Trigger, view: PolicyView) -> _Cause | None:
    threshold, budget = trigger.tokens or 0, view.max_tokens
    if threshold < 1 and budget is None:
        return None
    if view.tokens < (threshold if threshold >= 1 or budget is None else threshold * budget):
        return None
    return _Cause(
        f"the context has {view.tokens:,} tokens, which is {trigger.tokens_text} or more", str(threshold)
    )


def _check_type(trigger: Trigger, view: PolicyView) -> _Cause | None:
    if view.recent_types(1) != [trigger.content_type]:
        return None
    return _Cause(f"the newest message is of type {trigger.content_type!r}", str(view.head))


def _check_commits(trigger: Trigger, view: PolicyView) -> _Cause | None:
    branch, here, every = view.branch, view.generation, trigger.commits or 1
    if branch is None:
        return None
    counted: dict[str, Any] = view.memory.setdefault("counted", {})
    since = counted.get(branch)
    if type(since) is not int:
        since = counted[branch] = here - (len(view.new) if view.new else 1)
    if since > here:  # the history became shorter
        since = counted[branch] = here
    reached = here - (here - since) % every
    if reached == since:
        return None
    return _Cause(f"there are {here - since:,} new commits on {branch!r}", f"{branch} {reached}")


def _check_seconds(trigger: Trigger, view: PolicyView) -> _Cause | None:
    seconds = trigger.seconds or 0
    since = view.memory.get("since")
    if not isinstance(since, str):  # start the clock now
        view.memory["since"] = view.now.isoformat()
        return None
    passed = view.now - datetime.fromisoformat(since)
    if passed < timedelta(seconds=seconds):
        return None
    condition = f"{since} {passed // timedelta(seconds=seconds)}"
    return _Cause(f"{seconds:,g} seconds have passed since {since[:19]}", condition)


@dataclass(frozen=True, kw_only=True)
class OrchestratePolicy(TriggeredPolicy):
    """Start an orchestrator.

    Attributes:
        when: the triggers. Each of them starts it. A setting may contain the parts of one trigger instead:
            `t.policies.add("orchestrate", commits=50)`.
    """

    type_name: ClassVar[str] = ORCHESTRATE
    usual_priority: ClassVar[int] = 600

    when: Sequence[Trigger] = ()

    def __post_init__(self) -> None:
        """Check the settings."""
        if not isinstance(self.when, list | tuple):
            raise ContentError(
                f"when must be a list such as [Trigger(commits=50)], not {brief_repr(self.when)}"
            )
        object.__setattr__(self, "when", tuple(map(_read, self.when)))
        super().__post_init__()
        if not self.when:
            raise ContentError(
                "the orchestrator has no trigger, so it would never start; set commits, tokens, seconds, content_type "
                "or moment, or when=[Trigger(...), ...]"
            )

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The triggers. One of them is enough."""
        return self.when

    @classmethod
    def from_config(cls, name: str, config: Mapping[str, Any]) -> Self:
        """Create a policy from its settings, or from the parts of one trigger."""
        parts = {one.name: config[one.name] for one in fields(Trigger) if one.name in config}
        rest = {key: value for key, value in config.items() if key not in parts}
        return super().from_config(name, {**rest, "when": [Trigger(**parts)]} if parts else rest)

    def evaluate(self, view: PolicyView) -> list[PolicyAction]:
        """Return a start for each trigger that holds now."""
        causes = [(one, self._cause(one, view)) for one in self.triggers]
        return [
            self._wants(
                ORCHESTRATE, {}, f"{cause.reason[0].upper()}{cause.reason[1:]}.", about=str(one),
                condition=cause.condition,
            )
            for one, cause in causes
            if cause is not None
        ]  # fmt: skip


def _read(value: Any) -> Trigger:
    if isinstance(value, Trigger):
        return value
    try:
        return Trigger(**value)
    except TypeError:
        raise ContentError(
            f"invalid trigger {brief_repr(value)}; use Trigger(commits=..., tokens=...)"
        ) from None


_TOOL: Final = "fire_"


@dataclass(frozen=True, kw_only=True)
class OperationPolicy(TriggeredPolicy):
    """Fire an active operation when its `fires_on` holds. The policy is added and removed with the operation.

    The condition must be the one in the active version, which the user approved. Otherwise the policy does nothing.

    Attributes:
        operation: the operation's name.
        condition: the operation's firing condition, as a dict.
    """

    type_name: ClassVar[str] = "operation"
    usual_priority: ClassVar[int] = 500

    operation: str = ""
    condition: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if not self.operation:
            raise ContentError(
                "the policy needs the name of an operation, such as operation='citation_check'"
            )
        if self.when.hook is not None:
            raise ContentError("an operation with a hook belongs to runs and has no policy; omit the hook")

    @cached_property
    def when(self) -> FiringCondition:
        """The parsed condition."""
        return FiringCondition.from_dict(self.condition or {})

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The condition."""
        return (self.when,)

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return the firing if it is due and the active version has this condition."""
        cause = self._cause(self.when, view)
        if cause is None:
            return None
        operations = view.tract.operations  # type: ignore[attr-defined] # every tract has them
        spec = operations.registry.reviewed_spec(self.operation)  # last, because it is the slowest check
        if spec is None or spec.fires_on != self.when:
            return None
        reason = f"{self.operation}: {cause.reason}."
        return self._wants(_TOOL + self.operation, self.when.fields, reason, condition=cause.condition)


def follow(policies: Policies, name: str, spec: OperationSpec | None) -> None:
    """Add, update or remove the policy of an operation, according to its active version."""
    policy = f"operation-{name}"
    if spec is not None and spec.fires_on is not None and not spec.fires_in_runs:
        policies.add("operation", name=policy, operation=name, condition=spec.fires_on.to_dict())
    elif any(row.name == policy for row in policies.list()):
        policies.remove(policy)
