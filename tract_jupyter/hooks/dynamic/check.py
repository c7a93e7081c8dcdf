"""What a spec must satisfy before anything is made of it. Nothing is compiled here, and nothing runs."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationExistsError, SpecError
from tract_jupyter.hooks.dynamic.spec import spec_to_json
from tract_jupyter.hooks.pending import Pending

if TYPE_CHECKING:
    from tract_jupyter.hooks.dynamic.spec import ActionDef, OperationSpec

BUILTIN_OPERATIONS = frozenset({"compress", "gc", "rebase", "merge", "policy", "tool_result", "generate"})
"""Hookable operations that the package itself fires; a dynamic one cannot have their names."""

_MEMBERS = frozenset(name for name in dir(Pending) if not name.startswith("_")) | frozenset(Pending.__annotations__)
_DECISIONS = frozenset({"approve", "reject", "pass_through", "fields"})
_UNHANDLED = ("approve", "ask")


def check_spec(spec: OperationSpec) -> None:
    """Check names, types, defaults and shape.

    Raises:
        OperationExistsError: the name is that of a built-in operation.
        SpecError: anything else; the message says where and what to do.
    """
    if spec.name in BUILTIN_OPERATIONS:
        raise OperationExistsError(f"{spec.name!r} is a built-in operation; choose another name")
    check_name("operation", spec.name, reserved=_DECISIONS)
    for name in spec.fields:
        check_name("field", name, reserved=frozenset({"fields"}))
    if spec.unhandled not in _UNHANDLED:
        raise SpecError(f"unhandled is {' or '.join(map(repr, _UNHANDLED))}, not {spec.unhandled!r}")
    for key, action in spec.actions.items():
        _check_action(key, action)
    spec_to_json(spec)
    spec.parameters()


def _check_action(key: str, action: ActionDef) -> None:
    check_name("action", key, reserved=_MEMBERS)
    if action.name != key:
        raise SpecError(f"action {key!r} is called {action.name!r} inside; use one name")
    for name in action.params:
        check_name(f"parameter of {key!r}", name, reserved=frozenset({"pending", "self"}))
    action.parameters()
    if not isinstance(action.code, str) or not action.code.strip():
        raise SpecError("there is no code; write at least 'pending.approve()'", action=key)


def check_name(what: str, name: object, *, reserved: frozenset[str]) -> None:
    """Check that a name can be one.

    Raises:
        SpecError: it is no identifier, a Python keyword, begins with an underscore, or is reserved.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise SpecError(
            f"{_show(name)} is no name for a {what}; use letters, digits and '_', beginning with a letter"
        )
    if keyword.iskeyword(name):
        raise SpecError(f"{name!r} is a Python keyword and no name for a {what}; try {name + '_'!r}")
    if name.startswith("_"):
        raise SpecError(f"{name!r} begins with an underscore, which is for Python itself; use {name.strip('_')!r}")
    if name in reserved:
        raise SpecError(f"{name!r} is reserved and no name for a {what}; try {name + '_it'!r}")


def _show(name: object) -> str:
    return ascii(name)[:60]
