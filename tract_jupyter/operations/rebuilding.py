"""Pendings of other processes, rebuilt from the store.

If any process can execute the decision, the pending gets its original class. Otherwise it is a `RemotePending`: its
code exists only in the process that asked, or that process waits for the decision. A `RemotePending` has only the
stored data: the original request and the values. Deciding it stores the decision. The process that asked reads the
decision and continues.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tract_jupyter.exceptions import PendingError, TrustError
from tract_jupyter.models import PendingStatus
from tract_jupyter.models.schema import Parameters
from tract_jupyter.operations.handlers import ACTIVATE_HANDLER, HandlerSpec
from tract_jupyter.operations.rehearsal import ActionRehearsal
from tract_jupyter.operations.spec import spec_from_json
from tract_jupyter.review import (
    ACTIVATE,
    CLIENT,
    FieldPending,
    Question,
    approval_terms,
    client_left_note,
    has_ended,
    is_on_other_host,
    is_waited_for,
    not_run_note,
    own_arguments,
    process_text,
    request_from_dict,
    this_process,
    unfinished_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tract_jupyter.operations.handlers import Handlers
    from tract_jupyter.operations.lifecycle import Operations
    from tract_jupyter.review import CodeBlock, Ledger, Pending, Reviewer, ReviewRequest, Subject
    from tract_jupyter.storage import StoredDecision, StoredPending


DEFINITIONS = frozenset({ACTIVATE, ACTIVATE_HANDLER})
_LATER = "Later, the same request uses the approval, or asks again"
_AGAIN = "resume its turn, or run its cell again"


class RemotePending(FieldPending):
    """A request of another process."""

    runs_elsewhere = True

    def __init__(self, stored: StoredPending, *, tract: Any) -> None:
        super().__init__(stored.operation, tract=tract, fields=stored.fields, triggered_by=stored.triggered_by,
                         actor=stored.actor)  # fmt: skip
        self.stored = stored
        self.request = _changeable(_request(stored), stored.fields)
        self.field_parameters = self.request.fields or Parameters("fields", [])
        self._subject = self.request.subject
        if self._subject is not None:
            self.kind, self.definition_hash = self._subject.kind, self._subject.definition_hash
            self.volatile = frozenset(stored.fields) - frozenset(self._subject.values)

    @property
    def name(self) -> str:
        """The name of the operation or tool."""
        return self.operation if self._subject is None else self._subject.name

    @property
    def title(self) -> str:
        """The title of the original request."""
        return self.request.title

    def _frozen(self, fields_json: str) -> Question:
        """Return the question with the current values, or with the stored ones if they are not editable."""
        if self._subject is None:
            return Question(fields_json, self.request.fingerprint, self.stored.identity)
        return super()._frozen(fields_json)

    @property
    def subject(self) -> Subject | None:
        """The subject of a standing approval, or None if no standing approval is possible."""
        return None if self._subject is None else super().subject

    @property
    def is_definition(self) -> bool:
        """True if the other process would activate code."""
        return self.operation in DEFINITIONS

    @property
    def expires_at(self) -> datetime | None:
        """The stored expiry time."""
        return self.stored.expires_at

    def check_current(self) -> None:
        """Check that the displayed request is the original one.

        Raises:
            TrustError: the request was modified, or it belongs to another user.
        """
        if self.doubt:
            raise TrustError(f"{self.doubt} Decide it in the process that asked, or reject it")

    def runs_nothing(self, action: str) -> bool:
        """Return True if the original request offers approval as a neutral action."""
        offered = self.request.action(action)
        return action == "approve" and offered is not None and offered.style == "neutral"

    def is_instant(self, action: str) -> bool:
        """Return True for actions that only stop the request. The process that asked runs all others."""
        return action in {"reject", "pass_through"}

    def review_request(self, note: str = "") -> ReviewRequest:
        """Return the original request with a note about the process that asked."""
        actions = self.request.actions if self.status.is_open else ()
        who = process_text(self.stored.origin)
        here, first = f"Asked by {who}, which executes the decision.", ""
        if client_left(self.stored):
            here = client_left_note(self.actor)
        elif has_ended(self.stored.origin):  # a panel shows the first sentence
            first = f"An approval runs nothing now, because its process ({who}) has ended. {_LATER}."
            here = ""
        reasons = (self.doubt, unfinished_text(self._unfinished_decision), first, self.request.why, here)
        why = " ".join(filter(None, reasons))
        return replace(self.request, fingerprint=self.fingerprint, actions=actions, why=why, note=note)

    @property
    def _unfinished_decision(self) -> StoredDecision | None:
        """The decision that a process began to carry out before it ended, or perhaps still does on another host."""
        last = self.unfinished
        if last is None or last.started_at is None:
            return None
        return last if has_ended(last.claimed_by) or is_on_other_host(last.claimed_by) else None

    def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Store the choice of an action, including the operation's actions."""
        action = self.request.action(name)
        if action is None or name in {"approve", "reject"}:
            return super().execute_tool(name, arguments)
        with self.on_terms(approval_terms(name, arguments)):
            values = action.parameters.validate(own_arguments(arguments))
            return self.through_gate(name, values, self._hand_over)

    def run_approved(self) -> None:
        """Leave the execution to the process that asked."""
        self.status = PendingStatus.APPROVED
        self._hand_over()

    def _hand_over(self) -> None:
        if client_left(self.tract.review.ledger.get(self.pending_id) or self.stored):
            self.note = not_run_note(self.actor)
            return
        who = process_text(self.stored.origin)
        if has_ended(self.stored.origin):
            self.note = f"Its process ({who}) has ended, so nothing ran: {_AGAIN}. {_LATER}."
            return
        otherwise = f"If that process has ended, nothing ran: {_AGAIN}, and the approval applies there."
        self.note = f"Handed to {who}. {otherwise}"


def client_left(stored: StoredPending) -> bool:
    """Return True if an MCP client made the call and no longer waits for it."""
    return stored.actor.startswith(CLIENT) and not is_waited_for(stored)


def stored_asking_block(stored: StoredPending) -> CodeBlock | None:
    """Return the code block with the line that asked. None if the original request had none."""
    try:
        code = _request(stored).code
    except PendingError:
        return None
    return next((block for block in code if block.marked is not None), None)


def _changeable(request: ReviewRequest, fields: Mapping[str, Any]) -> ReviewRequest:
    """Return the request. Remove editing and standing approvals if its subject covers more than the fields."""
    if request.subject is None or request.subject.values.items() <= fields.items():
        return request
    return replace(request, fields=None, subject=None)


def _request(stored: StoredPending) -> ReviewRequest:
    if stored.request is None:
        raise PendingError(f"{stored.title!r} was never displayed; run its cell again")
    try:
        return request_from_dict(stored.request)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PendingError(
            f"the stored request {stored.title!r} is not readable ({error}); run its cell again"
        ) from None


_DOUBT = "Another user made this request, or it has changed in the store."


def rebuilt(
    stored: StoredPending, operations: Operations, *, tract: object, reviewer: Reviewer, handlers: Handlers
) -> Pending:
    """Rebuild the pending of another process.

    If that process waits, or only it has the code, the decision is made here and executed there.

    Raises:
        PendingError: the stored request is not readable.
    """
    ledger = reviewer.ledger
    original = replace(stored, resumable=False)
    # If `resumable` was set by SQL, a rebuilt pending would run nothing.
    if stored.resumable and ledger.vouches(original):
        stored = original
    asked_here = reviewer.asked_here(stored.pending_id)
    if asked_here is not None and not stored.resumable:
        return asked_here
    if not stored.resumable or is_waited_for(stored):
        return _resumed(RemotePending(stored, tract=tract), stored, ledger)
    return _resumed(_recreated(stored, operations, tract, handlers), stored, ledger)


def as_shown(stored: StoredPending, *, tract: object, reviewer: Reviewer) -> RemotePending:
    """Return a stored request in its original form, with any values, for rejection."""
    readable = stored if isinstance(stored.fields, dict) else replace(stored, fields={})
    return cast("RemotePending", _resumed(RemotePending(readable, tract=tract), readable, reviewer.ledger))


def _recreated(stored: StoredPending, operations: Operations, tract: object, handlers: Handlers) -> Pending:
    by, fields = stored.triggered_by, stored.fields
    if stored.operation == ACTIVATE:
        volatile = fields.get("volatile")
        requests = [str(name) for name in volatile] if isinstance(volatile, list) else ()
        spec = spec_from_json(str(fields.get("spec", "")))
        rehearsal = ActionRehearsal.from_dict(fields.get("rehearsal"))
        return operations.activation(spec, requests=requests, rehearsal=rehearsal, triggered_by=by)
    if stored.operation == ACTIVATE_HANDLER:
        return handlers.propose(HandlerSpec.from_json(str(fields.get("handler", ""))), triggered_by=by)
    built_in = operations.restored(stored.operation, fields)
    if built_in is None:
        fired = operations.registry.require_class(stored.operation)
        return fired(tract=tract, fields=fields, triggered_by=by)
    built_in.triggered_by = by
    return built_in


def _resumed(pending: Pending, stored: StoredPending, ledger: Ledger) -> Pending:
    pending.actor, pending.pending_id, pending.created_at = stored.actor, stored.pending_id, stored.created_at
    pending.branch, pending.rounds = stored.branch, _rounds_seen(stored, ledger)
    pending.status, pending.unfinished = ledger.standing(stored)
    pending.doubt = "" if ledger.vouches(stored) else _DOUBT
    pending.origin = None if stored.origin == this_process() else stored.origin
    pending.error, pending.is_unshown = stored.error, stored.is_unshown
    pending.executed_at, pending.on_timeout = stored.executed_at, stored.on_timeout
    if stored.expires_at is not None:
        pending.timeout = (stored.expires_at - stored.created_at).total_seconds()
        pending.on_timeout = "deny"  # the signed expiry time exists only with this setting
    pending.asked_earlier(stored_asking_block(stored))
    return pending


def _rounds_seen(stored: StoredPending, ledger: Ledger) -> int:
    """Return the number of decisions in a stored pending. 0 if a newer decision exists in the store."""
    now = ledger.get(stored.pending_id)
    if now is None or (now.fingerprint, now.status) != (stored.fingerprint, stored.status):
        return 0
    return len(ledger.decisions(stored.pending_id))
