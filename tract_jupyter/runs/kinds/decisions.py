"""The pendings that operations of runs have made: fired, found with their decisions, and withdrawn."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import RUN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.runs.model import OperationContext

_KEPT: Final = 1_000


class RunDecisions:
    """The pendings that operations of runs have made.

    Args:
        tract: the `Tract`. Its handlers decide first, and its inbox has the undecided pendings.
    """

    def __init__(self, tract: Any) -> None:
        self._tract = tract
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def fire(
        self, name: str, fields: dict[str, Any], context: OperationContext, action: str | None = None
    ) -> Any:
        """Fire a dynamic operation. If the user has to decide, the pending is in the inbox when this returns.

        Raises:
            UnknownOperationError: no such operation is active.
            ParameterError: the fields do not fit.
        """
        pending = self._tract.operations.fire(
            name, fields, ask=self._leave_to_user, does=action,
            actor=f"operation:{context.operation_id}"[:128], triggered_by=asked_by(context.run_id),
        )  # fmt: skip
        self.keep(pending)
        return pending

    def keep(self, pending: Any) -> None:
        """Remember a pending: only this object holds the value that its approval returned."""
        with self._lock:
            self._kept[pending.pending_id] = pending
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def find(self, pending_id: str) -> Any:
        """Return the pending with the decision of this user; None if it is unknown."""
        with self._lock:
            pending = self._kept.get(pending_id)
        if pending is None:
            pending = self._from_store(pending_id)
        if pending is not None and pending.status.is_open:
            pending.tract.review.gate.catch_up(pending)
            if pending.runs_elsewhere and not self._is_proven(pending):
                pending.status = PendingStatus.PENDING  # the stored decision is not proven
        return pending

    def forget(self, pending_id: str) -> bool:
        """Forget a pending; return True if it was remembered."""
        with self._lock:
            return self._kept.pop(pending_id, None) is not None

    def withdraw(self, run_id: str, pending_ids: Iterable[str]) -> None:
        """Reject the open pendings of a run that has ended.

        Args:
            run_id: the run; the pendings that it made in this process are known.
            pending_ids: other pendings of the run, also of an earlier process.
        """
        with self._lock:
            fired = {
                key
                for key, one in self._kept.items()
                if getattr(one, "triggered_by", None) == asked_by(run_id)
            }
        for pending_id in {*fired, *pending_ids}:
            with suppress(TractError):  # another process may decide at the same time
                pending = self.find(pending_id)
                if pending is not None and pending.status.is_open:
                    pending.reject("the run has ended")

    def _is_proven(self, pending: Any) -> bool:
        """Return True if the stored decision is this user's, or only stops something."""
        if pending.status in {PendingStatus.REJECTED, PendingStatus.EXPIRED}:
            return True
        ledger = pending.tract.reviewer.ledger
        news = ledger.news(pending)
        return news is not None and ledger.proves(news, pending.fingerprint)

    def _leave_to_user(self, pending: Any) -> None:
        if not self._tract.reviewer.granted(pending):
            self._tract.reviewer.keep(pending)

    def _from_store(self, pending_id: str) -> Any:
        """Return a stored pending as undecided: its decisions are checked one by one."""
        tract = self._tract
        stored = tract.reviewer.ledger.get(pending_id)
        if stored is None:  # the request of a tool call belongs to the tract at the top
            with suppress(TractError):
                tract = tract.executor.top.tract
                stored = tract.reviewer.ledger.get(pending_id)
        if stored is None:
            return None
        pending = tract.operations.rebuild(stored)
        pending.status, pending.rounds, pending.executed_at = PendingStatus.PENDING, 0, None
        return pending


def asked_by(run_id: str) -> str:
    """Return the name of a run as the cause of something."""
    return RUN + run_id
