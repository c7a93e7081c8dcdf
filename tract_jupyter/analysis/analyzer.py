"""The analyzer: it parses code, resolves names, runs the rules, and returns a verdict for every text."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import TYPE_CHECKING

from tract_jupyter.analysis import origins, references
from tract_jupyter.analysis.dominance import EVERYTHING
from tract_jupyter.analysis.findings import AnalysisResult, Finding, RiskLevel, SandboxMode, Span, in_order
from tract_jupyter.analysis.ipython_syntax import (
    Escape,
    automagic,
    has_escapes,
    own_magics,
    resolve_own_magics,
    transform,
)
from tract_jupyter.analysis.limits import (
    MAX_FINDINGS,
    Deadline,
    TooLongError,
    check_length,
    without_collection,
)
from tract_jupyter.analysis.paths import WorkspacePaths
from tract_jupyter.analysis.program import Program
from tract_jupyter.analysis.resolver import Resolver
from tract_jupyter.analysis.rules import RULES, all_rules, other_calls
from tract_jupyter.analysis.rules.code import written_code
from tract_jupyter.analysis.rules.settings import ALWAYS, RuleSettings
from tract_jupyter.analysis.rules.text import VERDICT
from tract_jupyter.analysis.source import PARSE_ERRORS, SourceText, parse
from tract_jupyter.analysis.tables import magics
from tract_jupyter.analysis.view import CodeView

if TYPE_CHECKING:
    import ast
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class AnalysisSession:
    """An analysis of notebook cells in order. An ``import os as o`` in one cell is known in the next."""

    def __init__(self, analyzer: CodeAnalyzer | None = None) -> None:
        self.analyzer = analyzer or CodeAnalyzer()
        self._program = Program()
        self._cells: list[str] = []
        self._lock = threading.Lock()

    def analyze(
        self, code: str, *, tools: Iterable[str] = (), cells_before: Sequence[str] | None = None
    ) -> AnalysisResult:
        """Analyze a cell before it runs. The session does not keep the cell, because it may never run.

        Args:
            code: The cell.
            tools: Names of tools that it may call.
            cells_before: All cells that ran, in order. The default is the cells passed to `ran`.
        """
        with self._lock, without_collection():
            if cells_before is not None:
                self._know(list(cells_before))
            with self._program.tentatively():
                return self.analyzer.analyze_in(self._program, code, tools)

    def ran(self, code: str) -> None:
        """Keep the names of a cell that ran. A cell that does not parse has none."""
        with self._lock:
            self._know([*self._cells, code])

    def reset(self) -> None:
        """Forget all names, as after a restart of the kernel."""
        with self._lock:
            self._know([])

    def _know(self, cells: list[str]) -> None:
        """Add new cells. Start again if earlier cells have changed."""
        if cells[: len(self._cells)] != self._cells:
            self._program, self._cells = Program(), []
        for cell in cells[len(self._cells) :]:
            learn(self._program, cell)
        self._cells = cells


_AUTOMAGIC = magics.SHELL_LINE | {name for name, level in magics.LINE.items() if level is not None}
_SURROGATE = re.compile("[\ud800-\udfff]")


class CodeAnalyzer:
    """An analyzer that explains the effects of code without running it.

    Findings are advice for the user's decision. They do not restrict code, and code can hide from the analysis on
    purpose.

    Args:
        workspace_root: The workspace folder for judging paths. Without one, every absolute path is outside.
        mode: ``disabled`` turns the analysis off. The other modes differ only in `AnalysisResult.blocked_by`.
        off: Codes of rules to skip. Code that cannot be analyzed (TJ9xx) is always reported.
        levels: Other levels for the findings of some rules, by code.
        tools: Names of tools that the code may call. Code that bypasses one of them is reported.

    Raises:
        SandboxModeError: The mode does not exist.
        RuleSettingsError: A rule or level is unknown, or the rule cannot be changed.
    """

    def __init__(
        self,
        workspace_root: str | os.PathLike[str] | None = None,
        mode: SandboxMode | str = SandboxMode.WARN,
        *,
        off: Iterable[str] = (),
        levels: Mapping[str, RiskLevel | str] | None = None,
        tools: Iterable[str] = (),
    ) -> None:
        self.mode = SandboxMode(mode)
        self.settings = RuleSettings.of(off, levels or {})
        self._tools = frozenset(tools)
        self._workspace = WorkspacePaths(workspace_root)

    def analyze(
        self, code: str, *, cells_before: Sequence[str] = (), tools: Iterable[str] = ()
    ) -> AnalysisResult:
        """Analyze a cell or the body of an action. Every text gets a verdict.

        Args:
            code: Python with IPython's additions. ``return`` and ``await`` are allowed at the top level.
            cells_before: Cells that ran earlier, in order. Their names are known, but they are not reported.
            tools: Names of more tools that this code may call.
        """
        with without_collection():  # until the tree is deleted, so that the collector never sees it
            program = Program()
            for cell in cells_before:
                learn(program, cell)
            result = self.analyze_in(program, code, tools)
            del program
        return result

    def analyze_in(self, program: Program, code: str, tools: Iterable[str] = ()) -> AnalysisResult:
        """Analyze a cell with the known names of a program, and add the cell's names to them."""
        if self.mode is SandboxMode.DISABLED:
            return AnalysisResult(analysed=False)
        try:
            with without_collection():
                return self._analyze(program, code, Deadline(), self._tools.union(tools))
        except Exception as error:  # noqa: BLE001 - a failure to understand is itself the verdict
            return AnalysisResult((_unknown(SourceText(code), error),))

    def _analyze(
        self, program: Program, code: str, deadline: Deadline, tools: frozenset[str], *, inner: bool = False
    ) -> AnalysisResult:
        source, tree, escapes, problem = _read(code, deadline, program)
        nodes = _add(program, code, tree, escapes, deadline)
        resolver, workspace = Resolver(program, deadline), self._workspace.fresh()
        view = CodeView(source, nodes, program, resolver, escapes, workspace, deadline, tools)
        findings: list[Finding] = []
        problems = [problem] if problem is not None else []
        problems += self._collect(view, findings, inner=inner)
        findings += [_unknown(source, each) for each in problems]
        external = tuple(dict.fromkeys(view.external))
        view.forget()
        return AnalysisResult(in_order(findings), references.imported(view), external)

    def _collect(self, view: CodeView, findings: list[Finding], *, inner: bool) -> list[Exception]:
        """Collect the findings of all rules. A rule that fails ends only itself; return the problems."""
        mentions = (references.findings(view), references.stored(view), origins.findings(view))
        rules = (rule for rule in all_rules() if rule.code not in self.settings.off)
        sources = [*mentions, other_calls.findings(view), *(rule.check(view) for rule in rules)]
        if not inner:
            sources.append(self._written(view))
        problems: list[Exception] = []
        for source in sources:
            try:
                self._take(source, view.deadline, findings)
            except TooLongError as error:
                return [*problems, *view.problems, error]
            except Exception as error:  # noqa: BLE001 - a failure to understand is itself a verdict
                problems.append(error)
        if view.resolver.is_incomplete:
            problems.append(TooLongError("too many of its names depend on each other"))
        return problems + view.problems

    def _take(self, source: Iterator[Finding], deadline: Deadline, findings: list[Finding]) -> None:
        deadline.check()
        for finding in deadline.watched(source):
            counted = self.settings.apply(finding)
            if counted is not None:
                findings.append(counted)
            if len(findings) > MAX_FINDINGS:
                raise TooLongError(f"it has more than {MAX_FINDINGS:,} findings")

    def _written(self, view: CodeView) -> Iterator[Finding]:
        """Yield findings about Python in written files, one level lower, because other code must run it first."""
        for escape in view.escapes:
            body = escape.body_of_file()
            if body is not None:
                inner = self._analyze(Program(), body, view.deadline, view.tools)
                yield from (finding.in_file(escape.span.line) for finding in inner.findings)

        def is_grave(text: str) -> bool:
            inner = self._analyze(Program(), text, view.deadline, view.tools, inner=True)
            # Prose does not parse, and is not reported.
            return any(
                finding.level >= RiskLevel.HIGH and finding.code < ALWAYS for finding in inner.findings
            )

        for call, text in written_code(view):
            if view.look(is_grave, text):
                yield RULES["TJ112"].finding(view, call, RULES["TJ112"].effect.capitalize() + ".")


def learn(program: Program, cell: str) -> None:
    """Add the names of a cell that ran to a program. A cell that does not parse adds nothing."""
    with contextlib.suppress(*PARSE_ERRORS, TooLongError):
        deadline = Deadline()
        _, tree, escapes, _ = _read(cell, deadline, program)
        _add(program, cell, tree, escapes, deadline)
        if tree is not None:
            program.replace_older(tree)


_FORGETS = frozenset({"reset", "reset_selective", "xdel"})


def _add(
    program: Program, code: str, tree: ast.Module | None, escapes: Sequence[Escape], deadline: Deadline
) -> list[ast.AST]:
    if any(escape.name in _FORGETS for escape in escapes):
        program.deleted.add(EVERYTHING)
    nodes = program.add(tree, deadline) if tree is not None else []
    if "magic" in code or "alias" in code:
        program.magics.update(own_magics(escapes, nodes))
    return nodes


def _read(
    code: str, deadline: Deadline, program: Program
) -> tuple[SourceText, ast.Module | None, tuple[Escape, ...], Exception | None]:
    """Parse as Python. If that fails, parse as Python with IPython's additions."""
    check_length(code)
    own = program.magics
    names = (_AUTOMAGIC | own.keys()) - program.module.bindings.keys()
    magic = automagic(code, names, magics.SHELL_LINE | own.keys())
    if magic is not None:
        return SourceText(code), None, resolve_own_magics((magic,), own), None
    try:
        return SourceText(code), parse(code), (), None
    except PARSE_ERRORS as error:
        if not has_escapes(code):
            return SourceText(code), None, (), error
    functions = {name for name, meaning in own.items() if meaning[:1] not in {"!", "%"}}
    tree, problem = None, None
    for unknown_is_python in (True, False):
        changed = transform(code, deadline, unknown_is_python=unknown_is_python, functions=functions)
        try:
            tree, problem = parse(changed.code), None
            break
        except PARSE_ERRORS as error:
            problem = error
    source = SourceText(code, changed.code, changed.shifts)
    return source, tree, resolve_own_magics(changed.escapes, own), problem


def _unknown(source: SourceText, problem: Exception) -> Finding:
    code, what = _problem(source, problem)
    line = getattr(problem, "lineno", None)
    line = line if isinstance(line, int) and 1 <= line <= len(source.lines) else 1
    span: Span = source.line_span(line)
    rule = RULES[code]
    text = source.text(span).encode("utf-8", "replace").decode("utf-8")
    return Finding(code, rule.category, rule.level, span, text, f"{VERDICT} ({what})", rule.remedy, 1.0)


def _problem(source: SourceText, problem: Exception) -> tuple[str, str]:
    if isinstance(problem, TooLongError):
        return "TJ903", str(problem)
    text = "\n".join(source.lines)
    if "\0" in text:
        return "TJ902", "it contains a NUL character"
    if _SURROGATE.search(text):
        return "TJ902", "it contains a lone surrogate"
    if isinstance(problem, SyntaxError) and "too many" not in str(problem.msg):
        return "TJ901", str(problem.msg).encode("ascii", "backslashreplace").decode()
    return "TJ903", f"the analysis gave up: {type(problem).__name__}"
