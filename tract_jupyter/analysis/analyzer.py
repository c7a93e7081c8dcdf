"""The analyzer: parse, resolve, ask the rules; a verdict for every text."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tract_jupyter.analysis import references
from tract_jupyter.analysis.findings import AnalysisResult, Finding, SandboxMode, Span, in_order
from tract_jupyter.analysis.ipython_syntax import Escape, transform
from tract_jupyter.analysis.paths import Workspace
from tract_jupyter.analysis.resolver import Resolver
from tract_jupyter.analysis.rules import RULES, all_rules
from tract_jupyter.analysis.rules.unparsable import VERDICT
from tract_jupyter.analysis.scopes import Program
from tract_jupyter.analysis.source import Source, parse
from tract_jupyter.analysis.view import View

if TYPE_CHECKING:
    import ast
    import os
    from collections.abc import Sequence

_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, SystemError)


class CodeAnalyzer:
    """Explains what a piece of code would do, without running any of it.

    Findings are advice for the person who decides. They contain nothing: code that is meant to hide from this
    analysis can.

    Args:
        workspace_root: The folder that paths are judged against; without one, every absolute path is outside.
        mode: ``disabled`` turns the analysis off. The others differ only in `AnalysisResult.blocked_by`.

    Raises:
        SandboxModeError: The mode does not exist.
    """

    def __init__(
        self,
        workspace_root: str | os.PathLike[str] | None = None,
        mode: SandboxMode | str = SandboxMode.WARN,
    ) -> None:
        self.mode = SandboxMode(mode)
        self._workspace = Workspace(workspace_root)

    def analyze(self, code: str, *, cells_before: Sequence[str] = ()) -> AnalysisResult:
        """Analyse a cell or the body of an action.

        Args:
            code: Python, with IPython's additions; ``return`` and ``await`` may stand at the top level.
            cells_before: Cells that ran earlier, in order; their names are known, they are not reported.

        Returns:
            A verdict, for any text at all.
        """
        if self.mode is SandboxMode.DISABLED:
            return AnalysisResult(analysed=False)
        try:
            return self._analyze(code, cells_before)
        except Exception as error:  # noqa: BLE001 - a failure to understand is itself the verdict
            return _unknown(Source(code), error)

    def _analyze(self, code: str, cells_before: Sequence[str]) -> AnalysisResult:
        source, tree, escapes, problem = _read(code)
        program = Program()
        for cell in cells_before:
            _, earlier, _, _ = _read(cell)
            if earlier is not None:
                program.add(earlier)
        nodes = program.add(tree) if tree is not None else []
        view = View(source, nodes, program, Resolver(program), escapes, self._workspace)
        findings = list(references.findings(view))
        for rule in all_rules():
            findings.extend(rule.check(view))
        if problem is not None:
            findings.extend(_unknown(source, problem).findings)
        return AnalysisResult(
            in_order(findings), references.imported(view), tuple(dict.fromkeys(view.external))
        )


def _read(code: str) -> tuple[Source, ast.Module | None, tuple[Escape, ...], Exception | None]:
    """Parse as Python, and failing that as Python with IPython's additions."""
    with contextlib.suppress(*_PARSE_ERRORS):
        return Source(code), parse(code), (), None
    changed = transform(code)
    source = Source(code, changed.code, changed.shifts)
    try:
        return source, parse(changed.code), changed.escapes, None
    except _PARSE_ERRORS as error:
        return source, None, changed.escapes, error


def _unknown(source: Source, problem: Exception) -> AnalysisResult:
    code, what = _problem(source, problem)
    line = getattr(problem, "lineno", None)
    line = line if isinstance(line, int) and 1 <= line <= len(source.lines) else 1
    span: Span = source.line_span(line)
    rule = RULES[code]
    text = source.text(span).encode("utf-8", "replace").decode("utf-8")
    reason = f"{VERDICT} ({what})"
    return AnalysisResult((Finding(code, rule.category, rule.level, span, text, reason, rule.remedy, 1.0),))


def _problem(source: Source, problem: Exception) -> tuple[str, str]:
    for line in source.lines:
        if "\0" in line:
            return "TJ902", "it contains a NUL character"
        if any("\ud800" <= character <= "\udfff" for character in line):
            return "TJ902", "it contains a lone surrogate"
    if isinstance(problem, SyntaxError) and "too many" not in str(problem.msg):
        return "TJ901", str(problem.msg).encode("ascii", "backslashreplace").decode()
    return "TJ903", f"the analysis gave up: {type(problem).__name__}"
