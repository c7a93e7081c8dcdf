"""The states of something that awaits a decision."""

from __future__ import annotations

from enum import StrEnum


class PendingStatus(StrEnum):
    """pending → approved, rejected, passed_through, failed.

    `approved` without an execution time means decided, not run yet. `failed` means approved, and what ran raised;
    it keeps the error and can be tried again.
    """

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    PASSED_THROUGH = "passed_through"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """Whether a decision can still be made."""
        return self in {PendingStatus.PENDING, PendingStatus.FAILED}
