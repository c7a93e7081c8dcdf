"""The interface of policies and their actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import (
    MOMENTS,
    AutonomyLevel,
    brief_repr,
    canonical_json,
    check_choice,
    check_dict,
    check_text,
    check_words,
    plain,
)

if TYPE_CHECKING:
    from tract_jupyter.policy.view import PolicyView

ORCHESTRATE: Final = "orchestrate"
"""The action that starts an orchestrator. All other actions are tool names."""
MOST_WANTED: Final = 1_000
"""The maximum number of actions from one evaluation."""
_LONGEST_ACTOR: Final = 100  # characters; `policy:NAME` is an actor, which has a column of 128


class PolicyWarning(UserWarning):
    """A failed policy or action, or an action without permission. The commit itself is not affected."""


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """An action that a policy requests.

    Attributes:
        action_type: the name of a tool, or `orchestrate`.
        params: the arguments of the tool.
        reason: the reason, for the reviewer and the event log.
        autonomy: the requested autonomy level. The ceiling of the tract limits it.
        about: the subject. While a proposal with the same subject is open, the policy makes no second one. The
            default is `action_type`.
        condition: the state that the action is for. An action that was executed, rejected, reported or failed is not
            repeated in the same condition. The default is the parameters.

    Raises:
        ContentError: a value is invalid.
    """

    action_type: str
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    autonomy: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    about: str = ""
    condition: str = ""

    def __post_init__(self) -> None:
        """Check the values and fill in the defaults."""
        for name in ("action_type", "reason", "about", "condition"):
            check_words(check_text(getattr(self, name), name))
        if not self.action_type:
            raise ContentError("action_type is empty; use the name of a tool, or 'orchestrate'")
        params = dict(self.params) if isinstance(self.params, Mapping) else self.params
        check_dict(params, "params")
        object.__setattr__(self, "params", plain(params))
        object.__setattr__(self, "autonomy", AutonomyLevel(self.autonomy))
        object.__setattr__(self, "about", self.about or self.action_type)
        object.__setattr__(self, "condition", self.condition or canonical_json(params))


@runtime_checkable
class Policy(Protocol):
    """A policy. The default of `priority` is 100, and the default of `fires_on` is `commit`."""

    name: str
    priority: int
    """Lower values are evaluated first."""
    fires_on: str
    """`commit`, `compile` or `turn`, or several of them."""

    def evaluate(self, view: PolicyView) -> PolicyAction | Sequence[PolicyAction] | None:
        """Return the necessary actions, or None.

        This method is called very often. It must be fast, must not call a model and must not write.

        Args:
            view: the current context.
        """
        ...


def moments_of(policy: Any) -> tuple[str, ...]:
    """Return the moments of a policy's evaluation."""
    moments = getattr(policy, "fires_on", "commit")
    values = (moments,) if isinstance(moments, str) else moments
    if not isinstance(values, list | tuple) or not values:
        raise ContentError(f"fires_on must be one of {', '.join(MOMENTS)}, not {brief_repr(moments)}")
    for moment in values:
        check_choice(moment, MOMENTS, "fires_on")
    return tuple(values)


def priority_of(policy: Any) -> int:
    """Return the priority of a policy."""
    priority = getattr(policy, "priority", 100)
    if type(priority) is not int:
        raise ContentError(f"the priority of a policy must be a whole number, not {brief_repr(priority)}")
    return priority


def check_name(name: object) -> str:
    """Return the name of a policy."""
    text = check_text(name, "the name of a policy")
    check_words(text)
    if not text.strip() or len(text) > _LONGEST_ACTOR or text != text.strip():
        raise ContentError(
            f"invalid policy name {brief_repr(text)}; use 1 to {_LONGEST_ACTOR} characters without spaces around them"
        )
    return text


def check_policy(policy: Any) -> None:
    """Check that an object is a policy."""
    if isinstance(policy, type) or not callable(getattr(policy, "evaluate", None)):
        raise ContentError(
            f"a policy must be an object with a name and a method evaluate(view), not {brief_repr(policy)}; for a "
            "built-in policy, pass its type, such as 'compress'"
        )
    check_name(getattr(policy, "name", None))
    priority_of(policy)
    moments_of(policy)


def wanted_of(value: object) -> tuple[PolicyAction, ...]:
    """Return the actions from the return value of `evaluate`."""
    if value is None:
        return ()
    if isinstance(value, PolicyAction):
        return (value,)
    if isinstance(value, list | tuple) and len(value) > MOST_WANTED:
        raise ContentError(
            f"evaluate returned {len(value):,} actions, but the maximum is {MOST_WANTED:,}; return some now, "
            "and the others at the next evaluation"
        )
    if isinstance(value, list | tuple) and all(isinstance(one, PolicyAction) for one in value):
        return tuple(value)
    raise ContentError(
        f"evaluate returned {brief_repr(value)}; return a PolicyAction, a list of them, or None"
    )
