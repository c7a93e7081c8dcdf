"""The dynamic operations of a tract through their life: proposed, activated, fired, revoked, removed.

What a person approves is compiled, signed, stored and made active, all of it or nothing. What lies in the store without
a valid signature is quarantined: listed, and never run.

A model's new operation, all of whose code runs in the sandbox, becomes active without a person. All that such code can
do is to decide about a pending that somebody fired, and its fields; who may fire it, and who may choose its actions, is
asked about as ever. What it could take away is a name that means something to a person: so it takes none that was ever
in use here, or asked for. It is signed as not reviewed, and stands so in every list.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast

from tract_jupyter.exceptions import FingerprintError, OperationExistsError, SpecError, TractError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.operations.action import check_code
from tract_jupyter.operations.activation import PendingActivation, titles
from tract_jupyter.operations.advice import Advice, gained, spec_reach
from tract_jupyter.operations.check import BUILTIN_OPERATIONS, CheckedSpec, check_spec
from tract_jupyter.operations.rebuilding import rebuilt
from tract_jupyter.operations.registry import OperationRegistry
from tract_jupyter.operations.spec import spec_from_json
from tract_jupyter.review.decision import deciding
from tract_jupyter.review.process import FROM_STORE
from tract_jupyter.review.trust import FOREIGN
from tract_jupyter.storage.signed import StoredSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.firing import ActionChoice, Firing, Unhandled
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.operations.pending import DynamicPending
    from tract_jupyter.operations.spec import OperationSpec
    from tract_jupyter.review.grants import Grants
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.journal import EventRows
    from tract_jupyter.storage.questions import StoredPending
    from tract_jupyter.storage.signed import SpecRows


_TRUST_KIND = "operation-spec"
UNREVIEWED_KIND = "operation-spec-unreviewed"
"""What a spec is signed as after an approval, and without a review. The one never passes for the other."""
NOT_REVIEWED: Final = {"reviewed": False, "why": "it is new, and all of its code runs in the sandbox"}
"""In the event of its activation."""
MOST_UNREVIEWED = 20
"""At a time: each is a tool that models are told about."""
_ACTIVATED = "operation.activated"
_MOST_LOOKED_AT = 1_000  # events, for the last one of a name


class Operations:
    """The dynamic operations of one tract."""

    def __init__(  # noqa: PLR0917 # each is a part of its own
        self, tract: Any, database: Database, specs: SpecRows, events: EventRows,
        firing: Firing, ledger: Ledger, grants: Grants, signer: Signer,
        restored: Callable[[str, dict[str, Any]], Pending | None] = lambda _operation, _fields: None,
        load_built_in: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self.restored = restored
        """Makes the pending of a built-in operation again from its name and what is stored of it."""
        self.load_built_in = load_built_in
        """Imports the classes of all built-in operations."""
        self.registry = OperationRegistry()
        self.quarantined: dict[str, str] = {}
        """Stored operations that are not active: their name and why."""
        self._stored: dict[str, StoredSpec] = {}
        self._tract = tract
        self._database = database
        self._specs = specs
        self._events = events
        self._firing = firing
        self._ledger = ledger
        self._grants = grants
        self.carry_grants = False
        """Whether standing approvals carry over to a new version that can reach nothing more than the old one."""
        self._signer = signer

    @cached_property
    def advice(self) -> Advice:
        """How the code of what is proposed or fired is analysed for review; may be set."""
        return Advice()

    @property
    def hookable(self) -> frozenset[str]:
        """The names that handlers can be registered for."""
        return BUILTIN_OPERATIONS | self.registry.operation_names

    # --- activation

    def register(self, spec: OperationSpec, *, replace: bool = False) -> None:
        """Activate a person's own spec; one that is active and reviewed already, unchanged, stays as it is.

        Raises:
            OperationExistsError: another version is active, and `replace` is not given; the error says what changed.
            SpecError: the spec is wrong; nothing changed.
        """
        checked = CheckedSpec.of(spec)
        name = checked.spec.name
        is_same = self.registry.is_active(name, checked.spec_hash)
        if not (is_same and name not in self.registry.unreviewed):
            self.activate(checked, replace=replace or is_same)

    def activate(
        self,
        spec: OperationSpec | CheckedSpec,
        *,
        replace: bool = False,
        actor: str = "user",
        reviewed: bool = True,
    ) -> type[DynamicPending]:
        """Compile a spec, sign and store it, and make it active: all of it, or nothing.

        Args:
            spec: a person approved it; or, if not `reviewed`, it needs no approval: it is new, and sandboxed.
            replace: take the place of an active version.
            actor: for the event.
            reviewed: what it is signed as, so that the one never passes for the other.
        """
        checked = CheckedSpec.of(spec)
        cls = self.registry.compile(checked, replace=replace)
        spec, text = checked.spec, checked.text
        kind = _TRUST_KIND if reviewed else UNREVIEWED_KIND
        stored = StoredSpec(spec.name, text, cls.spec_hash, self._signer.sign(kind, text))
        before = self.last_approved(spec.name) if self.carry_grants else None
        about = {
            "name": spec.name,
            "version": spec.version,
            "spec_json": text,
            "signature": stored.signature,
            **({} if reviewed else NOT_REVIEWED),
        }
        with self._database.write() as connection:
            if not reviewed and self._specs.get(connection, spec.name) is not None:
                raise OperationExistsError(f"another process has stored an operation {spec.name!r} just now")
            self._specs.replace(connection, stored)
            self._events.append(connection, _ACTIVATED, actor, about)
            if before is not None and not gained(spec_reach(before), spec_reach(spec)):
                hashes = (before.spec_hash, cls.spec_hash)
                self._grants.carry_over(connection, "operation", spec.name, *hashes)
        self._database.if_rolled_back(self._way_back(spec.name))
        self.registry.activate(cls, reviewed=reviewed)
        self.quarantined.pop(spec.name, None)
        return cls

    def _way_back(self, name: str) -> Callable[[], None]:
        """Return what restores the present version if an activation is rolled back with its batch."""
        active, why = self.registry.get_spec(name), self.quarantined.get(name)
        reviewed = name not in self.registry.unreviewed

        def go_back() -> None:
            if active is not None:
                self.registry.trust(active, reviewed=reviewed)
            elif self.registry.is_registered(name):
                self.registry.unregister(name)
            if why is not None:
                self.quarantined[name] = why

        return go_back

    def propose(
        self, spec: OperationSpec, *, triggered_by: str | None = None, actor: str = "user"
    ) -> PendingActivation:
        """Check a spec without making anything of it, and return the pending whose approval activates it.

        A model's new operation that runs in the sandbox only is activated at once; the pending is approved then.
        Which fields are volatile is a person's to say; in anybody else's spec it is a request (`PendingActivation`).

        Raises:
            SpecError: the spec is wrong, or is active already, unchanged.
        """
        pending = self._proposed(spec, is_own=actor == "user", triggered_by=triggered_by, actor=actor)
        return self._firing.keep(pending) if pending.status.is_open else pending

    def _proposed(
        self, spec: OperationSpec, *, is_own: bool, triggered_by: str | None, actor: str = "user"
    ) -> PendingActivation:
        given = check_spec(spec)
        for action in given.actions.values():
            check_code(action)
        requests = frozenset() if is_own else given.volatile
        spec = given if is_own else given.with_volatile(())
        is_model = actor != "user"
        active = self.registry.get_spec(spec.name) if is_model else self.registry.reviewed_spec(spec.name)
        if active is not None and active.spec_hash in {spec.spec_hash, given.spec_hash}:
            raise SpecError(
                f"operation {spec.name!r} is active already in this very version; there is nothing to review"
            )
        if is_model and self._needs_no_review(spec):
            return self._activated_unreviewed(spec, requests=requests, triggered_by=triggered_by, actor=actor)
        return self._activation(spec, requests=requests, triggered_by=triggered_by, actor=actor)

    def _activation(self, spec: OperationSpec, **options: Any) -> PendingActivation:
        return PendingActivation(
            spec,
            tract=self._tract,
            activate=partial(self.activate, replace=True),
            active=self.registry.reviewed_spec(spec.name),
            approved=self.last_approved(spec.name),
            **options,
        )

    def _needs_no_review(self, spec: OperationSpec) -> bool:
        """Return True if all of its code runs in the sandbox, and its name never meant anything here."""
        is_crowded = len(self.registry.unreviewed) >= MOST_UNREVIEWED
        return spec.is_sandboxed and not is_crowded and not self._was_known(spec.name)

    def _was_known(self, name: str) -> bool:
        """Return True if an operation of that name is or was active, stored, or asked for, whatever came of it."""
        if self.registry.is_registered(name) or name in self.quarantined:
            return True
        with self._database.read() as connection:
            if self._specs.get(connection, name) is not None:
                return True
            events = self._events.newest(connection, "operation.*", _MOST_LOOKED_AT)
        was_active = any(event.data.get("name") == name for event in events)
        return was_active or self._ledger.was_asked(titles(name))

    def _activated_unreviewed(self, spec: OperationSpec, *, actor: str, **options: Any) -> PendingActivation:
        """Activate it through the gate, as nobody's decision."""
        pending = PendingActivation(
            spec,
            tract=self._tract,
            activate=partial(self.activate, actor=actor, reviewed=False),
            actor=actor,
            **options,
        )
        with deciding("automatic", "nobody"):
            pending.approve()
        return pending

    def last_approved(self, name: str) -> OperationSpec | None:
        """Return the version of an operation that this user approved last, also if it is not active any more."""
        active = self.registry.reviewed_spec(name)
        if active is not None:
            return active
        with self._database.read() as connection:
            events = self._events.newest(connection, _ACTIVATED, _MOST_LOOKED_AT)
        for event in events:
            text, signature = event.data.get("spec_json", ""), event.data.get("signature", "")
            if event.data.get("name") != name or not self._signer.verify(_TRUST_KIND, text, signature):
                continue
            spec = spec_from_json(text)
            if spec.name == name:
                return spec
        return None

    def revoke(self, name: str) -> None:
        """Take the approval of an operation back: it is deactivated, and stays in the store for another review.

        Raises:
            UnknownOperationError: it is not active.
        """
        self.registry.require_spec(name)
        with self._database.write() as connection:
            self._specs.unsign(connection, name)
            self._events.append(connection, "operation.revoked", "user", {"name": name})
        self.registry.unregister(name)
        self.quarantined[name] = "you took its approval back"

    def remove(self, name: str) -> None:
        """Deactivate an operation, forget its stored spec and its handlers."""
        if name not in self.quarantined:
            self.registry.require_spec(name)
        with self._database.write() as connection:
            self._specs.delete(connection, name)
            self._events.append(connection, "operation.removed", "user", {"name": name})
        if self.quarantined.pop(name, None) is None:
            self.registry.unregister(name)
        self._firing.bus.off(name)

    # --- across restarts

    def load(self) -> None:
        """Read the stored specs. Those this user approved become active; nothing is compiled or run here."""
        self.look_again()

    def look_again(self) -> None:
        """Follow what other processes have stored, replaced, revoked or removed since."""
        with self._database.read() as connection:
            stored = {row.name: row for row in self._specs.all(connection)}
        before, self._stored = self._stored, stored
        for name in before.keys() | stored.keys():
            row = stored.get(name)
            if row != before.get(name):
                self._follow(name, "" if row is None else self._load(row), is_gone=row is None)

    def _follow(self, name: str, why_not: str, *, is_gone: bool) -> None:
        """Have the registry and the quarantine say what the store says."""
        if (why_not or is_gone) and self.registry.is_registered(name):
            self.registry.unregister(name)
        self.quarantined.pop(name, None)
        if why_not:
            self.quarantined[name] = why_not

    def _load(self, row: StoredSpec) -> str:
        try:
            reviewed = self._signer.verify(_TRUST_KIND, row.spec_json, row.signature)
            if not reviewed and not self._signer.verify(UNREVIEWED_KIND, row.spec_json, row.signature):
                return FOREIGN
            spec = spec_from_json(row.spec_json)
        except TractError as error:
            return str(error)
        if spec.name != row.name:
            return f"it is stored as {row.name!r} but calls itself {spec.name!r}"
        is_as_stored = reviewed == (spec.name not in self.registry.unreviewed)
        if not is_as_stored or not self.registry.is_active(spec.name, spec.spec_hash):
            self.registry.trust(spec, reviewed=reviewed)
        return ""

    def review_quarantined(self, name: str) -> PendingActivation:
        """Return the pending that would activate a stored operation, or approve one that nobody has reviewed.

        Raises:
            SpecError: there is none of that name, or it cannot be read.
        """
        with self._database.read() as connection:
            stored = self._specs.get(connection, name)
        if stored is None or (name not in self.quarantined and name not in self.registry.unreviewed):
            raise SpecError(f"no stored operation {name!r} waits for review; '%tract ops' lists them")
        try:
            spec = spec_from_json(stored.spec_json)
        except SpecError as error:
            raise SpecError(f"the stored operation {name!r} cannot be read: {error}") from None
        pending = self._proposed(spec, is_own=False, triggered_by=FROM_STORE)
        pending.origin = FROM_STORE
        return pending

    def rebuild(self, stored: StoredPending) -> Pending:
        """Make the pending again that another process asked about; see `rebuilding.rebuilt`."""
        return rebuilt(stored, tract=self._tract, activation=self._activation)

    # --- firing

    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[Any], Any] | None = None,
        review: bool = False,
        ask: Unhandled = "ask",
        offer: bool = False,
        choice: ActionChoice | None = None,
        **options: Any,
    ) -> Any:
        """Fire an operation: see `Tract.fire`.

        Args:
            operation: see there, as for the other arguments.
            fields: see there.
            execute_fn: see there.
            review: see there.
            ask: takes the place of asking a person, where it comes to that.
            offer: a person fired it by hand: if it has exactly one action and no handler decides about it, they are
                asked, where they can be. Approving it would run nothing.
            choice: what a person chose who was asked about the call that fires it; done where no handler decides.
            options: see there.
        """
        cls = self.registry.require_class(operation)
        recorded = None if execute_fn is None else self._with_event(execute_fn)
        pending = cls(tract=self._tract, fields=fields, execute_fn=recorded, **options)
        if review:
            return self._firing.keep(pending, execute_fn)
        pending.is_offered = (
            offer and len(cls.spec.actions) == 1 and execute_fn is None and self._can_offer(pending)
        )
        unhandled = "ask" if pending.is_offered else cls.spec.unhandled
        decided = self._firing.decide(
            pending, unhandled=unhandled, ask=ask, choice=choice, joins=execute_fn is None
        )
        pending = cast("DynamicPending", decided)
        if execute_fn is not None and pending.status is PendingStatus.APPROVED:
            return pending.result
        return pending

    def _can_offer(self, pending: DynamicPending) -> bool:
        """Return True if a person can be asked, or a recorded decision is about the same."""
        channel = self._tract.reviewer.channel
        if channel.can_reach():
            return True
        recorded = channel.recorded()
        return recorded is not None and recorded.knows(pending.identity)

    def unguarded(self, operation: str) -> str:
        """Explain why a person is asked instead of an operation's handlers; empty if these decide."""
        return self._firing.bus.unguarded(operation)

    def _with_event(self, execute_fn: Callable[[Any], Any]) -> Callable[[DynamicPending], Any]:
        def execute(pending: DynamicPending) -> Any:
            canonical_json(pending.fields)  # what cannot be recorded must not run
            result = execute_fn(pending)
            data = {
                "fields": pending.fields,
                "pending_id": pending.pending_id,
                "triggered_by": pending.triggered_by,
            }
            with self._database.write() as connection:
                self._events.append(connection, f"custom:{pending.operation}", pending.actor, data)
            return result

        return execute

    def check_current(self, pending: DynamicPending) -> None:
        """Check that the version a pending was fired with is still the active one.

        Raises:
            FingerprintError: the operation was replaced or removed since.
        """
        registry = self.registry
        if not registry.is_active(pending.operation, pending.spec_hash):
            if not registry.was_active(pending.spec_hash):
                return  # of a class that was compiled for a trial
            change = "replaced by another version" if registry.is_registered(pending.operation) else "removed"
            raise FingerprintError(
                f"operation {pending.operation!r} was {change} since this was fired; fire it again"
            )
