"""The policy of an operation that fires automatically."""

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
    """Add, update or remove the policy of an operation, according to its active version.

    Args:
        policies: the policies of the tract.
        name: the operation's name.
        spec: its active version, or None if it is no longer active.
    """
    policy = f"operation-{name}"
    if spec is not None and spec.fires_on is not None and not spec.fires_in_runs:
        policies.add("operation", name=policy, operation=name, condition=spec.fires_on.to_dict())
    elif any(row.name == policy for row in policies.list()):
        policies.remove(policy)
