"""The state of a tract (its branch, its totals, its pending requests), and of a decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tract_jupyter.models.commit import show_tokens

if TYPE_CHECKING:
    from tract_jupyter.models.commit import Correction


@dataclass(frozen=True, slots=True)
class StatusInfo:
    """The state of a tract: branch, tip and totals."""

    tract_id: str
    location: str
    branch: str
    head: str | None
    commit_count: int
    message_count: int
    token_count: int
    token_source: str
    operations: tuple[str, ...]
    waiting: int
    """The number of requests that await a decision."""
    quarantined: tuple[str, ...]
    """Stored operations that are not active, because no approval of this user covers them."""
    quarantined_handlers: tuple[str, ...] = ()
    """Saved handlers that are not active, as `operation/name`. The user decides instead of them."""
    is_detached: bool = False
    max_tokens: int | None = None
    """The budget, if there is one."""

    corrected_by: Correction | None = None
    """The correction of an estimated `token_count` by a provider's count of a prompt."""

    @property
    def tokens(self) -> str:
        """The token count for display: with `≈` for an estimate, and with the source of its correction."""
        return f"{show_tokens(self.token_count, self.token_source)}{self._corrected}"

    @property
    def tokens_phrase(self) -> str:
        """The token count with the budget and the word `tokens`, before the source of its correction."""
        limit = f" of {self.max_tokens:,}" if self.max_tokens else ""
        return f"{show_tokens(self.token_count, self.token_source)}{limit} tokens{self._corrected}"

    @property
    def _corrected(self) -> str:
        by = self.corrected_by
        return "" if by is None else f" (as {by.model or 'the provider'} counts)"


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
