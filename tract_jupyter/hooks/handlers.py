"""Handlers that are kept across restarts: code as data, active only with this user's signature.

One that is not active may be a guard that somebody counts on: a person is asked in its place.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import SpecError, TractError
from tract_jupyter.hooks.builtin.handler import PendingHandler
from tract_jupyter.hooks.dynamic.action import compile_action
from tract_jupyter.hooks.handler_spec import HandlerSpec
from tract_jupyter.review.trust import FOREIGN
from tract_jupyter.storage.handlers import StoredHandler
from tract_jupyter.storage.interrupts import whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from tract_jupyter.hooks.bus import HookBus
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.events import EventRows
    from tract_jupyter.storage.handlers import HandlerRows

_TRUST_KIND = "handler"


class Handlers:
    """The stored handlers of one tract."""

    def __init__(
        self,
        tract: Any,
        database: Database,
        rows: HandlerRows,
        events: EventRows,
        bus: HookBus,
        signer: Signer,
    ) -> None:
        self.active: dict[tuple[str, str], HandlerSpec] = {}
        """By operation and name."""
        self.quarantined: dict[tuple[str, str], str] = {}
        """Stored handlers that are not active, and why."""
        self._tract = tract
        self._database = database
        self._rows = rows
        self._events = events
        self._bus = bus
        self._signer = signer

    def activate(self, spec: HandlerSpec) -> None:
        """Compile a handler that a person approved, sign and store it, and have it decide from now on."""
        self._check_free(spec)
        function = _compiled(spec.checked())
        with (
            self._database.write() as connection,
            self._signed_together(connection, spec.operation, spec.name),
        ):
            self._rows.replace(connection, _unsigned(spec))
            about = {"operation": spec.operation, "name": spec.name, "code": spec.code}
            self._events.append(connection, "handler.activated", "user", about)
        self._database.if_rolled_back(self._way_back(spec.operation, spec.name))
        self._attach(spec, function)

    def propose(self, spec: HandlerSpec, **options: Any) -> PendingHandler:
        """Check a handler without making anything of it, and return the pending whose approval activates it.

        Raises:
            SpecError: it is wrong, or active already, unchanged.
        """
        active = self.active.get((spec.operation, spec.name))
        if active == spec.checked():
            raise SpecError(f"handler {spec.name!r} of {spec.operation!r} is active already, unchanged")
        self._check_free(spec)
        return PendingHandler(spec, tract=self._tract, activate=self.activate, approved=active, **options)

    def review_quarantined(self, operation: str, name: str) -> PendingHandler:
        """Return the pending that would activate a stored handler.

        Raises:
            SpecError: there is none, or it cannot be read.
        """
        if (operation, name) not in self.quarantined:
            raise SpecError(f"no stored handler {name!r} of {operation!r} waits for review")
        with self._database.read() as connection:
            stored = self._rows.get(connection, operation, name)
        if stored is None:
            raise SpecError(f"the handler {name!r} of {operation!r} was removed from the store")
        pending = self.propose(HandlerSpec.from_json(stored.spec_json), triggered_by="the store")
        pending.origin = "the store"
        return pending

    def revoke(self, operation: str, name: str) -> None:
        """Take the approval of a handler back: it decides no more, and stays in the store for another review."""
        spec = self._require(operation, name)
        with self._database.write() as connection:
            self._rows.replace(connection, _unsigned(spec))
            self._events.append(connection, "handler.revoked", "user", {"operation": operation, "name": name})
        self._quarantine(operation, name, "you took its approval back")

    def remove(self, operation: str, name: str) -> None:
        """Forget a stored handler, active or not."""
        if (operation, name) not in self.quarantined:
            self._require(operation, name)
        with self._database.write() as connection, self._signed_together(connection, operation):
            self._rows.delete(connection, operation, name)
            self._events.append(connection, "handler.removed", "user", {"operation": operation, "name": name})
        self._detach(operation, name)

    def forget(self, operation: str) -> None:
        """Forget all stored handlers of an operation."""
        with self._database.write() as connection:
            self._rows.delete(connection, operation)
        for key in [key for key in (*self.active, *self.quarantined) if key[0] == operation]:
            self._detach(*key)

    def load(self) -> None:
        """Read the stored handlers. Those this user approved decide from now on; nothing is compiled or run here."""
        with self._database.read() as connection:
            stored = self._rows.all(connection)
        for row in stored:
            reason = self._load(row, _names(stored, row.operation))
            if reason:
                self._quarantine(row.operation, row.name, reason)

    # ---

    def _load(self, row: StoredHandler, names: list[str]) -> str:
        try:
            why_not = self._why_not(row, names)
            spec = None if why_not else HandlerSpec.from_json(row.spec_json)
        except TractError as error:
            return str(error)
        if spec is None:
            return why_not
        if (spec.operation, spec.name) != (row.operation, row.name):
            return f"it is stored as {row.name!r} of {row.operation!r}, but says otherwise itself"
        self._attach(spec, _compiled_when_called(spec))
        return ""

    def _why_not(self, row: StoredHandler, names: list[str]) -> str:
        """Why a row may not decide among the stored handlers of those names; empty if it may.

        Those that it was approved with are still there, in their order: a guard before it would be missed. More may
        have come, which other people approved.
        """
        try:
            beside: list[str] = json.loads(row.beside_json or "null")
            if not self._signer.verify(_TRUST_KIND, [row.spec_json, beside], row.signature):
                return FOREIGN
        except (ValueError, RecursionError):
            return FOREIGN
        if [name for name in names if name in beside] == beside:
            return ""
        return (
            f"it was approved as one of {', '.join(beside)}, of which some are gone or come in another order"
        )

    @whole_context
    def _signed_together(self, connection: Connection, operation: str, new: str = "") -> Iterator[None]:
        """Change rows of an operation, and sign those that may decide, and the `new` one, with what is beside then."""
        before = self._rows.all(connection, operation)
        names = _names(before, operation)
        mine = {row.name for row in before if not self._why_not(row, names)} | {new}
        yield
        after = self._rows.all(connection, operation)
        beside = _names(after, operation)
        for row in after:
            if row.name in mine:
                signature = self._signer.sign(_TRUST_KIND, [row.spec_json, beside])
                signed = row._replace(signature=signature, beside_json=json.dumps(beside))
                self._rows.replace(connection, signed)

    def _attach(self, spec: HandlerSpec, function: Callable[[Any], object]) -> None:
        self._bus.replace(spec.operation, function, name=spec.name)
        self.active[spec.operation, spec.name] = spec
        self.quarantined.pop((spec.operation, spec.name), None)

    def _way_back(self, operation: str, name: str) -> Callable[[], None]:
        """What has that handler decide which does now, where an activation is rolled back with its batch."""
        active, why = self.active.get((operation, name)), self.quarantined.get((operation, name))

        def go_back() -> None:
            if active is not None:
                self._attach(active, _compiled_when_called(active))
            elif why is not None:
                self._quarantine(operation, name, why)
            else:
                self._detach(operation, name)

        return go_back

    def _quarantine(self, operation: str, name: str, why: str) -> None:
        """Have a person asked where it would decide, until it is reviewed or deleted."""
        self.active.pop((operation, name), None)
        self.quarantined[operation, name] = why
        self._bus.withhold(operation, name)

    def _detach(self, operation: str, name: str) -> None:
        is_active = self.active.pop((operation, name), None) is not None
        is_withheld = self.quarantined.pop((operation, name), None) is not None
        if is_active or is_withheld:
            self._bus.remove(operation, name)

    def _check_free(self, spec: HandlerSpec) -> None:
        """Check that it takes the place of no handler but a stored one: that could be a veto which nobody would miss.

        Raises:
            SpecError: the name is that of a function which `on` registered.
        """
        is_stored = (spec.operation, spec.name) in {**self.active, **self.quarantined}
        if not is_stored and spec.name in self._bus.names(spec.operation):
            raise SpecError(
                f"{spec.operation!r} has a handler {spec.name!r} already, registered by code; choose another name, or "
                f"call off({spec.operation!r}, {spec.name!r}) first"
            )

    def _require(self, operation: str, name: str) -> HandlerSpec:
        spec = self.active.get((operation, name))
        if spec is None:
            known = ", ".join(f"{n!r} of {o!r}" for o, n in self.active) or "none"
            raise SpecError(f"no stored handler {name!r} of {operation!r}; there are: {known}")
        return spec


def _unsigned(spec: HandlerSpec) -> StoredHandler:
    return StoredHandler(spec.operation, spec.name, spec.to_json(), spec.spec_hash, "", None)


def _names(rows: list[StoredHandler], operation: str) -> list[str]:
    return [row.name for row in rows if row.operation == operation]


def _compiled(spec: HandlerSpec) -> Callable[[Any], object]:
    return compile_action(spec.action, operation=f"handler of {spec.operation}")


def _compiled_when_called(spec: HandlerSpec) -> Callable[[Any], object]:
    made: list[Callable[[Any], object]] = []

    def handler(pending: Any) -> object:
        if not made:
            made.append(_compiled(spec))
        return made[0](pending)

    return handler
