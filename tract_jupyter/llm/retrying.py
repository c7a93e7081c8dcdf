"""Asking a provider again: after the pause that it names, else after one that doubles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from tract_jupyter.exceptions import LLMRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.llm.call import Call

LONGEST_PAUSE: Final = 60.0
"""Seconds. A provider that asks for more is not waited for: the error says how long it would be."""
_LONGEST_OWN_PAUSE: Final = 8.0

T = TypeVar("T")


def with_retries(attempt: Callable[[], T], call: Call, *, max_retries: int, backoff: float) -> T:
    """Return what `attempt` gives, calling it again while its failure may pass.

    Raises:
        LLMRequestError: the last failure.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    own = wait_exponential(multiplier=backoff, max=_LONGEST_OWN_PAUSE)

    def pause(state: Any) -> float:
        named = state.outcome.exception().retry_after
        return float(own(state)) if named is None else float(named)

    retrying = Retrying(
        stop=stop_after_attempt(max_retries + 1), retry=retry_if_exception(_may_pass), wait=pause,
        sleep=call.pause, reraise=True,
    )  # fmt: skip
    return retrying(attempt)


def _may_pass(error: BaseException) -> bool:
    return (
        isinstance(error, LLMRequestError)
        and error.is_transient
        and (error.retry_after is None or error.retry_after <= LONGEST_PAUSE)
    )
