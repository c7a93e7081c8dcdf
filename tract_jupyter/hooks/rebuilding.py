"""Making pendings again from the store: for another process, or after a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.builtin.activation import ACTIVATE
from tract_jupyter.hooks.builtin.handler import ACTIVATE_HANDLER
from tract_jupyter.hooks.dynamic.spec import spec_from_json
from tract_jupyter.hooks.handler_spec import HandlerSpec
from tract_jupyter.hooks.remote import RemotePending, stored_asking_block
from tract_jupyter.review.process import this_process
from tract_jupyter.review.records import is_waited_for

if TYPE_CHECKING:
    from tract_jupyter.hooks.builtin.activation import PendingActivation
    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.hooks.registry import OperationRegistry
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.storage.pendings import StoredPending

_DOUBT = "This was asked by another user, or changed in the store since."


class Rebuilding:
    """The part of `Operations` that makes pendings again."""

    registry: OperationRegistry
    _tract: Any
    _ledger: Ledger

    def _activation(self, spec: OperationSpec, **options: Any) -> PendingActivation:
        raise NotImplementedError

    def rebuild(self, stored: StoredPending) -> Pending:
        """Make the pending again that another process asked about.

        If that process waits, or what would run lives only there, it can be decided here and is carried out there.

        Raises:
            PendingError: what was shown cannot be read.
        """
        as_asked = replace(stored, resumable=False)
        if stored.resumable and self._ledger.vouches(as_asked):  # set by SQL: made again it would run nothing
            stored = as_asked
        asked_here = self._tract.reviewer.asked_here(stored.pending_id)
        if asked_here is not None and not stored.resumable:
            return asked_here  # type: ignore[no-any-return] # it is one of ours
        if not stored.resumable or is_waited_for(stored):
            return self._resumed(RemotePending(stored, tract=self._tract), stored)
        return self._resumed(self._made_again(stored), stored)

    def _made_again(self, stored: StoredPending) -> Pending:
        by, fields, tract = stored.triggered_by, stored.fields, self._tract
        if stored.operation == ACTIVATE:
            asked = fields.get("volatile")
            requests = [str(name) for name in asked] if isinstance(asked, list) else ()
            spec = spec_from_json(str(fields.get("spec", "")))
            return self._activation(spec, requests=requests, triggered_by=by)
        if stored.operation == ACTIVATE_HANDLER:
            pending: Pending = tract.handlers.propose(
                HandlerSpec.from_json(str(fields.get("handler", ""))), triggered_by=by
            )
            return pending
        built_in: Pending | None = tract.restored(stored.operation, fields)
        if built_in is None:
            return self.registry.require_class(stored.operation)(tract=tract, fields=fields, triggered_by=by)
        built_in.triggered_by = by
        return built_in

    def _resumed(self, pending: Pending, stored: StoredPending) -> Pending:
        pending.actor, pending.pending_id, pending.created_at = (
            stored.actor,
            stored.pending_id,
            stored.created_at,
        )
        pending.branch, pending.rounds = stored.branch, self._rounds_seen(stored)
        pending.status, pending.unfinished = self._ledger.standing(stored)
        pending.doubt = "" if self._ledger.vouches(stored) else _DOUBT
        pending.origin = None if stored.origin == this_process() else stored.origin
        pending.error, pending.is_unshown = stored.error, stored.is_unshown
        pending.executed_at, pending.on_timeout = stored.executed_at, stored.on_timeout
        if stored.expires_at is not None:
            pending.timeout = (stored.expires_at - stored.created_at).total_seconds()
            pending.on_timeout = "deny"  # nothing else has such a time, which is signed
        pending.asked_earlier(stored_asking_block(stored))
        return pending

    def _rounds_seen(self, stored: StoredPending) -> int:
        """How many decisions a stored pending shows; none if it was decided about since it was read."""
        now = self._ledger.get(stored.pending_id)
        if now is None or (now.fingerprint, now.status) != (stored.fingerprint, stored.status):
            return 0
        return len(self._ledger.decisions(stored.pending_id))
