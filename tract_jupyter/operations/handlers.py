"""A handler as data: the body of a function that is given the pending and decides about it.

One that is not active may be a guard that somebody counts on: a person is asked in its place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import SpecError, TractError
from tract_jupyter.hooks.builtin.base import BuiltinPending
from tract_jupyter.models.canonical import digest
from tract_jupyter.operations.action import check_code, compile_action
from tract_jupyter.operations.activation import Proposal, changes_block, unified_diff
from tract_jupyter.operations.advice import handler_reach, reach_table
from tract_jupyter.operations.check import check_name
from tract_jupyter.operations.pending import known_names_of, members_of
from tract_jupyter.operations.spec import MAX_SPEC_BYTES, ActionDef
from tract_jupyter.review.decision import Subject
from tract_jupyter.review.process import FROM_STORE
from tract_jupyter.review.trust import FOREIGN
from tract_jupyter.storage.interrupts import whole_context
from tract_jupyter.storage.signed import StoredHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from tract_jupyter.analysis import KnownNames
    from tract_jupyter.hooks.bus import HookBus
    from tract_jupyter.review.request import CodeBlock, ValueTable
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.journal import EventRows
    from tract_jupyter.storage.signed import HandlerRows


@dataclass(frozen=True)
class HandlerSpec:
    """A handler of one operation.

    Attributes:
        operation: what it decides about; `"*"` for everything.
        name: what it goes by.
        code: the body of `def name(pending)`, kept to the letter.
        description: one line.
    """

    operation: str
    name: str
    code: str
    description: str = ""

    @property
    def action(self) -> ActionDef:
        """The code as an action without parameters, which is how it is checked, shown and compiled."""
        return ActionDef(self.name, self.description, {}, self.code)

    @property
    def spec_hash(self) -> str:
        """sha256 of the canonical form."""
        return digest(asdict(self))

    def checked(self) -> HandlerSpec:
        """Check everything without making anything of it.

        Raises:
            SpecError: a part is no text, the name is none, or the code would not compile.
        """
        for part, value in asdict(self).items():
            if not isinstance(value, str):
                raise SpecError(f"the {part} of a handler is a text, not {type(value).__name__}")
        check_name("a handler", self.name, reserved=frozenset({"pending"}))
        if len(self.code.encode("utf-8", "replace")) > MAX_SPEC_BYTES:
            raise SpecError(f"the handler {self.name!r} is too long; {MAX_SPEC_BYTES:,} bytes are the most")
        check_code(self.action)
        return self

    def to_json(self) -> str:
        """Return the handler's text: what is signed and stored."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> HandlerSpec:
        """Read what `to_json` made.

        Raises:
            SpecError: it is something else.
        """
        try:
            data: Any = json.loads(text)
            return cls(**data).checked()
        except (ValueError, TypeError, RecursionError) as error:
            raise SpecError(f"it is no handler: {error}") from None


ACTIVATE_HANDLER = "activate_handler"


class PendingHandler(Proposal):
    """A proposed handler. Nothing of it is compiled or run before it is approved.

    Args:
        spec: the checked proposal.
        approved: the version that was approved last, if any; the panel shows the difference.
        options: see `Proposal`.
    """

    in_view = frozenset({"handler"})

    def __init__(self, spec: HandlerSpec, *, approved: HandlerSpec | None = None, **options: Any) -> None:
        super().__init__(ACTIVATE_HANDLER, fields={"handler": spec.to_json()}, **options)
        self._approved = approved

    @property
    def spec(self) -> HandlerSpec:
        """The handler that would be activated: read from the fields, which the fingerprint binds."""
        return HandlerSpec.from_json(self.fields["handler"])

    @property
    def title(self) -> str:
        """The heading of its panel: says what it would decide about."""
        spec = self.spec
        verb = "Activate" if self._approved is None else "Replace"
        return f"{verb} handler {spec.name} of {spec.operation}"

    def binding(self) -> Subject:
        """Bind the whole handler."""
        spec = self.spec
        return Subject("handler", f"{spec.operation}/{spec.name}", spec.spec_hash, {})

    def why(self) -> str:
        """Explain why a person is asked."""
        return f"It would decide about {self.spec.operation!r} in your place, each time it is fired."

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the change since the version that was approved last, if there is one, and the code."""
        code = self.tract.operations.advice.block(self.spec.action, self._known_names())
        if self._approved is None:
            return (code,)
        changes = unified_diff(self._approved.code.splitlines(), self.spec.code.splitlines(), "approved")
        return (changes_block("last approved", changes), code)

    def _known_names(self) -> KnownNames:
        """Return what is known of the names in the code: nothing of `pending`, if it decides about everything."""
        from tract_jupyter.analysis import KnownNames

        spec = self.spec
        about = self.tract.operations.registry.get_spec(spec.operation)
        if about is not None:
            return known_names_of(about, spec.action)
        self.tract.operations.load_built_in()
        named = {cls.name: cls for cls in _below(BuiltinPending) if "name" in vars(cls) and _is_ours(cls)}
        built_in = named.get(spec.operation)
        return KnownNames(None if built_in is None else members_of(built_in), None, ())

    def tables(self) -> tuple[ValueTable, ...]:
        """Show what the code can access: all of it, or what the version before could not."""
        spec, approved = self.spec, self._approved
        before = None if approved is None else handler_reach(approved.operation, approved.action)
        table = reach_table(before, handler_reach(spec.operation, spec.action))
        return (table,) if table.rows else ()

    def said(self) -> dict[str, str]:
        """Return its name, and what it decides about."""
        spec = self.spec
        return {"operation": spec.operation, "name": spec.name, "description": spec.description}


def _below(cls: type[BuiltinPending]) -> Iterator[type[BuiltinPending]]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _below(derived)


def _is_ours(cls: type[BuiltinPending]) -> bool:
    """Return True if it is the package's own class of an operation, not one that somebody has derived from it."""
    return cls.__module__.startswith(f"{__name__.partition('.')[0]}.")


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
        pending = self.propose(HandlerSpec.from_json(stored.spec_json), triggered_by=FROM_STORE)
        pending.origin = FROM_STORE
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
        """Explain why a row may not decide among the stored handlers of those names; empty if it may.

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
        before = self._rows.of(connection, operation)
        names = _names(before, operation)
        mine = {row.name for row in before if not self._why_not(row, names)} | {new}
        yield
        after = self._rows.of(connection, operation)
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
        """Return what restores the present handler if an activation is rolled back with its batch."""
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
