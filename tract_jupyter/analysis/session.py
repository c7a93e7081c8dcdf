"""The names of the cells that ran, kept from cell to cell."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tract_jupyter.analysis.analyzer import CodeAnalyzer, learn
from tract_jupyter.analysis.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.analysis.findings import AnalysisResult


class AnalysisSession:
    """Analyses one cell after the other of a notebook: ``import os as o`` in one is known in the next.

    Args:
        analyzer: What looks at the cells.
    """

    def __init__(self, analyzer: CodeAnalyzer | None = None) -> None:
        self.analyzer = analyzer or CodeAnalyzer()
        self._program = Program()
        self._lock = threading.Lock()

    def analyze(self, code: str, *, tools: Iterable[str] = ()) -> AnalysisResult:
        """Analyse a cell that would run now and may call tools. Nothing of it is kept: perhaps it never runs."""
        with self._lock, self._program.tentatively():
            return self.analyzer.analyze_in(self._program, code, tools)

    def ran(self, code: str) -> None:
        """Keep the names of a cell that ran; of one that cannot be read there are none."""
        with self._lock:
            learn(self._program, code)

    def reset(self) -> None:
        """Forget all names, as a kernel does that was restarted."""
        self._program = Program()
