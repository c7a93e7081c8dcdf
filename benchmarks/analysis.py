"""The analysis of code, which a person waits for whenever code is shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.samples import LONG_CELL, REBINDING_CELL, RISKY, plain_cell
from benchmarks.timing import Row, best_of
from tract_jupyter import CodeAnalyzer
from tract_jupyter.analysis import AnalysisSession

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 40.0  # ms for 1,000 lines
_GROWTH = 1.25


def rows(sizes: tuple[int, ...] = (1_000, 5_000, 20_000)) -> Iterator[Row]:
    """Cells of ordinary lines, growing; cells full of findings; one of many cells."""
    analyzer = CodeAnalyzer()
    yield from _growing(analyzer, sizes)
    plain = LONG_CELL.replace("%timeit", "# timeit")
    action = RISKY.actions["run"].code
    for name, code, most in (
        ("a cell full of calls and files", plain, MOST),
        ("the same with magics", LONG_CELL, None),
        ("a cell that rebinds one name", REBINDING_CELL, 5.0),
        ("an action", action, None),
    ):
        yield Row(_named(name, code), best_of(partial(analyzer.analyze, code)), "ms", most)
    session = AnalysisSession(analyzer)
    for _ in range(100):
        session.ran(plain_cell(50))
    yield Row("an action after 100 cells of 50 lines", best_of(lambda: session.analyze(action)), "ms")


def _growing(analyzer: CodeAnalyzer, sizes: tuple[int, ...]) -> Iterator[Row]:
    before, first = 0.0, sizes[0]
    for size in sizes:
        code = plain_cell(size)
        seconds = best_of(partial(analyzer.analyze, code))
        growth = seconds / before / (size / first) if before else None
        yield Row(
            _named("ordinary lines", code),
            seconds,
            "ms",
            MOST * size / first,
            growth,
            _GROWTH if before else None,
        )
        before = before or seconds


def _named(what: str, code: str) -> str:
    findings = CodeAnalyzer().analyze(code).findings
    cut = " (cut short)" if any(finding.code == "TJ903" for finding in findings) else ""
    return f"{what}: {len(code.splitlines()):,} lines, {len(findings):,} findings{cut}"
