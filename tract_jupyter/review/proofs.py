"""What is signed about pendings and decisions, so that nothing else in a store can pass for it.

Three things are: what is asked, each decision, and what came of the last one. All name the pending.
Whether a decision is left to the process that asked is signed too, so that a used one is not left to anybody again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.review.decision import Decision
from tract_jupyter.storage.clock import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage.decisions import StoredDecision
    from tract_jupyter.storage.pendings import StoredPending

_ASKED, _DECISION, _OUTCOME = "pending", "decision", "outcome"


class Outcome(NamedTuple):
    """What came of the decision of a round: the part of it that is signed."""

    round: int
    status: str
    fingerprint: str
    executed_at: str | None


class Proofs:
    """Signs for one tract, and verifies."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def of_decision(self, decision: Decision, pending_id: str, round_: int, *, handed_over: bool) -> str:
        """The signature of a decision, and of whether it is left to the process that asked."""
        return self._sign(_DECISION, decision.signed_text(pending_id, round_), handed_over)

    def holds(self, stored: StoredDecision, *, handed_over: bool) -> bool:
        """Whether this user signed a decision, and that it is left to the process that asked or not."""
        text = Decision.of(stored).signed_text(stored.pending_id, stored.round)
        return self._verify(stored.signature, _DECISION, text, handed_over)

    def of_asked(self, pending: Reviewable, shown: Mapping[str, Any] | None) -> str:
        """The signature of what is asked and shown."""
        return self._sign(_ASKED, *_asked(pending, shown))

    def vouches(self, stored: StoredPending) -> bool:
        """Whether a pending lies in the store as a process of this user asked about it."""
        return self._verify(stored.signature, _ASKED, *_asked(stored, stored.request))

    def of_outcome(self, pending_id: str, outcome: Outcome) -> str:
        """The signature of what came of the last decision."""
        return self._sign(_OUTCOME, pending_id, list(outcome))

    def came_out(self, stored: StoredPending, outcome: Outcome) -> bool:
        """Whether this is what came of the last decision on a pending."""
        return self._verify(stored.outcome, _OUTCOME, stored.pending_id, list(outcome))

    def _sign(self, kind: str, *parts: Any) -> str:
        return self._signer.sign(kind, parts)

    def _verify(self, signature: str, kind: str, *parts: Any) -> bool:
        return self._signer.verify(kind, parts, signature)


def _asked(what: Reviewable | StoredPending, request: Mapping[str, Any] | None) -> list[Any]:
    times = [to_text(what.created_at), moment_text(what.expires_at)]
    who = [what.pending_id, what.operation, what.actor, what.triggered_by, what.branch, what.resumable]
    return [*who, *times, what.fingerprint, what.fields, request]


def moment_text(moment: datetime | None) -> str | None:
    """A time as the store keeps it, None for none."""
    return None if moment is None else to_text(moment)
