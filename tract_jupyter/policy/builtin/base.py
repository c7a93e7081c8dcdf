"""The base of the built-in policies. They are values with a JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from tract_jupyter.exceptions import ContentError, nearest
from tract_jupyter.models import AutonomyLevel, Trigger, check_fields
from tract_jupyter.policy.protocols import PolicyAction, check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.policy.view import PolicyView


Count = Annotated[int, Field(ge=1)]
"""A whole number, 1 or more."""
Seconds = Annotated[float, Field(ge=0)]
Days = Annotated[float, Field(ge=0, le=36_500)]
Name = Annotated[str, Field(min_length=1)]
Names = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class BuiltinPolicy:
    """Base class of policies with storable settings.

    Attributes:
        type_name: the type in the store.
        forgets: True if executed, rejected or reported actions may repeat after an evaluation without a request.
            False if they repeat only in a different condition.
        name: the policy's name. The default is `auto-<type>`.
        priority: lower values are evaluated first. The default depends on the type.
        autonomy: the requested autonomy level.
        cooldown: the seconds without evaluation after a firing.
    """

    type_name: ClassVar[str]
    forgets: ClassVar[bool] = True
    usual_priority: ClassVar[int] = 100
    fires_on: ClassVar[str] = "commit"

    name: str = ""
    priority: Annotated[int, Field(ge=0)] = -1
    autonomy: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    cooldown: Seconds = 0

    def __post_init__(self) -> None:
        """Fill in the defaults and check the settings."""
        object.__setattr__(self, "name", check_name(self.name or f"auto-{self.type_name}"))
        priority = self.usual_priority if self.priority == -1 else self.priority
        object.__setattr__(self, "priority", priority)
        object.__setattr__(self, "autonomy", AutonomyLevel(self.autonomy))
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, list | set | frozenset):
                listed = value if isinstance(value, list) else sorted(value, key=str)
                object.__setattr__(self, one.name, tuple(listed))
        check_fields(self, ContentError, self.type_name)

    def evaluate(self, view: PolicyView) -> PolicyAction | Sequence[PolicyAction] | None:
        """Return the necessary actions, or None."""
        raise NotImplementedError

    def to_config(self) -> dict[str, Any]:
        """Return the settings in JSON form."""
        return {
            one.name: _plain(getattr(self, one.name))
            for one in fields(self)
            if one.init and one.name != "name"
        }

    @classmethod
    def from_config(cls, name: str, config: Mapping[str, Any]) -> Self:
        """Create a policy from its settings."""
        known = [one.name for one in fields(cls) if one.init and one.name != "name"]
        for key in config:
            if key not in known:
                raise ContentError(
                    f"a policy of type {cls.type_name!r} has no setting {key!r}.{nearest(str(key), known)} It has "
                    f"{', '.join(known)}"
                )
        return cls(name=name, **config)

    def _wants(
        self,
        action_type: str,
        params: Mapping[str, Any],
        reason: str,
        *,
        about: str = "",
        condition: str = "",
    ) -> PolicyAction:
        return PolicyAction(action_type, params, reason, self.autonomy, about, condition)


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Trigger):
        return value.to_dict()
    return value.value if isinstance(value, AutonomyLevel) else value
