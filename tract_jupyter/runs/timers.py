"""What is due at a time, on the clock of whoever asks."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """One thing to do at a time, unless it is cancelled."""

    __slots__ = ("action", "at", "number")

    def __init__(self, at: float, number: int, action: Callable[[], None]) -> None:
        self.at = at
        self.number = number
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self) -> None:
        """Have it never happen."""
        self.action = None


class Timers:
    """The things to do, the earliest first; at the same time, in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._count = 0

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Have this done at a time."""
        self._count += 1
        timer = Timer(when, self._count, action)
        heapq.heappush(self._heap, timer)
        return timer

    def next(self) -> float | None:
        """When the earliest is due; None without any."""
        while self._heap and self._heap[0].action is None:
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else None

    def run_due(self, now: float) -> None:
        """Do all that is due by now."""
        while (when := self.next()) is not None and when <= now:
            action = heapq.heappop(self._heap).action
            if action is not None:
                action()
