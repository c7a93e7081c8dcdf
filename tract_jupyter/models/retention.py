"""What a compression must keep of an important message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.checks import check_choice, check_text, listed
from tract_jupyter.models.patterns import matches, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODES: Final = ("substring", "regex")


class Retention:
    """Reads and checks retention criteria: `{"instructions", "match_patterns", "match_mode"}`."""

    @staticmethod
    def of(instructions: str | None, patterns: Sequence[str] | None, mode: str) -> dict[str, Any] | None:
        """The criteria as they are stored; None if there are none.

        Raises:
            ContentError: instructions or a pattern are no text, a pattern is no regular expression, or the mode is
                unknown.
        """
        if instructions is None and type(patterns) is tuple and not patterns and mode in _MODES:
            return None  # as for most commits
        check_choice(mode, _MODES, "retain_match_mode")
        given = [] if patterns is None else listed(patterns, "retain_match")
        for pattern in given:
            _check(pattern, mode)
        if instructions is None and not given:
            return None
        if instructions is not None:
            check_text(instructions, "retain")
        return {"instructions": instructions or "", "match_patterns": given, "match_mode": mode}

    @staticmethod
    def missing(criteria: dict[str, Any], summary: str) -> list[str]:
        """The patterns that a summary does not contain.

        Raises:
            ContentError: a pattern takes too long for it.
        """
        regex = criteria["match_mode"] == "regex"
        return [
            pattern
            for pattern in criteria["match_patterns"]
            if not (any(True for _ in matches(pattern, summary)) if regex else pattern in summary)
        ]


def _check(pattern: str, mode: str) -> None:
    problem = problem_of(pattern) if mode == "regex" else None
    if problem is not None:
        raise ContentError(f"{pattern[:60]!r} is no regular expression that can be used: {problem}")
