"""Actions: what can be done about a pending, by Python, a dict, a tool call or a click.

An action decides, or changes what is decided about: its outermost call goes through the gate, which stores it. Reading
goes past it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from tract_jupyter.hooks import introspection

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_MARK = "_tract_action"


def action(method: F) -> F:
    """Make a method of a pending one of its actions. Arguments are validated against its type hints."""
    name = method.__name__

    @functools.wraps(method)
    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        parameters = introspection.action_parameters(type(self), name)
        arguments = parameters.validate(parameters.bind(args, kwargs))
        return self.through_gate(name, arguments, lambda: method(self, **arguments))

    return reading(act)  # type: ignore[return-value]


def reading(method: F) -> F:
    """Offer a method that only reads; nothing is stored about its calls."""
    setattr(method, _MARK, True)
    return method


def offered(cls: type) -> frozenset[str]:
    """The names of a class's actions and readings."""
    return frozenset(name for name in dir(cls) if getattr(getattr(cls, name), _MARK, False))
