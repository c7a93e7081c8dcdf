"""The questions of one tract to persons, and their decisions: the part `Tract.review`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import check_limit
from tract_jupyter.review.gate import Gate
from tract_jupyter.review.grants import Grants
from tract_jupyter.review.ledger import Ledger
from tract_jupyter.review.records import Signatures
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
"""The actor that a model is which writes an operation for a person; it is told in its own turn, not in the context."""
_ANSWERED = frozenset({"tool_result", "tool_call", "script_call", "run_script"})


class Rejections:
    """Tells the model why its proposals were turned down.

    Attributes:
        are_told: False if the model is not told.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.are_told = True

    def learn(self, pending: Pending, decision: Decision) -> None:
        """Commit a person's reason for a rejection to the branch that asked.

        The decision stands, also where that cannot be done.
        """
        is_reason = decision.action == "reject" and decision.reason and decision.is_personal
        if not (self.are_told and is_reason) or _is_told_anyway(pending) or pending.branch is None:
            return
        about = {
            "rejected": pending.pending_id,
            "operation": pending.operation,
            "decided_by": decision.decided_by,
        }
        commits, branch = self._repository.commits, self._repository.refs.position.branch
        try:
            said = f"I turned down {pending.title!r}: {decision.reason}"
            content = {"content_type": "dialogue", "role": "user", "text": said, "name": None}
            if pending.branch == branch:
                commits.commit(content, metadata=about)
            else:
                commits.commit_on(pending.branch, content, metadata=about)
        except TractError:
            _logger.warning("why %r was turned down could not be committed", pending.title, exc_info=True)


def _is_told_anyway(pending: Pending) -> bool:
    """Return True if a message about it would be out of place.

    A model reads the reason in the answer of its tool call, which a message would part from the call. What an operation
    of a run was refused is in the run; a message of the user would begin another turn in the midst of it. Who writes an
    operation has a turn of its own.
    """
    if pending.actor.startswith("operation:") or pending.actor == WRITER:
        return True
    is_models_call = pending.actor != "user" and (pending.triggered_by or "").startswith("tools.")
    return is_models_call or pending.operation in _ANSWERED


class Review:
    """The inbox, the decisions and the standing approvals of one tract.

    Args:
        repository: where rejections are told.
        trust: signs and verifies approvals.
        signer: the same, for this tract alone.

    Attributes:
        ledger: what was asked and decided.
        grants: the standing approvals.
        gate: carries decisions out, once each.
        reviewer: shows questions to a person.
        rejections: tells the model why something was turned down.
    """

    def __init__(self, repository: Repository, trust: Trust, signer: Signer) -> None:
        database, tract_id = repository.database, repository.tract_id
        self.trust = trust
        self.signer = signer
        self.rejections = Rejections(repository)
        self.grants = Grants(database, GrantRows(tract_id), repository.events, signer)
        self.ledger = Ledger(
            database, PendingRows(tract_id), DecisionRows(tract_id), repository.events, Signatures(signer)
        )
        self.gate = Gate(self.ledger, self.grants, self.rejections.learn)
        self.reviewer = Reviewer(self.ledger, self.gate, self.grants)

    @property
    def tells_rejections(self) -> bool:
        """True if the model is told why its proposals were turned down."""
        return self.rejections.are_told

    @tells_rejections.setter
    def tells_rejections(self, told: bool) -> None:
        """Have the model told, or not."""
        self.rejections.are_told = told

    def inbox(self, limit: int = 100) -> list[StoredPending]:
        """Return the stored pendings that await a decision, oldest first, whichever process asked.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self.ledger.waiting(check_limit(limit))

    def decisions(self, *, limit: int = 100) -> list[StoredDecision]:
        """Return what was decided, newest first: who, when, over which channel, with which arguments, about what."""
        return self.ledger.newest_decisions(check_limit(limit))
