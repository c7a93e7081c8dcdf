"""The cells `%%tract_operation` and `%%tract_check`: parse a definition, then review, activate or only check it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from IPython.display import display

from tract_jupyter.analysis import AnalysisResult, SandboxMode, Span, in_order, split_lines
from tract_jupyter.exceptions import OperationError, PendingError, SpecError
from tract_jupyter.models import PendingStatus, printable
from tract_jupyter.notebook.cell_syntax import ParsedCell, parse_cell
from tract_jupyter.notebook.options import OperationOptions
from tract_jupyter.notebook.panels.code import code_html
from tract_jupyter.notebook.panels.render import RECORD_STYLES
from tract_jupyter.notebook.script_cell import shown_above
from tract_jupyter.notebook.views.html import Grid, GridView, Html, View, element
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.operations import spec_diff
from tract_jupyter.review import CodeBlock, block_text, by_rule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.operations import Advice, PendingActivation
    from tract_jupyter.review import Pending
    from tract_jupyter.tract import Tract


def define(notebook: NotebookSession, options: OperationOptions, text: str) -> Awaitable[None] | None:
    """Define an operation from the text of a cell.

    Returns:
        With `wait`, an awaitable for the decision. It raises an error unless the operation is approved. Else None.
    """
    parsed = parse_cell(options.name, text, options.form)
    parsed = parsed.with_options(ask=options.ask, sandbox=options.sandbox)
    try:
        pending = _begin(notebook.tract, parsed, activate=options.activate)
        if options.form == "python" and notebook.is_typed(text):
            notebook.tract.operations.count_as_typed(parsed.spec, pending)
        if pending is not None:
            notebook.tract.reviewer.show(pending)
    except SpecError as error:
        raise parsed.in_cell(error) from None
    return _activated_or_stop(pending) if options.wait else None


def _begin(tract: Tract, parsed: ParsedCell, *, activate: bool) -> PendingActivation | None:
    active = tract.operations.registry.reviewed_spec(parsed.spec.name)
    if active is not None and active.spec_hash == parsed.spec.spec_hash:
        display(GridView(f"Operation {active.name} is already active in exactly this version."))
        return None
    if activate:
        display(_activate(tract, parsed))
        return None
    return tract.operations.propose(parsed.spec, triggered_by="a cell")


async def _activated_or_stop(pending: Pending | None) -> None:
    if pending is not None and (await pending).status is not PendingStatus.APPROVED:
        state = str(pending.status)
        raise shown_above(PendingError(f"{pending.title}: {state}"), state.capitalize())


def _activate(tract: Tract, parsed: ParsedCell) -> GridView:
    spec, advice = parsed.spec, tract.operations.advice
    before = tract.operations.registry.get_spec(spec.name)
    tract.operations.activate(spec, replace=True)
    lines = [f"Fire it with %tract_fire {spec.name}, or as tools.fire_{spec.name}(...)."]
    lines += [advice.note] if advice.note else []
    if before is not None:
        lines += ["It replaces the active version:", *spec_diff(before, spec).split("\n")]
    heads, code = ("Line", "Level", "Rule", "Code", "Finding"), frozenset({"Rule", "Code"})
    grid = Grid(heads, tuple(_finding_rows(parsed, advice)), "Findings", code=code)
    return GridView(f"Operation {spec.name} is active", tuple(lines), (grid,))


def _finding_rows(parsed: ParsedCell, advice: Advice) -> Iterator[tuple[str, ...]]:
    for name, action in parsed.spec.actions.items():
        before = parsed.first_lines.get(name, 1) - 1
        for rule in by_rule(advice.analyzer.analyze(action.code).findings):
            numbers = ", ".join(map(str, dict.fromkeys(before + f.span.line for f in rule.findings)))
            place = numbers if parsed.first_lines else f"{name}: {numbers}"
            worst = rule.worst
            yield place, worst.level.value, worst.code, worst.text, f"{worst.reason} {worst.remedy}"


_TITLE = "Checked, not run"


def check(notebook: NotebookSession, code: str, mode: SandboxMode | None = None) -> CheckView:
    """Analyse code after the cells that ran in this kernel. With a mode, also report if it would block the code."""
    advice = notebook.advice
    try:
        parts = _definition_parts(code, advice)
    except OperationError as error:
        return CheckView((), advice.note, mode, f"Defining it would fail: {error}")
    if parts is None:
        tools = notebook.tract.executor.tools() if notebook.is_open else ()
        result = advice.analyze(code, tools=tools, cells_before=notebook.ran_code())
        parts = (CheckedCode("Code", code, result),)
    return CheckView(parts, advice.note, mode)


@dataclass(frozen=True)
class CheckedCode:
    """A piece of code with its analysis."""

    title: str
    code: str
    result: AnalysisResult

    @property
    def block(self) -> CodeBlock:
        """The code with its findings, for display."""
        return CodeBlock(self.title, self.code, self.result.findings)


@dataclass(frozen=True)
class CheckView(View):
    """The findings in code that did not run, or the reason why a definition is not valid."""

    parts: tuple[CheckedCode, ...]
    note: str
    mode: SandboxMode | None
    problem: str = ""

    def to_html(self) -> Html:
        """Return the verdict, and the code if it has findings."""
        lines = (element("p", line) for line in self._lines())
        code = map(code_html, self._blocks())
        title = element("p", element("b", _TITLE))
        named = {"data_testid": "tract-check", "aria_label": _TITLE}
        return output_html(element("section", title, lines, code, class_="check", **named), *RECORD_STYLES)

    def to_text(self) -> str:
        """Return the same in plain text."""
        return printable("\n".join([_TITLE, *self._lines(), *map(block_text, self._blocks())]))

    def _blocks(self) -> list[CodeBlock]:
        return [part.block for part in self.parts if part.result.findings]

    def _lines(self) -> list[str]:
        named = len(self.parts) > 1
        findings = [
            f"{part.title}: {part.result.summary()}" if named else part.result.summary()
            for part in self.parts
        ]
        verdict = ""
        if self.mode is not None and self.parts:
            blocks = any(part.result.blocked_by(self.mode) for part in self.parts)
            verdict = f"The mode {self.mode.value!r} {'would block' if blocks else 'would not block'} it."
        return [line for line in (self.problem, *findings, self.note, verdict) if line]


def _definition_parts(cell: str, advice: Advice) -> tuple[CheckedCode, ...] | None:
    definition = _definition_in(cell)
    if definition is None:
        return None
    before, parsed = definition
    spec = parsed.checked()
    parts = tuple(
        CheckedCode(name, action.code, advice.analyzer.analyze(action.code))
        for name, action in spec.actions.items()
    )
    if not parsed.first_lines:
        return parts
    checked_parts = [_in_cell(part, cell, before + parsed.first_lines[part.title]) for part in parts]
    findings = in_order([finding for result in checked_parts for finding in result.findings])
    return (
        CheckedCode(
            "Code", cell, AnalysisResult(findings, analysed=all(result.analysed for result in checked_parts))
        ),
    )


def _definition_in(cell: str) -> tuple[int, ParsedCell] | None:
    name = "%%tract_operation"
    lines = cell.splitlines(keepends=True)
    before = next((number for number, line in enumerate(lines) if line.strip()), 0)
    indent = lines[before][: len(lines[before]) - len(lines[before].lstrip())] if lines else ""
    header, *body = [line.removeprefix(indent) for line in lines[before:]] or [""]
    if header.split()[:1] != [name] or header.rstrip().endswith("?"):
        return None
    options = OperationOptions.parse(header.strip().removeprefix(name))
    # an empty first line, so line numbers refer to the cell
    parsed = parse_cell(options.name, "\n" + "".join(body), options.form)
    return before, parsed.with_options(ask=options.ask, sandbox=options.sandbox)


def _in_cell(part: CheckedCode, cell: str, first: int) -> AnalysisResult:
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
