"""The active operations by name, and the factory of their pending classes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationExistsError, UnknownOperationError, nearest
from tract_jupyter.models import check_text
from tract_jupyter.operations.action import compile_action
from tract_jupyter.operations.check import CheckedSpec
from tract_jupyter.operations.pending import pending_base
from tract_jupyter.operations.spec import changes, spec_from_dict, spec_to_dict
from tract_jupyter.review import gated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.operations.pending import DynamicPending
    from tract_jupyter.operations.spec import OperationSpec


def make_dynamic_pending_class(spec: OperationSpec | CheckedSpec) -> type[DynamicPending]:
    """Check a spec, compile its actions and return its pending class."""
    checked = CheckedSpec.of(spec)
    spec = checked.spec
    actions = {
        name: compile_action(action, operation=spec.name, parameters=checked.actions[name])
        for name, action in spec.actions.items()
    }
    members: dict[str, Any] = {name: _method(name, action) for name, action in actions.items()}
    members |= {
        "__doc__": spec.description,
        "__module__": __name__,
        "spec": spec,
        "spec_hash": checked.spec_hash,
        "field_parameters": checked.fields,
    }
    camel = "".join([part.capitalize() for part in spec.name.split("_")])
    return type(f"Pending{camel}", (pending_base(spec),), members)


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
    return gated(method)  # `run_action` goes through the gate


class OperationRegistry:
    """The active specs and their pending classes by name.

    The registry copies its specs. Later changes to a spec's dicts have no effect on it.
    """

    def __init__(self) -> None:
        self._specs: dict[str, OperationSpec] = {}
        self._classes: dict[str, type[DynamicPending]] = {}
        self._hashes: dict[str, str] = {}
        self._ever: set[str] = set()
        self._unreviewed: set[str] = set()
        self.quarantined: Mapping[str, str] = {}
        """The stored operations that are not active, with the reasons."""
        self.waiting: Callable[[], Mapping[str, str]] = dict
        """Returns the operations with an undecided activation request, each with the command that shows it."""
        self.revision = 0
        """Increases with every change. Caches of data about the active operations compare it."""

    def register(self, spec: OperationSpec, *, replace: bool = False) -> type[DynamicPending]:
        """Check, compile and activate a spec, and return its class.

        Raises:
            OperationExistsError: the name is built in, or active without `replace`.
            SpecError: the spec is invalid. Nothing changed.
        """
        cls = self.compile(spec, replace=replace)
        self.activate(cls)
        return cls

    def compile(self, spec: OperationSpec | CheckedSpec, *, replace: bool = False) -> type[DynamicPending]:
        """Do the same as `register`, without the activation."""
        cls = make_dynamic_pending_class(spec)
        active = self._specs.get(cls.spec.name)
        if active is not None and not replace:
            raise OperationExistsError(_is_active_already(active, cls.spec))
        return cls

    def activate(self, cls: type[DynamicPending], *, reviewed: bool = True) -> None:
        """Make a compiled class the active one for its name."""
        self._specs[cls.spec.name] = cls.spec
        self._classes[cls.spec.name] = cls
        self._remember(cls.spec.name, cls.spec_hash, reviewed=reviewed)

    def trust(self, spec: OperationSpec, *, reviewed: bool = True) -> None:
        """Activate a spec that was checked and active before. Its code is compiled on first use."""
        self._specs[spec.name] = spec
        self._classes.pop(spec.name, None)
        self._remember(spec.name, spec.spec_hash, reviewed=reviewed)

    def unregister(self, name: str) -> None:
        """Deactivate an operation."""
        self.require_spec(name)
        self._classes.pop(name, None)
        del self._specs[name], self._hashes[name]
        self._unreviewed.discard(name)
        self.revision += 1

    def get_class(self, name: str) -> type[DynamicPending] | None:
        """Return the pending class of an active operation, or None if it is not active."""
        return self.require_class(name) if name in self._specs else None

    def get_spec(self, name: str) -> OperationSpec | None:
        """Return the spec of an active operation, or None if it is not active."""
        return self._specs.get(name)

    def require_class(self, name: str) -> type[DynamicPending]:
        """Return the pending class of an active operation."""
        check_text(name, "the name of an operation", error=UnknownOperationError)
        cls = self._classes.get(name)
        if cls is None:
            cls = self._classes[name] = make_dynamic_pending_class(self.require_spec(name))
        return cls

    def is_registered(self, name: str) -> bool:
        """Return True if an operation is active."""
        return name in self._specs

    @property
    def operation_names(self) -> set[str]:
        """The names of the active operations."""
        return set(self._specs)

    def is_active(self, name: str, spec_hash: str) -> bool:
        """Return True if exactly this version is active."""
        return self._hashes.get(name) == spec_hash

    @property
    def unreviewed(self) -> frozenset[str]:
        """The active operations without a user's approval. Models wrote them, and all of their code is sandboxed."""
        return frozenset(self._unreviewed)

    def reviewed_spec(self, name: str) -> OperationSpec | None:
        """Return the spec of an active operation that the user approved, or None."""
        return None if name in self._unreviewed else self._specs.get(name)

    def was_active(self, spec_hash: str) -> bool:
        """Return True if this version is or was active. Otherwise its class was compiled for a trial."""
        return spec_hash in self._ever

    def to_config(self) -> list[dict[str, Any]]:
        """Return all specs as dicts, sorted by name."""
        return [spec_to_dict(self._specs[name]) for name in sorted(self._specs)]

    def from_config(self, configs: Iterable[dict[str, Any]]) -> None:
        """Register specs from dicts. Active names keep their current spec."""
        for config in configs:
            spec = spec_from_dict(config)
            if not self.is_registered(spec.name):
                self.register(spec)

    def require_spec(self, name: str) -> OperationSpec:
        """Return the spec of an active operation.

        Raises:
            UnknownOperationError: the operation is not active. The message has the reason or the nearest name.
        """
        check_text(name, "the name of an operation", error=UnknownOperationError)
        if name not in self._specs and name in self.quarantined:
            raise UnknownOperationError(
                f"the operation {name!r} is quarantined, so it is not active: {self.quarantined[name]}. "
                f"'%tract review {name}' shows it for your approval"
            )
        if name not in self._specs:
            line = self.waiting().get(name)
            if line is not None:
                raise UnknownOperationError(
                    f"the operation {name!r} is not active yet: its activation waits for approval; '{line}' shows it"
                )
            known = (
                f" Active operations: {', '.join(sorted(self._specs))}."
                if self._specs
                else " No operation is active yet."
            )
            raise UnknownOperationError(
                f"no active operation {name!r}.{nearest(str(name), self._specs)}{known}"
            )
        return self._specs[name]

    def _remember(self, name: str, spec_hash: str, *, reviewed: bool) -> None:
        self._hashes[name] = spec_hash
        self._ever.add(spec_hash)
        if reviewed:
            self._unreviewed.discard(name)
        else:
            self._unreviewed.add(name)
        self.revision += 1


def _is_active_already(active: OperationSpec, spec: OperationSpec) -> str:
    changed = changes(active, spec)
    if not changed:
        return f"this version of operation {spec.name!r} is already active"
    return (
        f"another version of operation {spec.name!r} is already active: {', '.join(changed)}. To replace it, call "
        "register_operation(spec, replace=True), or propose_operation(spec) for a review of the changes"
    )
