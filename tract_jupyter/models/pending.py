"""The states of a pending decision."""

from __future__ import annotations

from enum import StrEnum


class PendingStatus(StrEnum):
    """pending → approved, rejected, passed_through, expired, failed.

    `approved` without an execution time means approved, but not run yet. `failed` means that the approved action raised
    an error; the error is stored, and the action can be tried again. `expired` means that the timeout passed without a
    decision.
    """

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    PASSED_THROUGH = "passed_through"
    EXPIRED = "expired"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """True if a decision can still be made."""
        return self in {PendingStatus.PENDING, PendingStatus.FAILED}
