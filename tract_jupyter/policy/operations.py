"""The policy of an operation that says when it fires by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.operations import FiringCondition
from tract_jupyter.policy.builtin.base import BuiltinPolicy

if TYPE_CHECKING:
    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.policy.policies import Policies
    from tract_jupyter.policy.protocols import PolicyAction
    from tract_jupyter.policy.view import PolicyView

_TOOL: Final = "fire_"


@dataclass(frozen=True, kw_only=True)
class OperationPolicy(BuiltinPolicy):
    """Fire an active operation when its `fires_on` holds; it is added and removed with the operation.

    The condition is that of the version that is active, which a person approved. One that says something else is not
    looked at.

    Attributes:
        operation: its name.
        condition: when, as the operation says it.
    """

    type_name: ClassVar[str] = "operation"
    usual_priority: ClassVar[int] = 500

    operation: str = ""
    condition: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if not isinstance(self.operation, str) or not self.operation:
            raise ContentError("the policy of an operation names it: operation='citation_check'")
        if FiringCondition.from_dict(self.condition or {}).hook is not None:
            raise ContentError(
                "an operation with a hook is a part of runs and has no policy; leave the hook out"
            )

    @cached_property
    def when(self) -> FiringCondition:
        """The condition, read."""
        return FiringCondition.from_dict(self.condition or {})

    @property
    def fires_on(self) -> str:  # type: ignore[override] # depends on the settings
        """The moment at which it is looked at."""
        return self.when.moment

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return the firing, if it is time and this version is the active one."""
        when = self.when
        if view.head is None:
            return None
        told, condition = [], [str(view.head)]
        if when.tokens is not None:
            if view.tokens < when.tokens:
                return None
            told.append(f"the context has {view.tokens:,} tokens, {when.tokens:,} or more")
            condition = [str(when.tokens)]  # once, until there are fewer
        if when.content_type is not None:
            if view.recent_types(1) != [when.content_type]:
                return None
            told.append(f"the newest message is of type {when.content_type!r}")
            condition = [*condition, str(view.head)]
        if when.commits is not None:
            here = view.generation + 1
            last = view.memory.get("fired_at")
            if (
                type(last) is not int or last > here
            ):  # it begins to count now, or the history was made shorter
                new = view.new
                last = view.memory["fired_at"] = here - (len(new) if new else 1)
            if here // when.commits <= last // when.commits:
                return None
            told.append(f"there are {here:,} commits, and it fires at every {when.commits:,}")
            condition = [*condition, str(here // when.commits)]
        operations = view.tract.operations  # type: ignore[attr-defined] # each tract has them
        spec = operations.registry.reviewed_spec(self.operation)  # last, as it takes longest
        if spec is None or spec.fires_on != when:
            return None
        reason = f"{self.operation} fires {when}." if not told else f"{self.operation}: {', '.join(told)}."
        return self._wants(_TOOL + self.operation, when.fields, reason, condition=" ".join(condition))

    def fired(self, view: PolicyView) -> None:
        """Begin to count anew; called after it was fired."""
        if self.when.commits is not None:
            view.memory["fired_at"] = view.generation + 1


def follow(policies: Policies, name: str, spec: OperationSpec | None) -> None:
    """Have a policy fire an operation as the version says that is active now; none, if it says nothing.

    Args:
        policies: of the tract.
        name: the operation's.
        spec: its version; None if it is not active any more.
    """
    policy = f"operation-{name}"
    if spec is not None and spec.fires_on is not None and not spec.fires_in_runs:
        policies.add("operation", name=policy, operation=name, condition=spec.fires_on.to_dict())
    elif any(row.name == policy for row in policies.list()):
        policies.remove(policy)
