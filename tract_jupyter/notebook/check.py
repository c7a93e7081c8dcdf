"""What `%%tract_check` does with a cell: analyse it as if it ran next, and show what that found. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.analysis import AnalysisSession, SandboxMode
from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models.text import printable
from tract_jupyter.notebook.markup import escaped, heading
from tract_jupyter.notebook.panels.code import code_html
from tract_jupyter.notebook.panels.render import static_css
from tract_jupyter.review.request import CodeBlock
from tract_jupyter.review.request_text import block_text

if TYPE_CHECKING:
    from tract_jupyter.analysis import AnalysisResult
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
        self._learn()
        tools = self._session.tract.executor.tools() if self._session.is_open else ()
        return CheckView(code, self._analysis.analyze(code, tools=tools), self._session.advice.note, mode)

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
class CheckView:
    """What was found in code that did not run."""

    code: str
    result: AnalysisResult
    note: str
    mode: SandboxMode | None

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.to_text()}

    def to_html(self) -> str:
        """The verdict, and the code with its findings if there are any; everything escaped."""
        lines = "".join(f"<p>{escaped(line)}</p>" for line in self._lines())
        code = code_html(self._block) if self.result.findings else ""
        return (
            f'<style>{static_css()}</style><section class="tract-panel" data-testid="tract-check" '
            f'aria-label="{_TITLE}"><header>{heading(_TITLE, 3)}</header>{lines}{code}</section>'
        )

    def to_text(self) -> str:
        """The same in plain text."""
        code = block_text(self._block) if self.result.findings else ""
        return printable("\n".join(filter(None, [_TITLE, *self._lines(), code])))

    @property
    def _block(self) -> CodeBlock:
        return CodeBlock("Code", self.code, self.result.findings)

    def _lines(self) -> list[str]:
        verdict = ""
        if self.mode is not None:
            does = "would block" if self.result.blocked_by(self.mode) else "would not block"
            verdict = f"The mode {self.mode.value!r} {does} it."
        return [line for line in (self.result.summary(), self.note, verdict) if line]


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
