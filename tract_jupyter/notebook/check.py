"""What `%%tract_check` does with a cell: analyse it as if it ran next, and show what that found. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tract_jupyter.analysis import AnalysisResult, AnalysisSession, SandboxMode
from tract_jupyter.analysis.findings import Span, in_order
from tract_jupyter.analysis.source import split_lines
from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.hooks.dynamic.pending import definition_of
from tract_jupyter.models.text import printable
from tract_jupyter.notebook.markup import escaped, heading
from tract_jupyter.notebook.panels.code import code_html
from tract_jupyter.notebook.panels.render import static_css
from tract_jupyter.notebook.steps import Wrong, definition_in
from tract_jupyter.review.request import CodeBlock
from tract_jupyter.review.request_text import block_text

if TYPE_CHECKING:
    from tract_jupyter.hooks.advice import Advice
    from tract_jupyter.notebook.ran_cells import RanCells
    from tract_jupyter.notebook.session import Session

_TITLE = "Checked, not run"
_OPTIONS = ("--strict", "--mode")


class Checker:
    """Analyses cells, knowing the names of those that ran in this kernel.

    Args:
        session: the extension's.
        ran: the cells that ran.
    """

    def __init__(self, session: Session, ran: RanCells) -> None:
        self._session = session
        self._ran = ran
        self._known: list[str] = []
        self._analysis = AnalysisSession(session.advice.analyzer)

    def check(self, code: str, mode: SandboxMode | None = None) -> CheckView:
        """Analyse code; with a mode, say whether that would block it."""
        advice = self._session.advice
        try:
            parts = _definition_parts(code, advice)
        except OperationError as error:
            return CheckView((), advice.note, mode, f"Defining it would fail: {error}")
        if parts is None:
            self._learn()
            tools = self._session.tract.executor.tools() if self._session.is_open else ()
            parts = (Part("Code", code, self._analysis.analyze(code, tools=tools)),)
        return CheckView(parts, advice.note, mode)

    def _learn(self) -> None:
        """Have the analysis know the names of what ran since; all of it anew where the rules are others."""
        analyzer, cells = self._session.advice.analyzer, self._ran.all()
        if self._analysis.analyzer is not analyzer:
            self._analysis, self._known = AnalysisSession(analyzer), []
        if cells[: len(self._known)] != self._known:
            self._analysis.reset()
            self._known = []
        for cell in cells[len(self._known) :]:
            self._analysis.ran(cell)
        self._known = cells


@dataclass(frozen=True)
class Part:
    """A piece of code, and what was found in it."""

    title: str
    code: str
    result: AnalysisResult

    @property
    def block(self) -> CodeBlock:
        """As it is shown."""
        return CodeBlock(self.title, self.code, self.result.findings)


@dataclass(frozen=True)
class CheckView:
    """What was found in code that did not run: all of it, or the actions that it defines; or why it defines nothing."""

    parts: tuple[Part, ...]
    note: str
    mode: SandboxMode | None
    problem: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    def to_html(self) -> str:
        """The verdict, and the code with its findings if there are any; everything escaped."""
        lines = "".join(f"<p>{escaped(line)}</p>" for line in self._lines())
        code = "".join(map(code_html, self._blocks()))
        return (
            f'<style>{static_css()}</style><section class="tract-panel" data-testid="tract-check" '
            f'aria-label="{_TITLE}"><header>{heading(_TITLE, 3)}</header>{lines}{code}</section>'
        )

    def to_text(self) -> str:
        """The same in plain text."""
        return printable("\n".join([_TITLE, *self._lines(), *map(block_text, self._blocks())]))

    def _blocks(self) -> list[CodeBlock]:
        return [part.block for part in self.parts if part.result.findings]

    def _lines(self) -> list[str]:
        named = len(self.parts) > 1
        found = [
            f"{part.title}: {part.result.summary()}" if named else part.result.summary()
            for part in self.parts
        ]
        verdict = ""
        if self.mode is not None and self.parts:
            blocks = any(part.result.blocked_by(self.mode) for part in self.parts)
            verdict = f"The mode {self.mode.value!r} {'would block' if blocks else 'would not block'} it."
        return [line for line in (self.problem, *found, self.note, verdict) if line]


def _definition_parts(cell: str, advice: Advice) -> tuple[Part, ...] | None:
    """What is found in the actions that a `%%tract_operation` cell defines; None for any other cell.

    In a Python body lines and columns are those of the cell, else those of the action's code.

    Raises:
        OperationError: it defines nothing, and why.
    """
    step = definition_in(cell)
    if step is None:
        return None
    if isinstance(step, Wrong):
        raise OperationError(step.why)
    spec = step.parsed.checked()
    parts = tuple(
        Part(name, action.code, advice.analyzer.analyze(action.code, definition=definition_of(spec, action)))
        for name, action in spec.actions.items()
    )
    if not step.parsed.first_lines:
        return parts
    before = step.line - 1
    found = [_in_cell(part, cell, before + step.parsed.first_lines[part.title]) for part in parts]
    findings = in_order([finding for result in found for finding in result.findings])
    return (Part("Code", cell, AnalysisResult(findings, analysed=all(result.analysed for result in found))),)


def _in_cell(part: Part, cell: str, first: int) -> AnalysisResult:
    """The findings about an action's code where it stands in the cell, indented."""
    lines, cell_lines = split_lines(part.code), split_lines(cell)

    def place(line: int, column: int) -> tuple[int, int]:
        there = cell_lines[first + line - 2]
        return first + line - 1, column + len(there.rstrip()) - len(lines[line - 1].rstrip())

    findings = tuple(
        replace(
            finding,
            span=Span(
                *place(finding.span.line, finding.span.column),
                *place(finding.span.end_line, finding.span.end_column),
            ),
        )
        for finding in part.result.findings
    )
    return replace(part.result, findings=findings)


def parse_check(line: str) -> tuple[SandboxMode | None, str]:
    """The mode that is asked about, and the code behind the options.

    Raises:
        OperationError: there is no such option.
        SandboxModeError: there is no such mode.
    """
    mode, rest = None, line.strip()
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        name, _, value = option.partition("=")
        if name not in _OPTIONS:
            raise OperationError(f"%tract_check has no option {name!r}.{nearest(name, _OPTIONS)}")
        if name == "--mode" and not value:
            value, _, rest = rest.strip().partition(" ")
        mode, rest = SandboxMode("strict" if name == "--strict" else value), rest.strip()
    return mode, rest
