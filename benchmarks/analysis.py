"""The analysis of code, which delays every display of code."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.samples import LONG_CELL, REBINDING_CELL, RISKY, plain_cell
from benchmarks.timing import SAMPLES, Row, best_of
from tract_jupyter import CodeAnalyzer
from tract_jupyter.analysis import AnalysisSession, parse, without_collection

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 40.0  # ms for 1,000 lines
_GROWTH = 1.25
_ROUNDS = 15

MOST_PARSES: Final = 6.8
"""40 ms in parses of the same text. Parsing 1,000 lines with 6,863 nodes takes 5.9 ms.

Other processes slow both down equally, so this figure is more stable.
"""


def rows(sizes: tuple[int, ...] = (1_000, 5_000, 20_000)) -> Iterator[Row]:
    """Measure growing cells of ordinary lines, cells full of findings, and one cell after many."""
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
    for name, code in (("ordinary lines", plain_cell(1_000)), ("a cell full of calls and files", plain)):
        yield Row(f"{name}: times parsing alone", _in_parses(analyzer, code), "x", MOST_PARSES)
    session = AnalysisSession(analyzer)
    for _ in range(100):
        session.ran(plain_cell(50))
    yield Row("an action after 100 cells of 50 lines", best_of(lambda: session.analyze(action)), "ms")


def _growing(analyzer: CodeAnalyzer, sizes: tuple[int, ...]) -> Iterator[Row]:
    """Measure the growth relative to parsing, because fresh memory slows both down equally for longer texts."""
    first = 0.0
    for size in sizes:
        code = plain_cell(size)
        parsing, analysis = _beside_parsing(analyzer, code, SAMPLES)
        growth = analysis / parsing / first if first else None
        target = MOST * size / sizes[0]
        yield Row(_named("ordinary lines", code), analysis, "ms", target, growth, _GROWTH if growth else None)
        first = first or analysis / parsing


def _beside_parsing(analyzer: CodeAnalyzer, code: str, rounds: int) -> tuple[float, float]:
    """Return the seconds of parsing and of the whole analysis, measured in turns without garbage collection."""
    pairs = [
        (best_of(partial(_parse_alone, code), 1), best_of(partial(analyzer.analyze, code), 1))
        for _ in range(rounds)
    ]
    return min(parsing for parsing, _ in pairs), min(analysis for _, analysis in pairs)


def _parse_alone(code: str) -> None:
    with without_collection():
        parse(code)


def _in_parses(analyzer: CodeAnalyzer, code: str) -> float:
    parsing, analysis = _beside_parsing(analyzer, code, _ROUNDS)
    return analysis / parsing


def _named(what: str, code: str) -> str:
    findings = CodeAnalyzer().analyze(code).findings
    cut = " (cut short)" if any(finding.code == "TJ903" for finding in findings) else ""
    return f"{what}: {len(code.splitlines()):,} lines, {len(findings):,} findings{cut}"
