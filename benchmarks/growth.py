"""How what is done all the time grows with the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.places import tract_on_disk
from benchmarks.timing import Row, best_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter import Tract

_SIZES = (100, 1_000, 10_000)


def rows() -> Iterator[Row]:
    """One history on disk that grows."""
    with tract_on_disk() as tract:
        for size in _SIZES:
            _grow(tract, size)
            yield Row(f"compile, {size:,} commits", best_of(tract.compile), "ms")
            yield Row(f"log, the newest 20 of {size:,} commits", best_of(tract.log), "ms")
            yield Row(f"commit after {size:,} commits", best_of(lambda: tract.user("One more.")), "ms")


def _grow(tract: Tract, size: int) -> None:
    newest = tract.log(1)
    for number in range(newest[0].generation + 1 if newest else 0, size):
        tract.user(f"Message {number}: what does the table of measurements say about line {number}?")
