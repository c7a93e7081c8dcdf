"""Short ways to ask the analyzer."""

from __future__ import annotations

from tract_jupyter.analysis import AnalysisResult, CodeAnalyzer

ROOT = "/home/user/project"
ANALYZER = CodeAnalyzer(ROOT)


def analyze(code: str, *before: str) -> AnalysisResult:
    return ANALYZER.analyze(code, cells_before=before)


def found(code: str, *before: str) -> set[tuple[str, str]]:
    """Codes and levels of what is medium or worse."""
    return {(f.code, str(f.level)) for f in analyze(code, *before).findings if f.level >= "medium"}


def codes(code: str, *before: str) -> set[str]:
    return {finding.code for finding in analyze(code, *before).findings}
