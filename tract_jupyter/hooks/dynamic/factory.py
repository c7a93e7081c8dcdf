"""From a spec to a class of pendings, with the compiled actions as its methods."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.dynamic.action import compile_action
from tract_jupyter.hooks.dynamic.check import check_spec
from tract_jupyter.hooks.dynamic.pending import DynamicPending
from tract_jupyter.hooks.marks import gated

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.dynamic.spec import OperationSpec


def make_dynamic_pending_class(spec: OperationSpec) -> type[DynamicPending]:
    """Check a spec, compile its actions and return the class of its pendings.

    Raises:
        SpecError: the spec is wrong; nothing was made.
    """
    spec = check_spec(spec)
    actions = {name: compile_action(action, operation=spec.name) for name, action in spec.actions.items()}
    members: dict[str, Any] = {name: _method(name, action) for name, action in actions.items()}
    members |= {
        "__doc__": spec.description,
        "__module__": __name__,
        "spec": spec,
        "spec_hash": spec.spec_hash,
        "field_parameters": spec.parameters(),
    }
    camel = "".join(part.capitalize() for part in spec.name.split("_"))
    return type(f"Pending{camel}", (DynamicPending,), members)


def _method(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: DynamicPending, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self.run_action(action, args, kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = action.__doc__
    signature: inspect.Signature = action.__signature__  # type: ignore[attr-defined]
    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[self_parameter, *list(signature.parameters.values())[1:]]
    )
    method.parameters = action.parameters  # type: ignore[attr-defined]
    return gated(method)  # by `run_action`
