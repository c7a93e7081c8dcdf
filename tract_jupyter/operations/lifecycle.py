"""The life cycle of a tract's dynamic operations: proposed, activated, fired, revoked, removed.

When the user approves a spec, it is compiled, signed, stored and activated in one transaction. A stored operation
without a valid signature is quarantined: it is listed and never run.

If autonomy is `autonomous`, a model's new operation becomes active without a review, provided that all of its code
runs in the sandbox. At lower levels the user reviews it like any other. Such code can only change the fields of a
fired pending and decide about it. Firing it and choosing its actions need the usual permissions. It can use only a
name that no operation of this tract ever had or asked for, because a known name means something to the user. Its
signature marks it as not reviewed, and every list says so.
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
from tract_jupyter.operations.check import CheckedSpec
from tract_jupyter.operations.registry import OperationRegistry
from tract_jupyter.operations.spec import GUIDANCE_FIELDS, spec_from_json
from tract_jupyter.review import FROM_STORE, WRITER, ActiveStore, deciding, how_to_decide
from tract_jupyter.review.builtin import BUILTIN_OPERATIONS
from tract_jupyter.storage import SpecRows, StoredSpec, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.context import Repository
    from tract_jupyter.models import LLMClient
    from tract_jupyter.operations.activation import PendingActivation
    from tract_jupyter.operations.advice import Advice
    from tract_jupyter.operations.handlers import Handlers
    from tract_jupyter.operations.pending import DynamicPending
    from tract_jupyter.operations.rebuilding import RemotePending
    from tract_jupyter.operations.rehearsal import ActionRehearsal
    from tract_jupyter.operations.spec import OperationSpec
    from tract_jupyter.operations.writing import WritingObserver, WrittenOperation
    from tract_jupyter.review import ActionChoice, Firing, Pending, Review, Unhandled
    from tract_jupyter.storage import StoredPending

UNREVIEWED_KIND = "operation-spec-unreviewed"
"""The kind of signature for an unreviewed spec. It is never valid for a reviewed one."""
NOT_REVIEWED: Final = {"reviewed": False, "why": "it is new, and all of its code runs in the sandbox"}
"""Extra data in the activation event of an unreviewed operation."""
MOST_UNREVIEWED = 20
"""The maximum number of active unreviewed operations. Each one is a tool in the models' requests."""
_ACTIVATED = "operation.activated"
_MOST_LOOKED_AT = 1_000  # events in a search for an operation's last event


class ReadSpec(NamedTuple):
    """A stored operation after parsing."""

    spec: OperationSpec
    is_reviewed: bool


class SpecStore(ActiveStore[StoredSpec, ReadSpec, str]):
    """The stored operations. The ones that this user signed are in the registry."""

    kind = "operation"
    noun = "operation"
    signed_as = "operation-spec"

    def __init__(self, registry: OperationRegistry, *parts: Any) -> None:
        super().__init__(*parts)
        self._registry = registry
        registry.quarantined = self.quarantined

    def content(self, row: StoredSpec) -> str:
        """Return the signed part of a row: the text of the spec."""
        return row.spec_json

    def why_not(self, row: StoredSpec, rows: list[StoredSpec]) -> str:
        """Explain why a stored operation is not used: it has neither a reviewed nor an unreviewed signature."""
        return "" if self.is_signed(row, UNREVIEWED_KIND) else super().why_not(row, rows)

    def read(self, row: StoredSpec) -> ReadSpec:
        """Parse a stored spec."""
        return ReadSpec(spec_from_json(row.spec_json), self.is_signed(row))

    def key_of(self, item: ReadSpec) -> str:
        """Return the operation's name."""
        return item.spec.name

    def active_item(self, key: str) -> ReadSpec | None:
        """Return the active operation with this name."""
        spec = self._registry.get_spec(key)
        return None if spec is None else ReadSpec(spec, key not in self._registry.unreviewed)

    def require(self, key: str) -> object:
        """Raise an UnknownOperationError if the operation is not active."""
        return self._registry.require_spec(key)

    def attach(self, item: ReadSpec) -> None:
        """Activate an operation. Its code is compiled on first use."""
        name = item.spec.name
        is_as_stored = item.is_reviewed == (name not in self._registry.unreviewed)
        if not is_as_stored or not self._registry.is_active(name, item.spec.spec_hash):
            self._registry.trust(item.spec, reviewed=item.is_reviewed)

    def detach(self, key: str) -> None:
        """Deactivate an operation."""
        if self._registry.is_registered(key):
            self._registry.unregister(key)

    def may_be_reviewed(self, key: str) -> bool:
        """Return True if the operation is inactive, or active without a review."""
        return super().may_be_reviewed(key) or key in self._registry.unreviewed


class Operations:
    """The dynamic operations of one tract.

    `reviews_sandboxed` returns True if a model's new operation needs a review even if all of its code is sandboxed.

    Attributes:
        restored: rebuilds the pending of a built-in operation from its name and its stored fields.
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
        """The stored operations, including the quarantined ones."""
        self._tract = tract
        self._database = database
        self._compiler = repository.compiler
        self._events = events
        self._firing = firing
        self._handlers = handlers
        self._review = review
        self.on_change: Callable[[str, OperationSpec | None], object] = lambda _name, _spec: None
        """Called with a name and its new active version, or None after a removal or revocation."""
        self.carry_grants = False
        """True if standing approvals carry over to a new version that can access no more than the old one."""
        self.registry.waiting = self.waiting
        self.typed: set[str] = set()
        """The hashes of the specs that the user typed in cells of this process."""
        self._advice: Advice | None = None

    @property
    def advice(self) -> Advice:
        """The analysis settings for the review of proposed and fired code. Settable."""
        from tract_jupyter.operations.advice import Advice

        if self._advice is None:
            self._advice = Advice()
        return self._advice

    @advice.setter
    def advice(self, advice: Advice) -> None:
        """Use other analysis settings from now on."""
        from tract_jupyter.operations.advice import Advice

        if not isinstance(advice, Advice):
            raise OperationError(
                f"advice must be an Advice of tract_jupyter.operations, not {brief_repr(advice)}"
            )
        self._advice = advice

    @property
    def quarantined(self) -> dict[str, str]:
        """The quarantined operations: the reason by name."""
        return self.stored.quarantined

    def waiting(self) -> dict[str, str]:
        """Return the operations with an undecided activation request, each with the command that shows it."""
        from tract_jupyter.operations.activation import titles

        lines: dict[str, str] = {}
        for stored in self._review.ledger.waiting(_MOST_LOOKED_AT):
            _, separator, name = stored.title.partition(" operation ")
            if separator and stored.title in titles(name):
                lines.setdefault(name, how_to_decide(stored.pending_id))
        return lines

    @property
    def hookable(self) -> frozenset[str]:
        """The names that handlers can be registered for."""
        return BUILTIN_OPERATIONS | self.registry.operation_names

    # --- activation

    def register(self, spec: OperationSpec, *, replace: bool = False) -> None:
        """Activate the user's own spec. Do nothing if the same version is already active and reviewed.

        Raises:
            OperationExistsError: another version is active and `replace` is False. The error lists the changes.
            SpecError: the spec is invalid. Nothing changed.
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
        """Compile, sign, store and activate a spec in one transaction.

        With `reviewed=False`, the spec is new and fully sandboxed, and has another kind of signature. One kind is never
        valid for the other.
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
                    f"another process has just stored an operation {spec.name!r}; read "
                    "it, and propose yours under another name"
                )
            self.stored.put(connection, stored, "activated", about, actor)
            if before is not None and _gains_nothing(spec, before):
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
        """Return a pending whose approval activates an operation. Nothing is compiled before the approval.

        A model's proposal is active at once, and recorded as not reviewed, if all of these are true: autonomy is
        `autonomous`, all actions declare `isolation: sandbox`, and no operation of this tract ever had its name. Only
        the user decides which fields are volatile. In a spec by another author, `volatile` is a request
        (`PendingActivation`).

        Args:
            spec: the operation.
            triggered_by: the source of the proposal, for the reviewer.
            actor: the author: `user`, or a model such as `agent:<id>`.
            rehearsed: run the code on drawn values before the review and show the results. See `rehearse`.
            reviewed: require a review even if the operation could be active at once.

        Raises:
            SpecError: the spec is invalid, or this version is already active.
        """
        from tract_jupyter.operations.rehearsal import rehearse

        is_model = actor != "user"
        checked, requests = self._to_propose(spec, is_own=not is_model, replaces_unreviewed=not is_model)
        about: dict[str, Any] = {"requests": requests, "triggered_by": triggered_by, "actor": actor}
        if is_model and not reviewed and self._needs_no_review(checked.spec):
            pending = self.activation(checked, is_reviewed=False, **about)
            with deciding("automatic", "nobody"):
                pending.approve()
        else:
            rehearsal = interruptible(rehearse, checked.spec, self._tract) if rehearsed else None
            pending = self.activation(checked, rehearsal=rehearsal, **about)
        return self._firing.keep(pending) if pending.status.is_open else pending

    def _to_propose(
        self, spec: OperationSpec, *, is_own: bool, replaces_unreviewed: bool
    ) -> tuple[CheckedSpec, frozenset[str]]:
        """Check a proposal. Return it with the fields that it asks to make volatile, if it is not the user's own."""
        original = CheckedSpec.of(spec)
        for action in original.spec.actions.values():
            check_code(action)
        checked = original if is_own else original.with_volatile(())
        if not is_own:
            self.typed.discard(checked.spec_hash)
        name = checked.spec.name
        is_active = any(self.registry.is_active(name, version.spec_hash) for version in (original, checked))
        if is_active and not (replaces_unreviewed and name in self.registry.unreviewed):
            raise SpecError(
                f"this version of operation {name!r} is already active; there is nothing to review"
            )
        return checked, frozenset() if is_own else original.spec.volatile

    def count_as_typed(self, spec: OperationSpec, pending: PendingActivation | None) -> None:
        """Treat the code as read, because the user typed it in a cell.

        This applies to this activation and to firings of this version. If another author proposes the same code, the
        user reads it.
        """
        self.typed.add(CheckedSpec.of(spec).spec_hash)
        if pending is not None:
            pending.is_typed = True

    def rehearse(self, spec: OperationSpec) -> ActionRehearsal:
        """Run an operation's actions on values drawn from its field types, and report the results.

        A rehearsal approves and stores nothing. Sandboxed actions run in the sandbox, and kernel code in a contained
        copy of this kernel. If there are no such copies, kernel code runs in the sandbox with a stub in place of the
        tract. Code that needs more is then not rehearsed, and the rehearsal says so.
        """
        from tract_jupyter.operations.rehearsal import rehearse

        checked = CheckedSpec.of(spec).spec
        for action in checked.actions.values():
            check_code(action)
        return interruptible(rehearse, checked, self._tract)

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
        """Let a model write an operation. The user then reads and activates it.

        The model for `chat` returns an operation as the arguments of a tool call. The operation is parsed, checked,
        analyzed and rehearsed in the sandbox. Then the user decides about it. Errors and reasons for rejection go
        back to the model, which makes a new proposal. Nothing is imported or run in this process before approval. The
        conversation is not committed. All requests count in `t.costs`.

        Args:
            text: the task, in the user's words.
            tries: the maximum number of requests for each version.
            versions: the maximum number of versions for review.
            client: the model to use. The default is the tract's model for `chat`.
            system_prompt: replaces the usual system prompt.
            observer: receives progress events.
            stop: stops the writing from another thread.
            triggered_by: the source of the request, for the reviewer.

        Returns:
            The result: `is_active`, the last `pending`, all attempts, and the outcome in a sentence. If no user is
            available, the proposal waits in the inbox.

        Raises:
            ContentError: the text is empty, or a number is invalid.
            LLMError: no model is available, or it returned no reply. A displayed request is withdrawn.
        """
        from tract_jupyter.operations.writing import Writing

        propose = partial(
            self.propose, triggered_by=triggered_by, actor=WRITER, rehearsed=True, reviewed=True
        )
        model = self._tract.models.client_for("chat", client)
        writing = Writing(model, observer, stop, tries, versions, propose, self._review.reviewer.decide_now)
        return writing.write(text, system_prompt, self.registry.operation_names)

    def activation(
        self, spec: OperationSpec | CheckedSpec, *, is_reviewed: bool = True, **options: Any
    ) -> PendingActivation:
        """Return the request to activate an operation. Nothing is compiled before its approval.

        `is_reviewed` is False if the pending is approved at once, without a user; see `propose`. The options are those
        of `PendingActivation`.
        """
        from tract_jupyter.operations.activation import PendingActivation

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
        """Return True if autonomy allows it, all code is sandboxed, and the name was never used in this tract."""
        is_crowded = len(self.registry.unreviewed) >= MOST_UNREVIEWED
        is_passive = spec.fires_on is None and not spec.two_stage  # never fires by itself and calls no model
        is_free = spec.is_sandboxed and is_passive and not is_crowded and not self._reviews_sandboxed()
        return is_free and not self._was_known(spec.name)

    def _was_known(self, name: str) -> bool:
        """Return True if an operation with this name was ever active, stored or requested, with any outcome."""
        from tract_jupyter.operations.activation import titles

        if self.registry.is_registered(name) or name in self.quarantined:
            return True
        with self._database.read() as connection:
            if self.stored.rows.get(connection, name) is not None:
                return True
            events = self._events.newest(connection, "operation.*", _MOST_LOOKED_AT)
        was_active = any(event.data.get("name") == name for event in events)
        return was_active or self._review.ledger.was_asked(titles(name))

    def last_approved(self, name: str) -> OperationSpec | None:
        """Return the version of an operation that this user approved last, even if it is no longer active."""
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
        """Revoke the approval of an operation. It becomes inactive and stays in the store for another review.

        Raises:
            UnknownOperationError: the operation is not active.
        """
        self.stored.revoke(name)
        self.on_change(name, None)

    def remove(self, name: str) -> None:
        """Deactivate an operation, and delete its spec and its handlers.

        Raises:
            UnknownOperationError: the operation is neither active nor quarantined.
        """
        with self._database.write():
            self.stored.remove(name)
            self._firing.bus.off(name)
            self._handlers.forget(name)
        self.on_change(name, None)

    # --- across restarts

    def look_again(self) -> None:
        """Load operations that other processes stored, replaced, revoked or removed since the last look.

        Operations that this user approved become active. This compiles and runs nothing.
        """
        self.stored.look_again()

    def review_quarantined(self, name: str) -> PendingActivation:
        """Return the pending that activates a stored operation, or approves an unreviewed one.

        Raises:
            SpecError: there is no such operation, or it is not readable.
        """
        if not self.stored.may_be_reviewed(name):
            line = self.waiting().get(name)
            if line is not None:
                raise SpecError(
                    f"the activation of operation {name!r} already waits for approval; '{line}' shows it"
                )
        spec = self.stored.to_review(name).spec
        checked, requests = self._to_propose(spec, is_own=False, replaces_unreviewed=True)
        pending = self.activation(checked, requests=requests, triggered_by=FROM_STORE)
        pending.origin = FROM_STORE
        return pending

    def rebuild(self, stored: StoredPending) -> Pending:
        """Rebuild the pending of another process. See `rebuilding.rebuilt`."""
        from tract_jupyter.operations.rebuilding import rebuilt

        return rebuilt(
            stored, self, tract=self._tract, reviewer=self._review.reviewer, handlers=self._handlers
        )

    def as_shown(self, stored: StoredPending) -> RemotePending:
        """Return a stored request in its original form, for rejection. See `rebuilding.as_shown`."""
        from tract_jupyter.operations.rebuilding import as_shown

        return as_shown(stored, tract=self._tract, reviewer=self._review.reviewer)

    # --- firing

    def in_runs(self) -> list[OperationSpec]:
        """Return the active, reviewed operations that take part in each run, sorted by name."""
        specs = (self.registry.reviewed_spec(name) for name in sorted(self.registry.operation_names))
        return [spec for spec in specs if spec is not None and spec.fires_in_runs]

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
        """Fire an operation. `Tract.fire` explains the other arguments.

        `ask` replaces the question to the user. `offer` is True if the user fired it by hand: if it has exactly one
        action and no handler decides, an available user decides, because approval alone would run nothing. If no
        handler decides, `choice` applies, the user's choice about the call that fires it. Or `does`, an approved
        action, runs without a question; if the pending is then still open, the user decides.
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
            unhandled = partial(self._run_action, does, ask)
        decided = self._firing.decide(
            pending, unhandled=unhandled, ask=ask, choice=choice, joins=execute_fn is None
        )
        pending = cast("DynamicPending", decided)
        if execute_fn is not None and pending.status is PendingStatus.APPROVED:
            return pending.result
        return pending

    def _guided(self, spec: OperationSpec, fields: dict[str, Any] | None, actor: str) -> dict[str, Any]:
        """Return the fields with their guidance, either from the caller or from a model."""
        values = spec.given_parameters().validate(fields if fields is not None else {})
        text, source = values["guidance"], "llm" if actor.startswith("agent") else "user"
        if text is None:
            text, source = self.write_guidance(spec, values), "llm"
        return {**values, GUIDANCE_FIELDS[0]: text, GUIDANCE_FIELDS[1]: source}

    def write_guidance(
        self, spec: OperationSpec, fields: Mapping[str, Any], instructions: str | None = None
    ) -> str:
        """Ask the model that decides about pendings for guidance on a firing, and return its text.

        Its request contains the fields and the messages of the context.

        Raises:
            LLMError: no model is available, or it returned no reply.
        """
        from tract_jupyter.context import guidance, message_text
        from tract_jupyter.prompts import guided_fields, guided_task

        client = self._tract.models.client_for("consult")
        values = {name: fields[name] for name in spec.fields if name in fields}
        messages = self._compiler.of(self._tract.head).messages if self._tract.head else ()
        texts = [guided_fields(canonical_json(values)), *map(message_text, messages)]
        return guidance(client, guided_task(spec.name, spec.description), texts, instructions)

    def _run_action(self, action: str, ask: Unhandled, pending: DynamicPending) -> None:
        """Run an action. An exception becomes the pending's error.

        If the pending is still open, call `ask`, or keep the pending for the user.
        """
        with suppress(Exception):
            pending.execute_tool(action, {})
        if pending.status is PendingStatus.PENDING:
            if callable(ask):
                ask(pending)
            else:
                self._review.reviewer.keep(pending)

    def _can_offer(self, pending: DynamicPending) -> bool:
        """Return True if the user is available or a recorded decision matches."""
        channel = self._review.reviewer.channel
        if channel.can_reach():
            return True
        recorded = channel.recorded()
        return recorded is not None and recorded.knows(pending.identity)

    def unguarded(self, operation: str) -> str:
        """Return the reason for asking the user instead of the operation's handlers; empty if the handlers decide."""
        return self._firing.bus.unguarded(operation)

    def _with_event(self, execute_fn: Callable[[Any], Any]) -> Callable[[DynamicPending], Any]:
        def execute(pending: DynamicPending) -> Any:
            canonical_json(pending.fields)  # an unrecordable firing must not run
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
        """Check that a pending's version of the operation is still active."""
        registry = self.registry
        if not registry.is_active(pending.operation, pending.spec_hash):
            if not registry.was_active(pending.spec_hash):
                return  # its class was compiled for a trial
            change = "replaced by another version" if registry.is_registered(pending.operation) else "removed"
            raise FingerprintError(
                f"operation {pending.operation!r} was {change} since this firing; fire it again"
            )


def _gains_nothing(new: OperationSpec, old: OperationSpec) -> bool:
    """Return True if the new version of an operation can access nothing that the old one cannot."""
    from tract_jupyter.operations.advice import gained, spec_reach

    return not gained(spec_reach(old), spec_reach(new))
