"""Deciding: routing, decisions on disk, the inbox."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from benchmarks.places import tract_on_disk
from benchmarks.samples import CHECK
from benchmarks.timing import Growth, Row, best_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tract_jupyter import Tract

_FIELDS = {"urls": ["https://example.com"]}
_HANDLERS = 10
_PAGE = 20
SIZES = (1_000, 10_000, 100_000)


def rows(sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """First what each decision costs, then how the inbox grows."""
    with tract_on_disk() as tract:
        tract.register_operation(CHECK)
        yield from _deciding(tract)
        yield from _routing(tract)
    yield from _inbox(sizes)


def _deciding(tract: Tract) -> Iterator[Row]:
    name = CHECK.name
    tract.on(name, lambda pending: pending.approve(), name="approve")
    fire = best_of(lambda: tract.fire(name, _FIELDS))
    yield Row("fire, a handler approves, decision and hook log on disk", fire, "ms", 1.5)
    run = best_of(lambda: tract.fire(name, _FIELDS, execute_fn=lambda _: None))
    yield Row("the same with something to run: decided, begun, ended", run, "ms")
    tract.off(name)
    click = best_of(lambda: tract.fire(name, _FIELDS, review=True).approve())
    yield Row("fire(review=True), approve() in code", click, "ms", 1.5)


def _routing(tract: Tract) -> Iterator[Row]:
    pending = tract.fire(CHECK.name, _FIELDS, review=True)
    bus = tract.hooks.bus  # routing alone has no name of its own on a tract
    for number in range(_HANDLERS):
        tract.on(CHECK.name, lambda _: None, name=f"handler {number}")

    def route() -> None:
        bus.route(pending)
        bus.log._unwritten.clear()  # noqa: SLF001 # that is written at the end of a firing, and measured above

    yield Row(f"routing through {_HANDLERS} handlers", best_of(route), "µs", 20)


def _inbox(sizes: Sequence[int]) -> Iterator[Row]:
    with tract_on_disk() as tract:
        tract.register_operation(CHECK)
        ledger, numbers, growth = tract.reviewer.ledger, count(), Growth()
        for size in sizes:
            _fill(tract, numbers, size)
            page = best_of(lambda: ledger.waiting(_PAGE))
            name = f"inbox of {size:,}: first page of {_PAGE}"
            yield Row(name, page, "ms", 5, growth.of("page", page), 1.5)
            last = ledger.waiting(_PAGE)[-1]
            yield Row(f"inbox of {size:,}: next page", best_of(lambda: ledger.waiting(_PAGE, last)), "ms", 5)  # noqa: B023 # called at once
            yield Row(f"inbox of {size:,}: how many", best_of(ledger.count_waiting), "ms")


def _fill(tract: Tract, numbers: Iterator[int], size: int) -> None:
    """Have so many requests wait."""
    with tract.batch():
        for number in numbers:
            tract.reviewer.keep(
                tract.fire(CHECK.name, {"urls": [f"https://example.com/{number}"]}, review=True)
            )
            if number + 1 >= size:
                return
