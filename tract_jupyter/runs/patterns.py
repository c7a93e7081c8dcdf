"""Regular expressions of operations, with a limit on their time: a pattern may be written to take for ever."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.kinds.base import OperationFailed
from tract_jupyter.runs.terms import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PATTERN: Final = 2_000
"""Characters of a pattern."""
MAX_SECONDS: Final = 2.0
"""For all matches in one text; usual patterns need milliseconds for the longest one."""


def problem_of(pattern: str) -> str | None:
    """What is wrong with a pattern, None if nothing is."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters, and may have {MAX_PATTERN}"
    import regex

    try:
        _compiled(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        return f"the pattern {pattern[:60]!r} cannot be read: {error}"
    return None


def replace(pattern: str, replacement: str, text: str) -> str:
    r"""Replace all matches; `\1` and `\g<name>` in the replacement stand for groups.

    Raises:
        OperationFailed: the pattern or the replacement cannot be used, it takes too long, or the text grows too large.
    """
    parts, place, size = [], 0, 0
    for match in _matches(pattern, text):
        try:
            new = match.expand(replacement)
        except (IndexError, ValueError, LookupError) as error:
            raise OperationFailed.invalid(
                f"the replacement {replacement[:60]!r} cannot be used: {error}"
            ) from None
        parts += [text[place : match.start()], new]
        size, place = size + len(parts[-2]) + len(new), match.end()
        if size > MAX_TEXT:
            raise OperationFailed.invalid(
                f"the text would have more than {MAX_TEXT} characters; replace less"
            )
    return "".join([*parts, text[place:]])


def first(pattern: str, text: str) -> str | None:
    """The first group of the first match that took part in it, else the whole match; None if there is no match.

    Raises:
        OperationFailed: the pattern cannot be used, or takes too long.
    """
    for match in _matches(pattern, text):
        found: str = next((group for group in match.groups() if group is not None), match[0])
        return found
    return None


def _matches(pattern: str, text: str) -> Iterator[Any]:
    wrong = problem_of(pattern)
    if wrong is not None:
        raise OperationFailed.invalid(wrong)
    try:
        yield from _compiled(pattern).finditer(text, timeout=MAX_SECONDS, concurrent=True)
    except TimeoutError:
        raise OperationFailed.invalid(
            f"the pattern {pattern[:60]!r} takes more than {MAX_SECONDS:g} s for this text; write it so that there are "
            "fewer ways to match"
        ) from None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)
