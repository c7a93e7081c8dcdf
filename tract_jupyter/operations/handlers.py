"""Handlers as data: each is the body of a function that receives a pending and decides about it.

If a handler is inactive, the user decides instead, because the handler may be a guard that the user relies on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import check_limit, digest
from tract_jupyter.operations.action import check_code, compile_action
from tract_jupyter.operations.check import check_name
from tract_jupyter.operations.spec import MAX_SPEC_BYTES, ActionDef
from tract_jupyter.review import FROM_STORE, ActiveStore, check_operation
from tract_jupyter.storage import StoredHandler, protected_context

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from tract_jupyter.operations.activation import PendingHandler
    from tract_jupyter.operations.lifecycle import Operations
    from tract_jupyter.review import Firing, HookBus, HookEvent


@dataclass(frozen=True)
class HandlerSpec:
    """A handler of one operation.

    Attributes:
        operation: the operation that it decides about, or `"*"` for all operations.
        code: the body of `def name(pending)`, unchanged.
    """

    operation: str
    name: str
    code: str
    description: str = ""

    @property
    def action(self) -> ActionDef:
        """The code as an action without parameters, for checking, display and compilation."""
        return ActionDef(self.name, self.description, {}, self.code)

    @property
    def spec_hash(self) -> str:
        """sha256 of the canonical form."""
        return digest(asdict(self))

    def checked(self) -> HandlerSpec:
        """Check all parts without compiling or running the code."""
        for part, value in asdict(self).items():
            if not isinstance(value, str):
                raise SpecError(f"the {part} of a handler must be a text, not {type(value).__name__}")
        check_name("a handler", self.name, reserved=frozenset({"pending"}))
        if len(self.code.encode("utf-8", "replace")) > MAX_SPEC_BYTES:
            raise SpecError(f"the handler {self.name!r} is too long; the maximum is {MAX_SPEC_BYTES:,} bytes")
        check_code(self.action)
        return self

    def to_json(self) -> str:
        """Return the handler's text for signing and storage."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> HandlerSpec:
        """Parse the text from `to_json`."""
        try:
            data: Any = json.loads(text)
            return cls(**data).checked()
        except (ValueError, TypeError, RecursionError) as error:
            raise SpecError(f"invalid handler: {error}") from None


ACTIVATE_HANDLER = "activate_handler"


class Handlers(ActiveStore[StoredHandler, HandlerSpec, "tuple[str, str]"]):
    """The stored handlers of one tract, which decide through its bus.

    Attributes:
        active: the active handlers by operation and name. `quarantined` has the same keys.
    """

    kind = "handler"
    noun = "handler"
    signed_as = "handler"

    def __init__(self, tract: object, bus: HookBus, *parts: Any) -> None:
        super().__init__(*parts)
        self.active: dict[tuple[str, str], HandlerSpec] = {}
        self._tract = tract
        self._bus = bus

    def activate(self, spec: HandlerSpec) -> None:
        """Compile, sign and store a handler that the user approved. It decides from now on."""
        self._check_free(spec)
        function = _compiled(spec.checked())
        key = self.key_of(spec)
        with self.database.write() as connection, self.changing(connection, key, is_new=True):
            about = {"operation": spec.operation, "name": spec.name, "code": spec.code}
            unsigned = StoredHandler(spec.operation, spec.name, spec.to_json(), spec.spec_hash, "", None)
            self.put(connection, unsigned, "activated", about)
        self.take_on(key, partial(self._attach, spec, function))

    def propose(self, spec: HandlerSpec, **options: Any) -> PendingHandler:
        """Check a handler without compiling it, and return the pending whose approval activates it."""
        from tract_jupyter.operations.activation import PendingHandler

        active = self.active.get(self.key_of(spec))
        if active == spec.checked():
            raise SpecError(f"handler {spec.name!r} of {spec.operation!r} is already active, unchanged")
        self._check_free(spec)
        return PendingHandler(spec, tract=self._tract, activate=self.activate, approved=active, **options)

    def review_quarantined(self, operation: str, name: str) -> PendingHandler:
        """Return the pending that activates a stored handler."""
        pending = self.propose(self.to_review(operation, name), triggered_by=FROM_STORE)
        pending.origin = FROM_STORE
        return pending

    def forget(self, operation: str) -> None:
        """Delete all stored handlers of an operation. The event log records each deletion."""
        with self.database.write() as connection:
            names = _names(self.rows.all(connection), operation)
            self.rows.delete(connection, operation)
            for name in names:
                self.note(connection, "removed", self._about((operation, name)))
        for key in [key for key in (*self.active, *self.quarantined) if key[0] == operation]:
            self.drop(key)

    # --- stored handlers

    def content(self, row: StoredHandler) -> list[Any]:
        """Return the signed parts of a row: the handler, and the names of the handlers at the time of its approval."""
        return [row.spec_json, _approved_order(row)]

    def why_not(self, row: StoredHandler, rows: list[StoredHandler]) -> str:
        """Explain why a stored handler must not decide. Empty if it may.

        The handlers from the time of its approval must still exist, in the same order. Otherwise a guard before it
        could be missing. Additional handlers are allowed, because each has its own approval.
        """
        foreign = super().why_not(row, rows)
        if foreign:
            return foreign
        approved = _approved_order(row)
        if [name for name in _names(rows, row.operation) if name in approved] == approved:
            return ""
        return f"it was approved in the list {', '.join(approved)}, and some of these are gone or in another order"

    def read(self, row: StoredHandler) -> HandlerSpec:
        """Parse a stored handler."""
        return HandlerSpec.from_json(row.spec_json)

    def key_of(self, item: HandlerSpec) -> tuple[str, str]:
        """Return the operation and the name of a handler."""
        return (item.operation, item.name)

    def active_item(self, key: tuple[str, str]) -> HandlerSpec | None:
        """Return the active handler with this operation and name."""
        return self.active.get(key)

    def require(self, key: tuple[str, str]) -> None:
        """Raise a SpecError if the handler is not active."""
        if key not in self.active:
            operation, name = key
            if key in self.quarantined:
                raise SpecError(
                    f"the handler {name!r} of {operation!r} is quarantined, so it is not active: "
                    f"{self.quarantined[key]}. '%tract review {operation}/{name}' shows it for your approval"
                )
            known = ", ".join(f"{n!r} of {o!r}" for o, n in self.active) or "none"
            raise SpecError(f"no stored handler {name!r} of {operation!r}; there are: {known}")

    def attach(self, item: HandlerSpec) -> None:
        """Activate a handler. Its code is compiled on the first call."""
        self._attach(item, _compiled_when_called(item))

    def detach(self, key: tuple[str, str]) -> None:
        """Deactivate a handler. The user does not decide in its place."""
        self.active.pop(key, None)
        self._bus.remove(*key)

    def withhold(self, key: tuple[str, str]) -> None:
        """Deactivate a handler. The user decides in its place until it is reviewed or deleted."""
        self.active.pop(key, None)
        self._bus.withhold(*key)

    @protected_context
    def changing(
        self, connection: Connection, key: tuple[str, str], *, is_new: bool = False
    ) -> Iterator[None]:
        """Change rows of an operation. Then sign the valid rows and the new row with the current list of handlers."""
        operation, name = key
        before = self._of(connection, operation)
        valid = {row.name for row in before if not self.why_not(row, before)}
        if is_new:
            valid.add(name)
        yield
        after = self._of(connection, operation)
        names = json.dumps(_names(after, operation))
        for row in after:
            if row.name in valid:
                self.rows.replace(connection, self.sign(row._replace(beside_json=names)))

    # ---

    def _of(self, connection: Connection, operation: str) -> list[StoredHandler]:
        return self.rows.find(connection, operation=operation)

    def _attach(self, spec: HandlerSpec, function: Callable[[Any], object]) -> None:
        self._bus.replace(spec.operation, function, name=spec.name)
        self.active[self.key_of(spec)] = spec

    def _check_free(self, spec: HandlerSpec) -> None:
        """Check that a handler replaces no function registered by `on`. The function could be a guard."""
        is_stored = (spec.operation, spec.name) in {**self.active, **self.quarantined}
        if not is_stored and spec.name in self._bus.names(spec.operation):
            raise SpecError(
                f"{spec.operation!r} already has a handler {spec.name!r}, registered by code; choose another name, or "
                f"call off({spec.operation!r}, {spec.name!r}) first"
            )


def _approved_order(row: StoredHandler) -> list[str]:
    """Return the names of the operation's handlers at the time of approval, in order."""
    names: list[str] = json.loads(row.beside_json or "null")
    return names


def _names(rows: list[StoredHandler], operation: str) -> list[str]:
    return [row.name for row in rows if row.operation == operation]


def _compiled(spec: HandlerSpec) -> Callable[[Any], object]:
    return compile_action(spec.action, operation=f"handler of {spec.operation}")


def _compiled_when_called(spec: HandlerSpec) -> Callable[[Any], object]:
    functions: list[Callable[[Any], object]] = []

    def handler(pending: Any) -> object:
        if not functions:
            functions.append(_compiled(spec))
        return functions[0](pending)

    return handler


class Hooks:
    """Lists and stores handlers. `Tract.on` registers functions.

    Attributes:
        bus: routes pendings to their handlers.
        saved: the stored handlers, including the quarantined ones.
    """

    def __init__(self, firing: Firing, operations: Operations, saved: Handlers) -> None:
        self.bus: HookBus = firing.bus
        self.saved = saved
        self._firing = firing
        self._operations = operations

    def list(self) -> dict[str, list[str]]:
        """Return the names of all handlers in their order, by operation."""
        return self.bus.handlers()

    def log(
        self,
        operation: str | None = None,
        *,
        handler: str | None = None,
        outcome: str | None = None,
        pending_id: str | None = None,
        limit: int = 1_000,
    ) -> builtins.list[HookEvent]:
        """Return the handlers' log: the newest matching entries, oldest first.

        The store keeps the last 10,000 entries of a tract.
        """
        return self.bus.log.newest(
            operation=operation, handler=handler, outcome=outcome, pending_id=pending_id, limit=check_limit(limit)
        )  # fmt: skip

    def save_handler(self, operation: str, name: str, code: str, *, description: str = "") -> None:
        """Store a handler that survives restarts. This approves its code, so read it first or use `propose_handler`.

        The handler is compiled and signed with the user's secret, and decides from now on. It replaces a stored
        handler with the same name.

        Args:
            operation: the operation that it decides about, or `"*"` for all operations.
            name: the handler's name.
            code: the body of `def name(pending)`.
            description: one line.

        Raises:
            OperationError: there is no such operation.
            SpecError: the code or the name is invalid. Nothing changed.
        """
        check_operation(operation, self._operations.hookable)
        self.saved.activate(HandlerSpec(operation, name, code, description))

    def propose_handler(
        self, operation: str, name: str, code: str, *, description: str = "", triggered_by: str | None = None
    ) -> PendingHandler:
        """Return the pending whose approval does the same as `save_handler`. Nothing is compiled before.

        The pending stays in the inbox until its decision.
        """
        check_operation(operation, self._operations.hookable)
        spec = HandlerSpec(operation, name, code, description)
        return self._firing.keep(self.saved.propose(spec, triggered_by=triggered_by))

    def revoke_handler(self, operation: str, name: str) -> None:
        """Revoke the approval of a stored handler. It no longer decides, and stays in the store for a review.

        Until it is reviewed or deleted, the user decides in its place.

        Raises:
            SpecError: the handler is not active.
        """
        self.saved.revoke(operation, name)

    def delete_handler(self, operation: str, name: str) -> None:
        """Delete a stored handler.

        Raises:
            SpecError: there is no such handler.
        """
        self.saved.remove(operation, name)
