"""What a class of pendings offers, and what of it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_MARK = "_tract_offer"


def gated(method: F) -> F:
    """Offer a method that goes through the gate by itself."""
    setattr(method, _MARK, "decides")
    return method


def reading(method: F) -> F:
    """Offer a method that only reads: nothing is stored about its calls, and it has no button."""
    setattr(method, _MARK, "reads")
    return method


def offered(cls: type) -> frozenset[str]:
    """The names of all that a class offers."""
    return frozenset(name for name in dir(cls) if hasattr(getattr(cls, name), _MARK))


def decides(cls: type, name: str) -> bool:
    """Whether something that is offered decides or changes something, rather than reads."""
    return bool(getattr(getattr(cls, name), _MARK) == "decides")
