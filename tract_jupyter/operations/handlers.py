"""A handler as data: the body of a function that is given the pending and decides about it.

One that is not active may be a guard that somebody counts on: a person is asked in its place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import digest
from tract_jupyter.operations.abilities import abilities, ability_text, change_text
from tract_jupyter.operations.action import check_code, compile_action
from tract_jupyter.operations.activation import Proposal, changes_block, unified_diff
from tract_jupyter.operations.advice import handler_reach, reach_table
from tract_jupyter.operations.check import check_name
from tract_jupyter.operations.spec import MAX_SPEC_BYTES, ActionDef
from tract_jupyter.review import FROM_STORE, ActiveStore, Subject
from tract_jupyter.storage import StoredHandler, whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from tract_jupyter.operations.advice import Reach
    from tract_jupyter.review import CodeBlock, HookBus, ValueTable


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
            SpecError: a part is not a text, the name is not valid, or the code would not compile.
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
            raise SpecError(f"it is not a handler: {error}") from None


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
        code = self.tract.operations.advice.block(self.spec.action)
        if self._approved is None:
            return (code,)
        changes = unified_diff(self._approved.code.splitlines(), self.spec.code.splitlines(), "approved")
        return (*changes_block("last approved", changes), code)

    def tables(self) -> tuple[ValueTable, ...]:
        """Show what the code can access: all of it, or what the version before could not."""
        spec, approved = self.spec, self._approved
        now = handler_reach(spec.operation, spec.action)
        can = self._abilities(spec.action, now)
        if approved is None:
            return (reach_table(None, now, ability_text(can)),)
        before = handler_reach(approved.operation, approved.action)
        return (reach_table(before, now, change_text(self._abilities(approved.action, before), can)),)

    def _abilities(self, code: ActionDef, reach: Reach) -> tuple[str, ...]:
        return abilities(self.tract.operations.advice.block(code).findings, reach)

    def said(self) -> dict[str, str]:
        """Return its name, and what it decides about."""
        spec = self.spec
        return {"operation": spec.operation, "name": spec.name, "description": spec.description}


class Handlers(ActiveStore[StoredHandler, HandlerSpec, "tuple[str, str]"]):
    """The stored handlers of one tract, which decide through its bus.

    Attributes:
        active: by operation and name, as in `quarantined`.
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
        """Compile a handler that a person approved, sign and store it, and have it decide from now on."""
        self._check_free(spec)
        function = _compiled(spec.checked())
        key = self.key_of(spec)
        with self.database.write() as connection, self.changing(connection, key, is_new=True):
            about = {"operation": spec.operation, "name": spec.name, "code": spec.code}
            unsigned = StoredHandler(spec.operation, spec.name, spec.to_json(), spec.spec_hash, "", None)
            self.put(connection, unsigned, "activated", about)
        self.take_on(key, partial(self._attach, spec, function))

    def propose(self, spec: HandlerSpec, **options: Any) -> PendingHandler:
        """Check a handler without making anything of it, and return the pending whose approval activates it.

        Raises:
            SpecError: it is wrong, or active already, unchanged.
        """
        active = self.active.get(self.key_of(spec))
        if active == spec.checked():
            raise SpecError(f"handler {spec.name!r} of {spec.operation!r} is active already, unchanged")
        self._check_free(spec)
        return PendingHandler(spec, tract=self._tract, activate=self.activate, approved=active, **options)

    def review_quarantined(self, operation: str, name: str) -> PendingHandler:
        """Return the pending that would activate a stored handler.

        Raises:
            SpecError: there is none, or it cannot be read.
        """
        pending = self.propose(self.to_review(operation, name), triggered_by=FROM_STORE)
        pending.origin = FROM_STORE
        return pending

    def forget(self, operation: str) -> None:
        """Forget all stored handlers of an operation; the event log tells of each."""
        with self.database.write() as connection:
            names = _names(self.rows.all(connection), operation)
            self.rows.delete(connection, operation)
            for name in names:
                self.note(connection, "removed", self._about((operation, name)))
        for key in [key for key in (*self.active, *self.quarantined) if key[0] == operation]:
            self.drop(key)

    # --- what a stored handler is

    def content(self, row: StoredHandler) -> list[Any]:
        """Sign the handler with the names of those it was approved beside."""
        return [row.spec_json, _beside(row)]

    def why_not(self, row: StoredHandler, rows: list[StoredHandler]) -> str:
        """Explain why a row may not decide; empty if it may.

        Those that it was approved with are still there, in their order: a guard before it would be missed. More may
        have come, which other people approved.
        """
        foreign = super().why_not(row, rows)
        if foreign:
            return foreign
        beside = _beside(row)
        if [name for name in _names(rows, row.operation) if name in beside] == beside:
            return ""
        return (
            f"it was approved as one of {', '.join(beside)}, of which some are gone or come in another order"
        )

    def read(self, row: StoredHandler) -> HandlerSpec:
        """Read a stored handler."""
        return HandlerSpec.from_json(row.spec_json)

    def key_of(self, item: HandlerSpec) -> tuple[str, str]:
        """Return its operation and its name."""
        return (item.operation, item.name)

    def active_item(self, key: tuple[str, str]) -> HandlerSpec | None:
        """Return the active handler of an operation and a name."""
        return self.active.get(key)

    def require(self, key: tuple[str, str]) -> None:
        """Raise a SpecError if it is not active."""
        if key not in self.active:
            operation, name = key
            if key in self.quarantined:
                raise SpecError(
                    f"the handler {name!r} of {operation!r} is quarantined, so it is not active: "
                    f"{self.quarantined[key]}. '%tract review {operation}/{name}' shows it to you, to be approved"
                )
            known = ", ".join(f"{n!r} of {o!r}" for o, n in self.active) or "none"
            raise SpecError(f"no stored handler {name!r} of {operation!r}; there are: {known}")

    def attach(self, item: HandlerSpec) -> None:
        """Have it decide from now on; its code is compiled when it is first called."""
        self._attach(item, _compiled_when_called(item))

    def detach(self, key: tuple[str, str]) -> None:
        """Have it decide nothing any more, and nobody in its place."""
        self.active.pop(key, None)
        self._bus.remove(*key)

    def withhold(self, key: tuple[str, str]) -> None:
        """Have a person asked where it would decide, until it is reviewed or deleted."""
        self.active.pop(key, None)
        self._bus.withhold(*key)

    @whole_context
    def changing(
        self, connection: Connection, key: tuple[str, str], *, is_new: bool = False
    ) -> Iterator[None]:
        """Change rows of an operation, and sign those that may decide, and the new one, with what is beside then."""
        operation, name = key
        before = self._of(connection, operation)
        mine = {row.name for row in before if not self.why_not(row, before)}
        if is_new:
            mine.add(name)
        yield
        after = self._of(connection, operation)
        beside = json.dumps(_names(after, operation))
        for row in after:
            if row.name in mine:
                self.rows.replace(connection, self.sign(row._replace(beside_json=beside)))

    # ---

    def _of(self, connection: Connection, operation: str) -> list[StoredHandler]:
        return self.rows.find(connection, operation=operation)

    def _attach(self, spec: HandlerSpec, function: Callable[[Any], object]) -> None:
        self._bus.replace(spec.operation, function, name=spec.name)
        self.active[self.key_of(spec)] = spec

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


def _beside(row: StoredHandler) -> list[str]:
    """Return the names of the handlers that it was approved beside, in their order.

    Raises:
        ValueError: that cannot be read.
    """
    beside: list[str] = json.loads(row.beside_json or "null")
    return beside


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
