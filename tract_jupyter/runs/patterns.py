"""Regular expressions of operations: replace matches, and extract text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import MAX_PATTERN, MAX_SECONDS, patterns, problem_of
from tract_jupyter.runs.kinds.base import OperationFailed
from tract_jupyter.runs.terms import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_PATTERN", "first", "problem_of", "replace"]


def replace(pattern: str, replacement: str, text: str) -> str:
    r"""Replace all matches; `\1` and `\g<name>` in the replacement are groups.

    Raises:
        OperationFailed: the pattern or the replacement is invalid, it takes too long, or the text becomes too large.
    """
    parts, place, size = [], 0, 0
    for match in _matches(pattern, text):
        try:
            new = match.expand(replacement)
        except (IndexError, ValueError, LookupError) as error:
            raise OperationFailed.invalid(f"Invalid replacement {replacement[:60]!r}: {error}") from None
        parts += [text[place : match.start()], new]
        size, place = size + len(parts[-2]) + len(new), match.end()
        if size > MAX_TEXT:
            raise OperationFailed.invalid(
                f"The text would have more than {MAX_TEXT} characters. Replace less."
            )
    return "".join([*parts, text[place:]])


def first(pattern: str, text: str) -> str | None:
    """Return the first non-empty group of the first match, or the whole match; None without a match.

    Raises:
        OperationFailed: the pattern is invalid, or takes too long.
    """
    for match in _matches(pattern, text):
        group_text: str = next((group for group in match.groups() if group is not None), match[0])
        return group_text
    return None


def _matches(pattern: str, text: str) -> Iterator[Any]:
    try:
        yield from patterns.matches(pattern, text, MAX_SECONDS)
    except ContentError as error:
        raise OperationFailed.invalid(str(error)) from None
