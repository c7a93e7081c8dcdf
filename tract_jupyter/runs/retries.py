"""Whether an operation is tried again, and when."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tract_jupyter.runs.terms import ErrorCode, OperationStatus

if TYPE_CHECKING:
    from tract_jupyter.runs.model import OperationResult, Retry

RETRIED: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.PROVIDER, ErrorCode.RATE_LIMITED})
"""Codes that are tried again where `retry_on` names none (E25)."""

MAX_BACKOFF_MS: Final = 120_000
"""The longest wait of our own, however much it grew."""

MAX_RETRY_AFTER_MS: Final = 3_600_000
"""Whoever asks for a longer wait is not asked again."""


def retry_delay(retry: Retry, attempt: int, result: OperationResult, seed: int) -> float | None:
    """Return the seconds to wait before another attempt, None if there is none.

    The wait grows by `multiplier` with each attempt, give or take the part `jitter`; that is drawn from a generator of
    its own, so that it is the same in each replay. `details["retryAfterMs"]` of the error is the least that is waited.

    Args:
        retry: how often, and for which errors.
        attempt: the number of the one that ended, from 1.
        result: how it ended.
        seed: of the run, as in the operation's context.
    """
    error = result.error
    if result.status is not OperationStatus.ERROR or error is None or attempt >= retry.max_attempts:
        return None
    if error.code not in (retry.retry_on or RETRIED):
        return None
    wait = min(retry.backoff_ms * retry.multiplier ** (attempt - 1), MAX_BACKOFF_MS)
    draw = random.Random(f"{seed}:{result.operation_id}:{attempt}").uniform(-1, 1)  # noqa: S311 # no secret
    wait += wait * retry.jitter * draw
    asked = error.details.get("retryAfterMs")
    if isinstance(asked, (int, float)) and not isinstance(asked, bool):
        if not asked <= MAX_RETRY_AFTER_MS:
            return None
        wait = max(wait, asked)
    return wait / 1_000
