"""The cost of a stub compared with calling its handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.samples import CHECK
from benchmarks.timing import Row, best_of
from tract_jupyter import Tract
from tract_jupyter.toolkit import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE = [{"id": number, "name": f"item {number}", "score": number / 2} for number in range(1_000)]


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def table(query: str) -> list[dict[str, Any]]:  # noqa: ARG001 # a tool takes arguments
    """Return 1,000 rows."""
    return _TABLE


def rows() -> Iterator[Row]:
    """A stub that is at hand, then one that is looked up as `tools.name`."""
    with Tract.open() as tract:
        for function in (add, table):
            tract.executor.add(ToolDefinition.from_function(function))
        tract.register_operation(CHECK)
        yield from _calls(tract.tools)


def _calls(tools: Any) -> Iterator[Row]:
    stub, big, fire = tools.add, tools.table, tools.fire_citation_check
    direct = best_of(lambda: add(a=1, b=2))
    yield Row("handler called directly", direct, "µs")
    yield Row("stub adds, two numbers by name", best_of(lambda: stub(a=1, b=2)) - direct, "µs", 15)
    yield Row("stub adds, two numbers by position", best_of(lambda: stub(1, 2)) - direct, "µs", 15)
    yield Row("stub adds, the result has 1,000 rows", best_of(lambda: big(query="all")) - direct, "µs")
    yield Row("looking a stub up: tools.add", best_of(lambda: tools.add), "µs")
    yield Row("tools.fire_citation_check", best_of(lambda: fire(urls=["https://example.com"])), "µs")
