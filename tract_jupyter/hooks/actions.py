"""Actions: what can be done about a pending, by Python, a dict, a tool call or a click.

An action decides, or changes what is decided about: its outermost call goes through the gate, which stores it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from tract_jupyter.hooks import introspection
from tract_jupyter.hooks.marks import gated
from tract_jupyter.storage.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def action(method: F) -> F:
    """Make a method of a pending one of its actions. Arguments are validated against its type hints."""
    name = method.__name__

    @functools.wraps(method)
    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        parameters = introspection.action_parameters(type(self), name)
        arguments = parameters.validate(parameters.bind(args, kwargs))
        call = functools.partial(method, self, **arguments)
        if not self.is_instant(name):  # it may take long, and is noted however it ends
            call = functools.partial(interruptible, call)
        return self.through_gate(name, arguments, call)

    return gated(act)  # type: ignore[return-value]
