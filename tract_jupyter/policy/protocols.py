"""What a policy is, and what it can want."""

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
    from tract_jupyter.toolkit import Permission, ToolDefinition

ORCHESTRATE: Final = "orchestrate"
"""The action that starts an orchestrator; every other one is the name of a tool."""
MOST_WANTED: Final = 1_000
"""Actions that a policy can want at once."""
_LONGEST_ACTOR: Final = 100  # characters; `policy:NAME` is an actor, which has a column of 128


class PolicyWarning(UserWarning):
    """A policy failed, or its action did, or it tells what it was not allowed to do. What was committed stands."""


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """Something that a policy wants done.

    Attributes:
        action_type: the name of a tool, or `orchestrate`.
        params: what the tool is called with.
        reason: why, for whoever decides and for the journal.
        autonomy: how much of it happens without a person; the ceiling of the tract holds it down.
        about: what it concerns. While a proposal about the same is open, the policy makes no second one; the
            action's type if left out.
        condition: the state of things that it is for. What was done, rejected, told or has failed is not wanted again
            while this stays the same; the parameters if left out.

    Raises:
        ContentError: one of them is of the wrong form.
    """

    action_type: str
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    autonomy: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    about: str = ""
    condition: str = ""

    def __post_init__(self) -> None:
        """Check it, and fill in what was left out."""
        for name in ("action_type", "reason", "about", "condition"):
            check_words(check_text(getattr(self, name), name))
        if not self.action_type:
            raise ContentError("an action names a tool, or 'orchestrate'; action_type is empty")
        given = dict(self.params) if isinstance(self.params, Mapping) else self.params
        check_dict(given, "params")
        object.__setattr__(self, "params", plain(given))
        object.__setattr__(self, "autonomy", AutonomyLevel(self.autonomy))
        object.__setattr__(self, "about", self.about or self.action_type)
        object.__setattr__(self, "condition", self.condition or canonical_json(given))


@runtime_checkable
class Policy(Protocol):
    """A policy. `priority` is 100 and `fires_on` is `commit` where a class does not say them."""

    name: str
    priority: int
    """Lower ones are looked at first."""
    fires_on: str
    """`commit`, `compile` or `turn`; or several of them."""

    def evaluate(self, view: PolicyView) -> PolicyAction | Sequence[PolicyAction] | None:
        """Return what should be done now, or None.

        It is called very often: it must be fast, asks no model and writes nothing.

        Args:
            view: the context as it is.
        """
        ...


class Ceiling(Protocol):
    """The part of `t.autonomy` that policies are held under."""

    def effective(self, *levels: AutonomyLevel | str) -> AutonomyLevel:
        """Return the level that counts."""
        ...

    def permission(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> Permission:
        """Return whether somebody who acts at a level may call a tool, must ask first, or may not."""
        ...

    def why_not(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> str:
        """Return why they may not."""
        ...


def moments_of(policy: Any) -> tuple[str, ...]:
    """Return the moments at which a policy is looked at.

    Raises:
        ContentError: there is no such moment.
    """
    given = getattr(policy, "fires_on", "commit")
    listed = (given,) if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not listed:
        raise ContentError(f"fires_on is one of {', '.join(MOMENTS)}, not {brief_repr(given)}")
    for moment in listed:
        check_choice(moment, MOMENTS, "fires_on")
    return tuple(listed)


def priority_of(policy: Any) -> int:
    """Return the priority of a policy.

    Raises:
        ContentError: it is no whole number.
    """
    given = getattr(policy, "priority", 100)
    if type(given) is not int:
        raise ContentError(f"the priority of a policy is a whole number, not {brief_repr(given)}")
    return given


def check_name(name: object) -> str:
    """Return the name of a policy.

    Raises:
        ContentError: it cannot be one.
    """
    given = check_text(name, "the name of a policy")
    check_words(given)
    if not given.strip() or len(given) > _LONGEST_ACTOR or given != given.strip():
        raise ContentError(
            f"a policy's name has 1 to {_LONGEST_ACTOR} characters and no spaces around it; not {brief_repr(given)}"
        )
    return given


def check_policy(policy: Any) -> None:
    """Check that something is a policy.

    Raises:
        ContentError: it is none.
    """
    if isinstance(policy, type) or not callable(getattr(policy, "evaluate", None)):
        raise ContentError(
            f"a policy is an object with a name and a method evaluate(view), not {brief_repr(policy)}; built-in ones "
            "are added by their type, such as 'compress'"
        )
    check_name(getattr(policy, "name", None))
    priority_of(policy)
    moments_of(policy)


def wanted_of(given: object) -> tuple[PolicyAction, ...]:
    """Return what a policy wants, as it returned it.

    Raises:
        ContentError: it is neither an action, several, nor None.
    """
    if given is None:
        return ()
    if isinstance(given, PolicyAction):
        return (given,)
    if isinstance(given, list | tuple) and len(given) > MOST_WANTED:
        raise ContentError(
            f"evaluate returned {len(given):,} actions, and a policy can want {MOST_WANTED:,} at once; return some, "
            "and the others at the next look"
        )
    if isinstance(given, list | tuple) and all(isinstance(one, PolicyAction) for one in given):
        return tuple(given)
    raise ContentError(
        f"evaluate returned {brief_repr(given)}; it returns a PolicyAction, a list of them, or None"
    )
