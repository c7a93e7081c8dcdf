"""Defining and firing operations."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.places import tract_on_disk
from benchmarks.samples import CHECK
from benchmarks.timing import Row, best_of
from tract_jupyter import Tract

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELDS = {"urls": ["https://example.com"]}


def rows() -> Iterator[Row]:
    """Measure firing in memory, then operations that write to disk."""
    yield from _firing()
    with tract_on_disk() as tract:
        yield from _on_disk(tract)


def _firing() -> Iterator[Row]:
    with Tract.open() as tract:
        tract.register_operation(CHECK)
        made = best_of(lambda: tract.fire(CHECK.name, _FIELDS, review=True))
        # the same question is asked once: the branch and the open questions are read from the store each time
        yield Row("fire(review=True): a pending, the open one if it is asked already", made, "µs", 250)
        yield Row("fire, no handler", best_of(lambda: tract.fire(CHECK.name, _FIELDS)), "µs")
        tract.on(CHECK.name, lambda pending: pending.approve())
        approved = best_of(lambda: tract.fire(CHECK.name, _FIELDS))
        # each decision is signed rows, in memory as on disk; that is what this takes, not the routing
        yield Row("fire, a handler approves, with its rows", approved, "µs", 1_500)
        tract.off(CHECK.name)
        tract.on(CHECK.name, lambda pending: pending.verify(strict=False))
        yield Row("fire, a handler runs the action", best_of(lambda: tract.fire(CHECK.name, _FIELDS)), "µs")


def _on_disk(tract: Tract) -> Iterator[Row]:
    names = count()
    tract.register_operation(CHECK)
    firing = best_of(lambda: tract.fire(CHECK.name, _FIELDS, execute_fn=lambda _: None))
    yield Row("fire, execute_fn, event stored on disk", firing, "µs")
    yield Row(
        "register: check, compile, sign, store on disk",
        best_of(lambda: tract.register_operation(replace(CHECK, name=f"operation_{next(names)}"))),
        "ms",
    )
    proposal = replace(CHECK, name="proposed")
    yield Row("propose: check, parse", best_of(lambda: tract.propose_operation(proposal)), "ms")
    pending = tract.propose_operation(proposal)
    yield Row("what a reviewer is shown, findings included", best_of(pending.review_request), "ms")
