"""The dynamic operations of a tract through their life: proposed, activated, fired, revoked, removed.

What a person approves is compiled, signed, stored and made active, all of it or nothing. What lies in the store without
a valid signature is quarantined: listed, and never run.

Where autonomy is `autonomous`, a model's new operation, all of whose code runs in the sandbox, becomes active without a
person; below that, a person reviews it like any other. All that such code can do is to decide about a pending that
somebody fired, and its fields; who may fire it, and who may choose its actions, is asked about as ever. What it could
take away is a name that means something to a person: so it takes none that was ever in use here, or asked for. It is
signed as not reviewed, and stands so in every list.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tract_jupyter.exceptions import (
    FingerprintError,
    OperationError,
    OperationExistsError,
    SpecError,
    nearest,
)
from tract_jupyter.models import PendingStatus, brief_repr, canonical_json
from tract_jupyter.operations.action import check_code
from tract_jupyter.operations.activation import PendingActivation, titles
from tract_jupyter.operations.advice import Advice, gained, spec_reach
from tract_jupyter.operations.check import CheckedSpec
from tract_jupyter.operations.rebuilding import as_shown, rebuilt
from tract_jupyter.operations.registry import OperationRegistry
from tract_jupyter.operations.rehearsal import rehearse
from tract_jupyter.operations.spec import GUIDANCE_FIELDS, spec_from_json
from tract_jupyter.review import FROM_STORE, WRITER, ActiveStore, deciding, how_to_decide
from tract_jupyter.review.builtin import BUILTIN_OPERATIONS
from tract_jupyter.storage import SpecRows, StoredSpec, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.context import Repository
    from tract_jupyter.models import LLMClient
    from tract_jupyter.operations.handlers import Handlers
    from tract_jupyter.operations.pending import DynamicPending
    from tract_jupyter.operations.rebuilding import RemotePending
    from tract_jupyter.operations.rehearsal import Rehearsal
    from tract_jupyter.operations.spec import OperationSpec
    from tract_jupyter.operations.writing import WritingObserver, WrittenOperation
    from tract_jupyter.review import ActionChoice, Firing, Pending, Review, Unhandled
    from tract_jupyter.storage import StoredPending

UNREVIEWED_KIND = "operation-spec-unreviewed"
"""The kind of the signature of a spec that nobody has reviewed; it never passes for that of a reviewed one."""
NOT_REVIEWED: Final = {"reviewed": False, "why": "it is new, and all of its code runs in the sandbox"}
"""In the event of its activation."""
MOST_UNREVIEWED = 20
"""At a time: each is a tool that models are told about."""
_ACTIVATED = "operation.activated"
_MOST_LOOKED_AT = 1_000  # events, for the last one of a name


class ReadSpec(NamedTuple):
    """A stored operation, as it was read."""

    spec: OperationSpec
    is_reviewed: bool


class SpecStore(ActiveStore[StoredSpec, ReadSpec, str]):
    """The stored operations; those that this user signed are in the registry."""

    kind = "operation"
    noun = "operation"
    signed_as = "operation-spec"

    def __init__(self, registry: OperationRegistry, *parts: Any) -> None:
        super().__init__(*parts)
        self._registry = registry
        registry.quarantined = self.quarantined

    def content(self, row: StoredSpec) -> str:
        """Sign the text of the spec."""
        return row.spec_json

    def why_not(self, row: StoredSpec, rows: list[StoredSpec]) -> str:
        """Explain why a stored operation is not used: it is signed neither as reviewed nor as new and sandboxed."""
        return "" if self.is_signed(row, UNREVIEWED_KIND) else super().why_not(row, rows)

    def read(self, row: StoredSpec) -> ReadSpec:
        """Read a stored spec."""
        return ReadSpec(spec_from_json(row.spec_json), self.is_signed(row))

    def key_of(self, item: ReadSpec) -> str:
        """Return its name."""
        return item.spec.name

    def active_item(self, key: str) -> ReadSpec | None:
        """Return the active operation of a name."""
        spec = self._registry.get_spec(key)
        return None if spec is None else ReadSpec(spec, key not in self._registry.unreviewed)

    def require(self, key: str) -> object:
        """Raise an UnknownOperationError if it is not active."""
        return self._registry.require_spec(key)

    def attach(self, item: ReadSpec) -> None:
        """Make it active; its code is compiled when it is first needed."""
        name = item.spec.name
        is_as_stored = item.is_reviewed == (name not in self._registry.unreviewed)
        if not is_as_stored or not self._registry.is_active(name, item.spec.spec_hash):
            self._registry.trust(item.spec, reviewed=item.is_reviewed)

    def detach(self, key: str) -> None:
        """Deactivate it."""
        if self._registry.is_registered(key):
            self._registry.unregister(key)

    def may_be_reviewed(self, key: str) -> bool:
        """Return True if it is not active, or active without a review."""
        return super().may_be_reviewed(key) or key in self._registry.unreviewed


class Operations:
    """The dynamic operations of one tract.

    Args:
        tract: where their pendings belong.
        repository: whose store keeps them.
        review: signs them, and asks persons.
        firing: has pendings decided.
        handlers: the stored handlers of operations.
        reviews_sandboxed: tells whether a person reviews what a model proposes also where it is new, and sandboxed.

    Attributes:
        restored: makes the pending of a built-in operation again from its name and what is stored of it.
    """

    def __init__(
        self,
        tract: Any,
        repository: Repository,
        review: Review,
        firing: Firing,
        handlers: Handlers,
        *,
        restored: Callable[[str, dict[str, Any]], Pending | None],
        reviews_sandboxed: Callable[[], bool] = lambda: True,
    ) -> None:
        self.restored = restored
        self._reviews_sandboxed = reviews_sandboxed
        database, events = repository.database, repository.events
        self.registry = OperationRegistry()
        self.stored = SpecStore(self.registry, database, SpecRows(repository.tract_id), events, review.signer)
        """The stored operations, with those that are in quarantine."""
        self._tract = tract
        self._database = database
        self._compiler = repository.compiler
        self._events = events
        self._firing = firing
        self._handlers = handlers
        self._review = review
        self.on_change: Callable[[str, OperationSpec | None], object] = lambda _name, _spec: None
        """Called with the name and the version that became active, or None once it was removed or revoked."""
        self.carry_grants = False
        """True if standing approvals carry over to a new version that can access no more than the old one."""
        self.registry.waiting = self.waiting
        self.typed: set[str] = set()
        """The hashes of the specs that the user typed in cells of this process."""
        self._advice: Advice | None = None

    @property
    def advice(self) -> Advice:
        """The analysis of proposed and fired code for review; may be set."""
        if self._advice is None:
            self._advice = Advice()
        return self._advice

    @advice.setter
    def advice(self, advice: Advice) -> None:
        """Analyse with other rules from now on."""
        if not isinstance(advice, Advice):
            raise OperationError(
                f"the advice is an Advice of tract_jupyter.operations, got {brief_repr(advice)}"
            )
        self._advice = advice

    @property
    def quarantined(self) -> dict[str, str]:
        """The stored operations that are not active: their name and why."""
        return self.stored.quarantined

    def waiting(self) -> dict[str, str]:
        """Return the operations whose activation waits for a decision, and the command that shows each."""
        found: dict[str, str] = {}
        for stored in self._review.ledger.waiting(_MOST_LOOKED_AT):
            _, is_one, name = stored.title.partition(" operation ")
            if is_one and stored.title in titles(name):
                found.setdefault(name, how_to_decide(stored.pending_id))
        return found

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
        stored = self.stored.sign(
            StoredSpec(spec.name, text, cls.spec_hash, ""), "" if reviewed else UNREVIEWED_KIND
        )
        before = self.last_approved(spec.name) if self.carry_grants else None
        about = {
            "name": spec.name,
            "version": spec.version,
            "spec_json": text,
            "signature": stored.signature,
            **({} if reviewed else NOT_REVIEWED),
        }
        with self._database.write() as connection:
            if not reviewed and self.stored.rows.get(connection, spec.name) is not None:
                raise OperationExistsError(
                    f"another process has stored an operation {spec.name!r} just now; look at "
                    "it, and propose yours under another name"
                )
            self.stored.put(connection, stored, "activated", about, actor)
            if before is not None and not gained(spec_reach(before), spec_reach(spec)):
                hashes = (before.spec_hash, cls.spec_hash)
                self._review.grants.carry_over(connection, "operation", spec.name, *hashes)
        self.stored.take_on(spec.name, partial(self.registry.activate, cls, reviewed=reviewed))
        self.on_change(spec.name, spec)
        return cls

    def propose(
        self,
        spec: OperationSpec,
        *,
        triggered_by: str | None = None,
        actor: str = "user",
        rehearsed: bool = False,
        reviewed: bool = False,
    ) -> PendingActivation:
        """Return a pending whose approval activates an operation; nothing of it is compiled before.

        What a model proposes is active at once, and recorded as not reviewed, where autonomy is `autonomous`, all of
        its actions declare `isolation: sandbox`, and no operation here ever had its name. Which fields are volatile is
        a person's to say; in anybody else's spec it is a request (`PendingActivation`).

        Args:
            spec: the operation.
            triggered_by: what proposed it, for whoever reviews it.
            actor: who wrote it: `user`, or a model such as `agent:<id>`.
            rehearsed: run its code in the sandbox before anybody looks, and show what it does: see `rehearse`.
            reviewed: have a person decide also about what would be active at once.

        Raises:
            SpecError: the spec is wrong, or is active already, unchanged.
        """
        is_model = actor != "user"
        checked, requests = self._to_propose(spec, is_own=not is_model, replaces_unreviewed=not is_model)
        about: dict[str, Any] = {"requests": requests, "triggered_by": triggered_by, "actor": actor}
        if is_model and not reviewed and self._needs_no_review(checked.spec):
            pending = self.activation(checked, is_reviewed=False, **about)
            with deciding("automatic", "nobody"):
                pending.approve()
        else:
            rehearsal = interruptible(rehearse, checked.spec, self._tract.sandboxes) if rehearsed else None
            pending = self.activation(checked, rehearsal=rehearsal, **about)
        return self._firing.keep(pending) if pending.status.is_open else pending

    def _to_propose(
        self, spec: OperationSpec, *, is_own: bool, replaces_unreviewed: bool
    ) -> tuple[CheckedSpec, frozenset[str]]:
        """Check a proposal. Return it, and the fields that it wants to be volatile if it is not the user's own.

        Raises:
            SpecError: the spec is wrong, or is active already, unchanged.
        """
        given = CheckedSpec.of(spec)
        for action in given.spec.actions.values():
            check_code(action)
        checked = given if is_own else given.with_volatile(())
        if not is_own:
            self.typed.discard(checked.spec_hash)
        name = checked.spec.name
        is_active = any(self.registry.is_active(name, one.spec_hash) for one in (given, checked))
        if is_active and not (replaces_unreviewed and name in self.registry.unreviewed):
            raise SpecError(
                f"operation {name!r} is active already in this very version; there is nothing to review"
            )
        return checked, frozenset() if is_own else given.spec.volatile

    def count_as_typed(self, spec: OperationSpec, pending: PendingActivation | None) -> None:
        """Count the code as read: the user typed it in a cell.

        It holds for this activation and for firings of this version. If anybody else proposes the same code, the user
        reads it.
        """
        self.typed.add(CheckedSpec.of(spec).spec_hash)
        if pending is not None:
            pending.is_typed = True

    def rehearse(self, spec: OperationSpec) -> Rehearsal:
        """Run an operation's actions in the sandbox on values drawn from the types of its fields: say what they do.

        It approves nothing, and stores nothing. Code that is for the kernel finds a stand-in for the tract; what needs
        more, such as files or a package, is not rehearsed, and the rehearsal says so.

        Raises:
            SpecError: the spec is wrong.
        """
        checked = CheckedSpec.of(spec).spec
        for action in checked.actions.values():
            check_code(action)
        return interruptible(rehearse, checked, self._tract.sandboxes)

    def write(
        self,
        text: str,
        *,
        tries: int = 3,
        versions: int = 3,
        client: LLMClient | None = None,
        system_prompt: str | None = None,
        observer: WritingObserver | None = None,
        stop: StopSignal | None = None,
        triggered_by: str = "t.operations.write",
    ) -> WrittenOperation:
        """Have a model write an operation, which a person then reads and activates.

        The model that is asked for `chat` gives an operation as the arguments of a tool. It is parsed and checked,
        analysed, and rehearsed in the sandbox; then a person decides about it. What was wrong with it, or the reason of
        a rejection, goes back to the model, which proposes it again. Nothing of it is imported or run in this process
        before it is approved. None of the conversation is committed; all requests are counted in `t.costs`.

        Args:
            text: what it is to do, in your words.
            tries: how many requests the model has for each version that a person is shown.
            versions: how many versions a person is shown at most.
            client: the model to ask; the tract's if left out.
            system_prompt: instead of the usual words about its task.
            observer: is told what happens.
            stop: ends it from another thread.
            triggered_by: what asked for it, for whoever reviews it.

        Returns:
            What came of it: `is_active`, the last `pending`, each attempt, and how it ended in a sentence. Where nobody
            can be asked, the proposal waits in the inbox.

        Raises:
            ContentError: there is no text, or a number is not one.
            LLMError: there is no model to ask, or it gave back no reply. What was on display is withdrawn.
        """
        from tract_jupyter.operations.writing import write

        asked = self._tract.models.client_for("chat", client)
        return write(
            text,
            tries=tries,
            versions=versions,
            client=asked,
            system_prompt=system_prompt,
            observer=observer,
            stop=stop,
            taken=self.registry.operation_names,
            propose=lambda spec: self.propose(
                spec, triggered_by=triggered_by, actor=WRITER, rehearsed=True, reviewed=True
            ),
            decide=self._review.reviewer.decide_now,
        )

    def activation(
        self, spec: OperationSpec | CheckedSpec, *, is_reviewed: bool = True, **options: Any
    ) -> PendingActivation:
        """Return the request to activate an operation; nothing of it is compiled before.

        Args:
            spec: the operation.
            is_reviewed: False if the pending is approved at once, by no user; see `propose`.
            options: see `PendingActivation`.
        """
        checked = CheckedSpec.of(spec)
        name = checked.spec.name
        how: dict[str, Any] = (
            {"replace": True} if is_reviewed else {"reviewed": False, "actor": options["actor"]}
        )
        return PendingActivation(
            checked,
            tract=self._tract,
            activate=partial(self.activate, **how),
            active=self.registry.reviewed_spec(name),
            approved=self.last_approved(name),
            **options,
        )

    def _needs_no_review(self, spec: OperationSpec) -> bool:
        """Return True if autonomy allows it, all of its code is sandboxed, and its name never meant anything here."""
        is_crowded = len(self.registry.unreviewed) >= MOST_UNREVIEWED
        waits = spec.fires_on is None and not spec.two_stage  # to be fired by somebody, and asks no model
        is_free = spec.is_sandboxed and waits and not is_crowded and not self._reviews_sandboxed()
        return is_free and not self._was_known(spec.name)

    def _was_known(self, name: str) -> bool:
        """Return True if an operation of that name is or was active, stored, or asked for, whatever came of it."""
        if self.registry.is_registered(name) or name in self.quarantined:
            return True
        with self._database.read() as connection:
            if self.stored.rows.get(connection, name) is not None:
                return True
            events = self._events.newest(connection, "operation.*", _MOST_LOOKED_AT)
        was_active = any(event.data.get("name") == name for event in events)
        return was_active or self._review.ledger.was_asked(titles(name))

    def last_approved(self, name: str) -> OperationSpec | None:
        """Return the version of an operation that this user approved last, also if it is not active any more."""
        active = self.registry.reviewed_spec(name)
        if active is not None:
            return active
        with self._database.read() as connection:
            events = self._events.newest(connection, _ACTIVATED, _MOST_LOOKED_AT)
        for event in events:
            text, signature = event.data.get("spec_json", ""), event.data.get("signature", "")
            is_it = event.data.get("name") == name
            if not is_it or not self.stored.is_signed(StoredSpec(name, text, "", signature)):
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
        self.stored.revoke(name)
        self.on_change(name, None)

    def remove(self, name: str) -> None:
        """Deactivate an operation, and forget its spec and its handlers.

        Raises:
            UnknownOperationError: there is no such operation, neither active nor in quarantine.
        """
        with self._database.write():
            self.stored.remove(name)
            self._firing.bus.off(name)
            self._handlers.forget(name)
        self.on_change(name, None)

    # --- across restarts

    def look_again(self) -> None:
        """Follow what other processes have stored, replaced, revoked or removed since.

        Those this user approved become active; nothing is compiled or run here.
        """
        self.stored.look_again()

    def review_quarantined(self, name: str) -> PendingActivation:
        """Return the pending that would activate a stored operation, or approve one that nobody has reviewed.

        Raises:
            SpecError: there is none of that name, or it cannot be read.
        """
        if not self.stored.may_be_reviewed(name):
            line = self.waiting().get(name)
            if line is not None:
                raise SpecError(
                    f"the activation of operation {name!r} waits for approval already; '{line}' shows it"
                )
        spec = self.stored.to_review(name).spec
        checked, requests = self._to_propose(spec, is_own=False, replaces_unreviewed=True)
        pending = self.activation(checked, requests=requests, triggered_by=FROM_STORE)
        pending.origin = FROM_STORE
        return pending

    def rebuild(self, stored: StoredPending) -> Pending:
        """Make the pending again that another process asked about; see `rebuilding.rebuilt`."""
        return rebuilt(
            stored, self, tract=self._tract, reviewer=self._review.reviewer, handlers=self._handlers
        )

    def as_shown(self, stored: StoredPending) -> RemotePending:
        """Return a stored question as it was shown, to be turned down; see `rebuilding.as_shown`."""
        return as_shown(stored, tract=self._tract, reviewer=self._review.reviewer)

    # --- firing

    def in_runs(self) -> list[OperationSpec]:
        """Return the active operations that are a part of each run and that a person approved, by name."""
        found = (self.registry.reviewed_spec(name) for name in sorted(self.registry.operation_names))
        return [spec for spec in found if spec is not None and spec.fires_in_runs]

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
        does: str | None = None,
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
            does: an action that a person approved to be done where no handler decides, and nobody is to be asked. What
                stays open after it is asked about.
            options: see there.

        Raises:
            SpecError: it has no such action.
        """
        cls = self.registry.require_class(operation)
        if cls.spec.two_stage:
            fields = self._guided(cls.spec, fields, str(options.get("actor", "user")))
        recorded = None if execute_fn is None else self._with_event(execute_fn)
        pending = cls(tract=self._tract, fields=fields, execute_fn=recorded, **options)
        if review:
            return self._firing.keep(pending, execute_fn)
        pending.is_offered = (
            offer and len(cls.spec.actions) == 1 and execute_fn is None and self._can_offer(pending)
        )
        unhandled: Unhandled = "ask" if pending.is_offered else cls.spec.unhandled
        if does is not None and does not in cls.spec.actions:
            raise SpecError(
                f"operation {operation!r} has no action {does!r}.{nearest(does, cls.spec.actions)}"
            )
        if does is not None and unhandled == "approve":
            unhandled = partial(self._done, does, ask)
        decided = self._firing.decide(
            pending, unhandled=unhandled, ask=ask, choice=choice, joins=execute_fn is None
        )
        pending = cast("DynamicPending", decided)
        if execute_fn is not None and pending.status is PendingStatus.APPROVED:
            return pending.result
        return pending

    def _guided(self, spec: OperationSpec, fields: dict[str, Any] | None, actor: str) -> dict[str, Any]:
        """Return the fields with guidance: what was given, or what a model writes.

        Raises:
            ParameterError: the fields do not fit; no model was asked.
            LLMError: there is no model to ask, or it gave back no reply.
        """
        given = spec.given_parameters().validate(fields if fields is not None else {})
        text, source = given["guidance"], "llm" if actor.startswith("agent") else "user"
        if text is None:
            text, source = self.write_guidance(spec, given), "llm"
        return {**given, GUIDANCE_FIELDS[0]: text, GUIDANCE_FIELDS[1]: source}

    def write_guidance(
        self, spec: OperationSpec, fields: Mapping[str, Any], instructions: str | None = None
    ) -> str:
        """Ask the model that decides about pendings what matters in a firing, and return what it says.

        It is shown the fields, and the messages of the context.

        Args:
            spec: the operation.
            fields: of the firing.
            instructions: what whoever asks wants to have looked after.

        Raises:
            LLMError: there is no model to ask, or it gave back no reply.
        """
        from tract_jupyter.context import guidance, message_text
        from tract_jupyter.prompts import guided_fields, guided_task

        client = self._tract.models.client_for("consult")
        own = {name: fields[name] for name in spec.fields if name in fields}
        messages = self._compiler.of(self._tract.head).messages if self._tract.head else ()
        texts = [guided_fields(canonical_json(own)), *map(message_text, messages)]
        return guidance(client, guided_task(spec.name, spec.description), texts, instructions)

    def _done(self, action: str, ask: Unhandled, pending: DynamicPending) -> None:
        """Do an action; what that leaves open is asked about. What it raised is kept as the pending's error."""
        with suppress(Exception):
            pending.execute_tool(action, {})
        if pending.status is PendingStatus.PENDING:
            if callable(ask):
                ask(pending)
            else:
                self._review.reviewer.keep(pending)

    def _can_offer(self, pending: DynamicPending) -> bool:
        """Return True if a person can be asked, or a recorded decision is about the same."""
        channel = self._review.reviewer.channel
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
