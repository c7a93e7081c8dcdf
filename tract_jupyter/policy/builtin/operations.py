"""The policy of an operation that says when it fires by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.operations import FiringCondition
from tract_jupyter.policy.builtin.trigger import TriggeredPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models import Trigger
    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.policy.policies import Policies
    from tract_jupyter.policy.protocols import PolicyAction
    from tract_jupyter.policy.view import PolicyView

_TOOL: Final = "fire_"


@dataclass(frozen=True, kw_only=True)
class OperationPolicy(TriggeredPolicy):
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
        if not self.operation:
            raise ContentError("the policy of an operation names it: operation='citation_check'")
        if self.when.hook is not None:
            raise ContentError(
                "an operation with a hook is a part of runs and has no policy; leave the hook out"
            )

    @cached_property
    def when(self) -> FiringCondition:
        """The condition, read."""
        return FiringCondition.from_dict(self.condition or {})

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The condition."""
        return (self.when,)

    def evaluate(self, view: PolicyView) -> PolicyAction | None:
        """Return the firing, if it is time and this version is the active one."""
        cause = self._cause(self.when, view)
        if cause is None:
            return None
        operations = view.tract.operations  # type: ignore[attr-defined] # each tract has them
        spec = operations.registry.reviewed_spec(self.operation)  # last, as it takes longest
        if spec is None or spec.fires_on != self.when:
            return None
        reason = f"{self.operation}: {cause.reason}."
        return self._wants(_TOOL + self.operation, self.when.fields, reason, condition=cause.condition)


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
