"""The context store: commits per second, and the growth of frequent operations with the history."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.places import tract_on_disk
from benchmarks.timing import SAMPLES, Growth, Row, best_of, fastest, time_call
from tract_jupyter import Tract
from tract_jupyter.models import TokenBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES = (1_000, 10_000, 100_000)
SHORT = SIZES[:2]
_ONE_BY_ONE, _IN_BATCH = 1_000, 10_000
_GROWTH = 2.0  # times, from 10,000 to 100,000 commits
_COLD = "cold compile"
_TARGETS = {
    _COLD: 150.0,
    "warm compile": 1.0,
    "compile after one more commit": 1.0,
    "log(20)": 2.0,
    "status": 2.0,
    "branch": 1.0,
}
_COMMITS_PER_SECOND, _BATCHED_PER_SECOND = 3_000.0, 20_000.0
_WHOLE = 5_000.0  # milliseconds


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    """Speeds first, then one history on disk that grows."""
    yield from _speeds()
    growth = Growth()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tract.db"
        for size in sizes:
            with Tract.open(path) as tract:
                _grow(tract, size)
                for name, measure in _MEASURES.items():
                    value, target = measure(tract), _target(name, size)
                    grown = growth.of(name, value)
                    # at 100,000 commits, the target is the growth
                    most = None if name == _COLD or target is not None or grown is None else _GROWTH
                    yield Row(f"{name}, {size:,} commits", value, "ms", target, grown, most)
                yield Row(f"statements of one commit, {size:,} commits", statements(tract), "statements")
                yield from _of_everything(tract, size)


def _of_everything(tract: Tract, size: int) -> Iterator[Row]:
    """Measure the operations that read the whole history. Undo the compression."""
    for name, measure in (
        ("verify", tract.verify),
        ("compress", lambda: tract.compress(content="A summary.")),
    ):
        yield Row(f"{name}, {size:,} commits", time_call(measure), "ms", _WHOLE)
    tract.undo()


def _speeds() -> Iterator[Row]:
    budget = TokenBudget(10**9, "reject")
    for name, given in (("", None), (", with a budget", budget)):
        rate = max(_of_new_store(_one_by_one, given) for _ in range(SAMPLES))
        yield Row(f"commits one by one{name}", rate, "/s", _COMMITS_PER_SECOND)
        rate = max(_of_new_store(_batched, given) for _ in range(SAMPLES))
        yield Row(f"commits in batch(){name}", rate, "/s", _BATCHED_PER_SECOND)


def _of_new_store(measure: Callable[[Tract], float], budget: TokenBudget | None) -> float:
    with tract_on_disk() as tract:
        tract.budget = budget
        return measure(tract)


def _one_by_one(tract: Tract) -> float:
    return _ONE_BY_ONE / time_call(lambda: _say(tract, _ONE_BY_ONE))


def _batched(tract: Tract) -> float:
    def commit() -> None:
        with tract.batch():
            _say(tract, _IN_BATCH)

    return _IN_BATCH / time_call(commit)


def _say(tract: Tract, count: int) -> None:
    for number in range(count):
        tract.user(f"Message {number}: what does the table of measurements say about line {number}?")


def _grow(tract: Tract, size: int) -> None:
    with tract.batch():
        _say(tract, size - tract.status().commit_count)


def _target(name: str, size: int) -> float | None:
    """Return the target, which holds up to 10,000 commits."""
    return _TARGETS[name] if size <= SHORT[-1] else None


def _cold(tract: Tract) -> float:
    """On a tract that was just opened, as a new kernel does it."""
    times = []
    for _ in range(SAMPLES):
        with Tract.open(tract.location) as opened:
            times.append(time_call(opened.compile))
    return min(times)


def _after_one_more(tract: Tract) -> float:
    """The compile alone; the commit is measured elsewhere."""
    times = []
    for _ in range(20):
        tract.user("One more.")
        times.append(time_call(tract.compile))
    return min(times)


def _branch(tract: Tract) -> float:
    return fastest(lambda: tract.branch(f"b{os.urandom(6).hex()}", switch=False), 20)


def statements(tract: Tract) -> int:
    """How many SQL statements SQLite runs for one commit."""
    from sqlalchemy import Engine, event

    seen: list[str] = []

    def trace(connection: object, _: object) -> None:
        connection.set_trace_callback(seen.append)  # type: ignore[attr-defined]

    event.listen(Engine, "connect", trace)
    try:
        with Tract.open(tract.location) as opened:
            opened.user("Before.")
            seen.clear()
            opened.user("One more.")
    finally:
        event.remove(Engine, "connect", trace)
    return len(seen)


_MEASURES: dict[str, Callable[[Tract], float]] = {
    _COLD: _cold,
    "warm compile": lambda tract: best_of(tract.compile),
    "compile after one more commit": _after_one_more,
    "log(20)": lambda tract: best_of(tract.log),
    "status": lambda tract: best_of(tract.status),
    "branch": _branch,
}
