"""The guard against a model that only repeats itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_PATTERN: Final = 8


class RepetitionGuard:
    """Detects a third repetition of the same calls, after the same outcomes twice.

    The repeated pattern may have one to eight steps.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def expected_outcomes(self, keys: Sequence[str]) -> tuple[str, ...] | None:
        """Return the outcomes that these calls had both times before; None if the calls are no repetition."""
        steps, wanted = self._steps, tuple(sorted(keys))
        for period in range(1, _LONGEST_PATTERN + 1):
            last, before = steps[-period:], steps[-2 * period : -period]
            if len(before) == period and last == before and last[0][0] == wanted:
                return last[0][1]
        return None

    def note(self, keys: Sequence[str], outcomes: Sequence[str]) -> None:
        """Record a step, with the outcome of each of its calls."""
        pairs = sorted(zip(keys, outcomes, strict=True))
        self._add(tuple(key for key, _ in pairs), tuple(outcome for _, outcome in pairs))

    def note_repetition(self, keys: Sequence[str], outcomes: tuple[str, ...]) -> None:
        """Record a step that was refused as a repetition, with its expected outcomes."""
        self._add(tuple(sorted(keys)), outcomes)

    def _add(self, keys: tuple[str, ...], outcomes: tuple[str, ...]) -> None:
        self._steps.append((keys, outcomes))
        del self._steps[: -2 * _LONGEST_PATTERN]
