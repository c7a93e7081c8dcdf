"""Measurements: the best of five, because any disturbance only makes a run slower."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES: Final = 5
_ENOUGH_SECONDS = 0.05
_SCALE: Final = {
    "s": 1.0,
    "ms": 1e3,
    "µs": 1e6,
    "x": 1.0,
    "MB": 1.0,
    "kB": 1.0,
    "packages": 1.0,
    "modules": 1.0,
    "commits": 1.0,
    "texts": 1.0,
    "statements": 1.0,
    "tokens": 1.0,
    "/s": 1.0,
    "%": 100.0,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Args:
        name: The measured operation.
        value: Seconds, or a number in `unit`.
        unit: The unit: `s`, `ms`, `µs`, `packages`, ...; `/s` is a speed, and `%` a saved part.
        target: The maximum in `unit` (the minimum of a speed or a part); None without a target.
        growth: The value relative to the value of the previous size.
        most_growth: The maximum growth.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    growth: float | None = None
    most_growth: float | None = None

    @property
    def shown(self) -> float:
        """The value in its unit."""
        return self.value * _SCALE[self.unit]

    @property
    def verdict(self) -> str:
        """`ok`, `over`, or nothing without a target."""
        kept = []
        if self.target is not None:
            kept.append(self.shown >= self.target if self.unit in {"/s", "%"} else self.shown <= self.target)
        if self.growth is not None and self.most_growth is not None:
            kept.append(self.growth <= self.most_growth)
        return ("ok" if all(kept) else "over") if kept else ""


def best_of(function: Callable[[], object], samples: int = SAMPLES) -> float:
    """Return the best seconds of a warm call. Short calls are timed in batches."""
    function()
    loops = 1
    while _seconds(function, loops) < _ENOUGH_SECONDS:
        loops *= 2
    return min(_seconds(function, loops) for _ in range(samples)) / loops


def _seconds(function: Callable[[], object], loops: int) -> float:
    started = perf_counter()
    for _ in range(loops):
        function()
    return perf_counter() - started


def time_call(function: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Return the seconds of one call."""
    started = clock()
    function()
    return clock() - started


def fastest(
    function: Callable[[], object], rounds: int = SAMPLES, clock: Callable[[], float] = perf_counter
) -> float:
    """Return the seconds of the fastest single call, for calls that change the measured object."""
    return min(time_call(function, clock) for _ in range(rounds))


class Growth:
    """The growth of measured values from one size to the next, by name."""

    def __init__(self) -> None:
        self._previous: dict[str, float] = {}

    def of(self, name: str, value: float) -> float | None:
        """Return how many times the previous value of this name a value is; None for the first one."""
        previous = self._previous.get(name)
        self._previous[name] = value
        return None if previous is None else value / previous
