"""Regular expressions, and criteria for the content of a summary.

Foreign expressions are matched with a time limit, because a hostile one could run forever.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.checks import check_choice, check_text, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_PATTERN: Final = 2_000
"""Characters of a pattern."""
MAX_SECONDS: Final = 2.0
"""For all matches in one text; usual patterns need milliseconds for the longest one."""

_MODES: Final = ("substring", "regex")


def possessive(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a pattern with possessive repeats, such as `a++`.

    `re` finds wrong spans for them before Python 3.11.5 (CPython issue 106052).
    """
    if sys.version_info >= (3, 11, 5):
        return re.compile(pattern, flags)
    import regex

    compiled: re.Pattern[str] = regex.compile(pattern, sum(getattr(regex, str(flag.name)) for flag in flags))
    return compiled


def problem_of(pattern: str) -> str | None:
    """Return the problem with a pattern, None if there is none."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters; the maximum is {MAX_PATTERN}"
    import regex

    try:
        _compiled(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        return f"the pattern {pattern[:60]!r} cannot be read: {error}"
    return None


def matches(pattern: str, text: str, seconds: float = MAX_SECONDS) -> Iterator[Any]:
    """Yield all matches in a text."""
    wrong = problem_of(pattern)
    if wrong is not None:
        raise ContentError(wrong)
    try:
        yield from _compiled(pattern).finditer(text, timeout=seconds, concurrent=True)
    except TimeoutError:
        raise ContentError(
            f"the pattern {pattern[:60]!r} takes more than {seconds:g} s for this text; rewrite it with "
            "fewer ways to match"
        ) from None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


class Retention:
    """Reads and checks retention criteria: `{"instructions", "match_patterns", "match_mode"}`."""

    @staticmethod
    def of(instructions: str | None, patterns: Sequence[str] | None, mode: str) -> dict[str, Any] | None:
        """Return the criteria in their stored form; None without criteria."""
        check_choice(mode, _MODES, "retain_match_mode")
        pattern_list = [] if patterns is None else listed(patterns, "retain_match")
        for pattern in pattern_list:
            _check(pattern, mode)
        if instructions is None and not pattern_list:
            return None
        if instructions is not None:
            check_text(instructions, "retain")
        return {"instructions": instructions or "", "match_patterns": pattern_list, "match_mode": mode}

    @staticmethod
    def missing(criteria: dict[str, Any], summary: str) -> list[str]:
        """Return the patterns that a summary does not contain."""
        regex = criteria["match_mode"] == "regex"
        return [
            pattern
            for pattern in criteria["match_patterns"]
            if not (any(True for _ in matches(pattern, summary)) if regex else pattern in summary)
        ]


def _check(pattern: str, mode: str) -> None:
    problem = problem_of(pattern) if mode == "regex" else None
    if problem is not None:
        raise ContentError(f"{pattern[:60]!r} cannot be used as a regular expression: {problem}")
