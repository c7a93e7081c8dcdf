"""Questions to users and their decisions in one tract: the part `Tract.review`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import check_limit
from tract_jupyter.review.gate import Gate
from tract_jupyter.review.grants import Grants
from tract_jupyter.review.ledger import Ledger
from tract_jupyter.review.reviewer import Reviewer
from tract_jupyter.storage import DecisionRows, GrantRows, PendingRows

if TYPE_CHECKING:
    from tract_jupyter.context import Repository
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.trust import Signer, Trust
    from tract_jupyter.storage import StoredDecision, StoredPending


_logger = logging.getLogger(__name__)
WRITER: Final = "agent:writer"
"""The actor of a model that writes an operation for a user. It reads rejections in its own turn, not in the context."""
_ANSWERED = frozenset({"tool_result", "tool_call", "script_call", "run_script"})


def _reads_reason_elsewhere(pending: Pending) -> bool:
    """Return True if the model needs no separate message about a rejection.

    The model reads the reason in the answer to its tool call, and a message would separate the answer from the call. A
    refused operation of a run appears in the run, and a user message would start a new turn inside the run. A model
    that writes an operation has a separate turn.
    """
    if pending.actor.startswith("operation:") or pending.actor == WRITER:
        return True
    is_models_call = pending.actor != "user" and (pending.triggered_by or "").startswith("tools.")
    return is_models_call or pending.operation in _ANSWERED


class Review:
    """The inbox, the decisions and the standing approvals of one tract."""

    def __init__(self, repository: Repository, trust: Trust, signer: Signer) -> None:
        database, tract_id = repository.database, repository.tract_id
        self.trust = trust
        self.signer = signer
        self._repository = repository
        self._tells_rejections = True
        self.grants = Grants(database, GrantRows(tract_id), repository.events, signer)
        self.ledger = Ledger(
            database, PendingRows(tract_id), DecisionRows(tract_id), repository.events, signer
        )
        self.gate = Gate(self.ledger, self.grants, self._tell_rejection)
        self.reviewer = Reviewer(self.ledger, self.gate, self.grants)

    @property
    def tells_rejections(self) -> bool:
        """True if the model receives the reasons for rejections."""
        return self._tells_rejections

    @tells_rejections.setter
    def tells_rejections(self, tells: bool) -> None:
        """Choose if the model receives the reasons for rejections."""
        self._tells_rejections = tells

    def inbox(self, limit: int = 100) -> list[StoredPending]:
        """Return the stored pendings of all processes that await a decision, oldest first."""
        return self.ledger.waiting(check_limit(limit))

    def decisions(self, *, limit: int = 100) -> list[StoredDecision]:
        """Return the decisions, newest first, with decider, time, channel, arguments and subject."""
        return self.ledger.newest_decisions(check_limit(limit))

    def _tell_rejection(self, pending: Pending, decision: Decision) -> None:
        """Commit a user's reason for a rejection to the branch that asked.

        If the commit fails, the decision remains valid.
        """
        if decision.action != "reject" or not decision.reason or not decision.is_personal:
            return
        if not self._tells_rejections or pending.branch is None or _reads_reason_elsewhere(pending):
            return
        about = {
            "rejected": pending.pending_id,
            "operation": pending.operation,
            "decided_by": decision.decided_by,
        }
        commits, branch = self._repository.commits, self._repository.refs.position.branch
        try:
            text = f"I rejected {pending.title!r}: {decision.reason}"
            content = {"content_type": "dialogue", "role": "user", "text": text, "name": None}
            if pending.branch == branch:
                commits.commit(content, metadata=about)
            else:
                commits.commit_on(pending.branch, content, metadata=about)
        except TractError:
            _logger.warning(
                "the reason of the rejection of %r could not be committed", pending.title, exc_info=True
            )
