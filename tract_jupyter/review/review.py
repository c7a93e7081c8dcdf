"""What one tract asks persons, and what they decided: the part `Tract.review`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.models.checks import check_limit
from tract_jupyter.review.gate import Gate
from tract_jupyter.review.grants import Grants
from tract_jupyter.review.ledger import Ledger
from tract_jupyter.review.records import Proofs
from tract_jupyter.review.rejections import Rejections
from tract_jupyter.review.reviewer import Reviewer
from tract_jupyter.storage.questions import DecisionRows, PendingRows
from tract_jupyter.storage.signed import GrantRows

if TYPE_CHECKING:
    from tract_jupyter.context.repository import Repository
    from tract_jupyter.review.trust import Signer, Trust
    from tract_jupyter.storage.questions import StoredDecision


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
        self.grants = Grants(database, GrantRows(tract_id), signer)
        self.ledger = Ledger(
            database, PendingRows(tract_id), DecisionRows(tract_id), repository.events, Proofs(signer)
        )
        self.gate = Gate(self.ledger, self.grants, self.rejections.learn)
        self.reviewer = Reviewer(self.ledger, self.gate, self.grants)

    @property
    def tells_rejections(self) -> bool:
        """Whether the model is told why its proposals were turned down."""
        return self.rejections.are_told

    @tells_rejections.setter
    def tells_rejections(self, told: bool) -> None:
        """Have the model told, or not."""
        self.rejections.are_told = told

    def inbox(self, limit: int = 100) -> list[Any]:
        """Return the stored pendings that await a decision, oldest first, whichever process asked.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self.ledger.waiting(check_limit(limit))

    def decisions(self, *, limit: int = 100) -> list[StoredDecision]:
        """Return what was decided, newest first: who, when, over which channel, with which arguments, about what."""
        return self.ledger.newest_decisions(check_limit(limit))
