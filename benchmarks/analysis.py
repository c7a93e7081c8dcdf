"""The analysis of code, which a person waits for whenever code is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.samples import LONG_CELL, REBINDING_CELL, RISKY
from benchmarks.timing import Row, best_of
from tract_jupyter import CodeAnalyzer

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows() -> Iterator[Row]:
    """A cell of 1,000 lines with IPython's syntax in it, and without; two short ones."""
    analyzer = CodeAnalyzer()
    plain = LONG_CELL.replace("%timeit", "# timeit")
    action = RISKY.actions["run"].code
    yield Row(_named("a cell", plain), best_of(lambda: analyzer.analyze(plain)), "ms", 60)
    yield Row(_named("a cell with magics", LONG_CELL), best_of(lambda: analyzer.analyze(LONG_CELL)), "ms")
    yield Row(
        _named("a cell that rebinds one name", REBINDING_CELL),
        best_of(lambda: analyzer.analyze(REBINDING_CELL)),
        "ms",
        60,
    )
    yield Row(_named("an action", action), best_of(lambda: analyzer.analyze(action)), "ms")


def _named(what: str, code: str) -> str:
    findings = CodeAnalyzer().analyze(code).findings
    return f"{what} of {len(code.splitlines()):,} lines, {len(findings):,} findings"
