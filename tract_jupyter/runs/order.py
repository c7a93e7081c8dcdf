"""The ready queue over (order, id), in which operations start and their effects are committed (G8, G9, G10)."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ReadyQueue:
    """Hands out ids, the smallest `order` first, then by code point, however late they came in (G8, R60)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, order: float, key: str) -> None:
        """Add an id that is ready."""
        heapq.heappush(self._heap, (order, key))

    @property
    def first(self) -> tuple[float, str]:
        """`(order, id)` of the one that `pop` would give; there must be one."""
        return self._heap[0]

    def pop(self) -> str:
        """Take the first id out; there must be one."""
        return heapq.heappop(self._heap)[1]


def ready_order(nodes: Iterable[tuple[str, float, Sequence[str]]]) -> tuple[list[str], list[str]]:
    """Order ids so that each comes after its dependencies, and by (order, id) among those that are ready (R60, G9).

    Args:
        nodes: id, order, and the ids that it depends on; ids that are not among the nodes do not count.

    Returns:
        The ids in order, and those that never become ready, sorted: they are on a circle or depend on one.
    """
    known = {key: (order, depends_on) for key, order, depends_on in nodes}
    dependents: defaultdict[str, list[str]] = defaultdict(list)
    unmet: dict[str, int] = {}
    ready = ReadyQueue()
    for key, (order, depends_on) in known.items():
        inner = {one for one in depends_on if one in known}
        unmet[key] = len(inner)
        for one in inner:
            dependents[one].append(key)
        if not inner:
            ready.push(order, key)
    ordered = []
    while ready:
        key = ready.pop()
        ordered.append(key)
        for dependent in dependents[key]:
            unmet[dependent] -= 1
            if not unmet[dependent]:
                ready.push(known[dependent][0], dependent)
    return ordered, sorted(key for key, count in unmet.items() if count)
