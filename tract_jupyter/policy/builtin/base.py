"""What built-in policies share: they are values, and have a JSON form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tract_jupyter.exceptions import ContentError, nearest
from tract_jupyter.models import AutonomyLevel, Trigger, brief_repr, check_text
from tract_jupyter.policy.protocols import PolicyAction, check_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.policy.view import PolicyView


@dataclass(frozen=True, kw_only=True)
class BuiltinPolicy:
    """Base class of policies whose settings can be stored.

    Attributes:
        type_name: what it is stored as.
        forgets: True if what was done, rejected or told counts only until the policy wants nothing once; False if it
            counts until the condition is another one.
        name: what it goes by; `auto-<type>` if left out.
        priority: lower ones are looked at first; that of the type if left out.
        autonomy: how much happens without a person.
        cooldown: seconds after it fired in which it is not looked at.
    """

    type_name: ClassVar[str]
    forgets: ClassVar[bool] = True
    usual_priority: ClassVar[int] = 100
    fires_on: ClassVar[str] = "commit"

    name: str = ""
    priority: int = -1
    autonomy: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    cooldown: float = 0

    def __post_init__(self) -> None:
        """Fill in what was left out, and check the rest.

        Raises:
            ContentError: a setting is not valid.
        """
        object.__setattr__(self, "name", check_name(self.name or f"auto-{self.type_name}"))
        priority = self.usual_priority if self.priority == -1 else self.priority
        object.__setattr__(self, "priority", priority)
        object.__setattr__(self, "autonomy", AutonomyLevel(self.autonomy))
        self._check_number("priority", least=0, whole=True)
        self._check_number("cooldown", least=0)

    def evaluate(self, view: PolicyView) -> PolicyAction | Sequence[PolicyAction] | None:
        """Return what should be done now, or None."""
        raise NotImplementedError

    def to_config(self) -> dict[str, Any]:
        """Return its settings, with a JSON form."""
        return {
            one.name: _plain(getattr(self, one.name))
            for one in fields(self)
            if one.init and one.name != "name"
        }

    @classmethod
    def from_config(cls, name: str, config: Mapping[str, Any]) -> Self:
        """Make one of its settings.

        Raises:
            ContentError: there is no such setting, or one is not valid.
        """
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

    def _check_number(
        self, name: str, *, least: float, most: float | None = None, whole: bool = False
    ) -> None:
        given = getattr(self, name)
        fits = type(given) is int or (not whole and type(given) is float and given == given)  # noqa: PLR0124 # not NaN
        if not fits or given < least or (most is not None and given > most):
            kind = "a whole number" if whole else "a number"
            bound = f"of {least:g} or more" if most is None else f"from {least:g} to {most:g}"
            raise ContentError(
                f"{name} of a policy of type {self.type_name!r} is {kind} {bound}, not {brief_repr(given)}"
            )

    def _check_name(self, name: str) -> None:
        if not check_text(getattr(self, name), name):
            raise ContentError(f"{name} of a policy of type {self.type_name!r} is empty")

    def _check_names(self, name: str) -> None:
        given = getattr(self, name)
        if isinstance(given, str) or not isinstance(given, list | tuple | set | frozenset):
            raise ContentError(f"{name} is a list of texts, not {brief_repr(given)}")
        listed = sorted(given, key=str) if isinstance(given, set | frozenset) else given
        object.__setattr__(self, name, tuple(check_text(one, name) for one in listed))


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Trigger):
        return value.to_dict()
    return value.value if isinstance(value, AutonomyLevel) else value
