"""Regular expressions that somebody else wrote, with a time limit: one may be built to run forever."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PATTERN: Final = 2_000
"""Characters of a pattern."""
MAX_SECONDS: Final = 2.0
"""For all matches in one text; usual patterns need milliseconds for the longest one."""


def problem_of(pattern: str) -> str | None:
    """Return the problem with a pattern, None if there is none."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters, and may have {MAX_PATTERN}"
    import regex

    try:
        _compiled(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        return f"the pattern {pattern[:60]!r} cannot be read: {error}"
    return None


def matches(pattern: str, text: str, seconds: float = MAX_SECONDS) -> Iterator[Any]:
    """Yield all matches in a text.

    Raises:
        ContentError: the pattern cannot be used, or takes too long.
    """
    wrong = problem_of(pattern)
    if wrong is not None:
        raise ContentError(wrong)
    try:
        yield from _compiled(pattern).finditer(text, timeout=seconds, concurrent=True)
    except TimeoutError:
        raise ContentError(
            f"the pattern {pattern[:60]!r} takes more than {seconds:g} s for this text; write it so that there are "
            "fewer ways to match"
        ) from None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)
