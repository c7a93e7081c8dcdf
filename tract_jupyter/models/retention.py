"""What a compression must keep of an important message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Retention:
    """Reads and checks retention criteria: `{"instructions", "match_patterns", "match_mode"}`."""

    @staticmethod
    def of(instructions: str | None, patterns: Sequence[str], mode: str) -> dict[str, Any] | None:
        """The criteria as they are stored; None if there are none.

        Raises:
            ContentError: a pattern is no text or no regular expression, or the mode is unknown.
        """
        if mode not in {"substring", "regex"}:
            raise ContentError(f"retain_match_mode is 'substring' or 'regex', got {mode!r}")
        given = [patterns] if isinstance(patterns, str) else list(patterns)
        for pattern in given:
            _check(pattern, mode)
        if instructions is None and not given:
            return None
        return {"instructions": instructions or "", "match_patterns": given, "match_mode": mode}

    @staticmethod
    def missing(criteria: dict[str, Any], summary: str) -> list[str]:
        """The patterns that a summary does not contain."""
        regex = criteria["match_mode"] == "regex"
        return [
            pattern
            for pattern in criteria["match_patterns"]
            if not (re.search(pattern, summary) if regex else pattern in summary)
        ]


def _check(pattern: object, mode: str) -> None:
    if not isinstance(pattern, str):
        raise ContentError(f"retain_match takes texts, got {pattern!r}")
    try:
        if mode == "regex":
            re.compile(pattern)
    except re.error as error:
        raise ContentError(f"{pattern!r} is no regular expression: {error}") from None
