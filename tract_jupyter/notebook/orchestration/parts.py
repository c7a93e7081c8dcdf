"""The parts of a run that a chat turn does not have: the head, the assessment, and the reason of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import AutonomyLevel, one_line, printable, shortened
from tract_jupyter.notebook.chat.parts import CallPart
from tract_jupyter.notebook.chat.rows import brief_arguments, tokens_text
from tract_jupyter.notebook.chat.view import TurnBlock
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import element, fragment, table
from tract_jupyter.notebook.views.rows import Row
from tract_jupyter.prompts import TOLD_NOT_DONE
from tract_jupyter.toolkit import Alternative

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.notebook.views.html import Html

MEANS: Final = {
    AutonomyLevel.MANUAL: "it reports its proposals and changes nothing",
    AutonomyLevel.COLLABORATIVE: "it asks you before each change",
    AutonomyLevel.AUTONOMOUS: "it acts without asking you",
}
"""The meaning of each level for the user."""
_TOLD: Final = TOLD_NOT_DONE.partition(":")[0]
_REASON: Final = 400
_TOLD_TEXT: Final = 6_000
_CUT: Final = 160


@dataclass(frozen=True)
class HeadPart:
    """The first line: the context, the level of autonomy and the reason for the run."""

    id: str
    of: str
    level: AutonomyLevel
    reason: str = ""

    def blocks(self, limit: int) -> list[TurnBlock]:  # noqa: ARG002 # it is short
        """Return the line."""
        why = element("p", f"Why: {shortened(self.reason, _REASON)}") if self.reason else None
        what = (
            element("b", "Looks after ", element("code", one_line(self.of, 60))),
            " ",
            rows.badge(str(self.level)),
            " ",
            element("span", MEANS[self.level], class_="dim"),
        )
        return [TurnBlock(self.id, element("div", element("p", what), why, class_="looks"))]

    def text(self) -> str:
        """Return the line as text."""
        why = f"\nWhy: {shortened(self.reason, _REASON)}" if self.reason else ""
        return printable(f"Looks after {one_line(self.of, 60)} · {self.level}: {MEANS[self.level]}{why}")


@dataclass(frozen=True)
class AssessmentPart:
    """The assessment of the context that the model gets."""

    id: str
    told: str
    tokens: int

    def blocks(self, limit: int) -> list[TurnBlock]:
        """Return the folded row."""
        body = rows.out(self.told, max(limit, _TOLD_TEXT))
        return [TurnBlock(self.id, fragment(self._row._replace(body=body)), kind="row")]

    def text(self) -> str:
        """Return the row as text."""
        return self._row.text()

    @property
    def _row(self) -> Row:
        lines = [line.removeprefix("- ") for line in self.told.splitlines() if line.startswith("- ")]
        brief = one_line(" · ".join(lines[:2]) or self.told, _CUT)
        return Row(
            "done", "Request to the model", brief=element("span", brief, class_="dim"), brief_text=brief,
            tokens=tokens_text(self.tokens),
        )  # fmt: skip


@dataclass(frozen=True)
class StepPart(CallPart):
    """A call of a run with the reason and the alternatives of the model."""

    reasoning: str = ""
    alternatives: tuple[Alternative, ...] = ()
    only_reads: Callable[[str], bool] = lambda _: False

    @property
    def is_told(self) -> bool:
        """True if the call was reported instead of made, because autonomy was manual."""
        ended = self.ended
        return ended is not None and ended.is_error and not ended.made and ended.text.startswith(_TOLD)

    @property
    def chosen(self) -> Alternative | None:
        """The alternative that the user chose; None if there is none."""
        if self.ended is None:
            return None if self.ticket is None else getattr(self.ticket.pending, "instead", None)
        instead = self.ended.instead
        return None if instead is None else Alternative(instead["name"], dict(instead["arguments"]))

    @property
    def is_replaced(self) -> bool:
        """True if an alternative was called instead."""
        ended = self.ended
        return ended is not None and bool(ended.made) and not ended.is_error and ended.instead is not None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the model, with the user's changes to this call."""
        return super().arguments if self.chosen is None else self.call.arguments

    @property
    def state(self) -> str:
        """The progress. A completed alternative counts as done."""
        return "done" if self.is_replaced else super().state

    @property
    def is_change(self) -> bool:
        """True if the call was made and may have changed something. A script counts if one of its calls may have."""
        ended = self.ended
        if ended is None or ended.is_error or not ended.made:
            return False
        if ended.script is None:
            return not self.only_reads(self.call.name)
        by_tool = ended.script.get("by_tool")
        calls = by_tool.items() if isinstance(by_tool, dict) else ()
        return any(not self.only_reads(name) and _succeeded(counts) for name, counts in calls)

    def blocks(self, limit: int) -> list[TurnBlock]:
        """Return the reason, and the row."""
        blocks = super().blocks(limit)
        if not self.reasoning:
            return blocks
        label = element("span", "Why:", class_="dim")
        why = element("p", label, f" {shortened(self.reasoning, _REASON)}", class_="why")
        return [TurnBlock(f"{self.id}.why", why, kind="row"), *blocks]

    def text(self) -> str:
        """Return the rows as text."""
        why = printable(f"Why: {shortened(self.reasoning, _REASON)}\n") if self.reasoning else ""
        return f"{why}{super().text()}"

    def row(self, limit: int) -> Row:
        """Return the content of the row."""
        row = super().row(limit)
        more: list[Html] = []
        if len(self.reasoning) > _REASON:
            more += [rows.sub("Why"), rows.out(self.reasoning, limit)]
        if self.alternatives:
            more += [rows.sub("Alternatives"), self._others()]
        badge = "reported, not run" if self.is_told else row.badge
        return self._with_alternative(row)._replace(body=(row.body, more), badge=badge)

    def _with_alternative(self, row: Row) -> Row:
        """Return a row that names the chosen alternative, if there is one."""
        chosen = self.chosen
        if chosen is None:
            return row
        brief, text = brief_arguments(chosen.arguments)
        verb = "Ran" if self.is_replaced else "Chose"
        what = f"{verb} {one_line(chosen.name, 60)} instead of {self.call.name}"
        return row._replace(what=what, name="", brief=brief, brief_text=text)

    def _others(self) -> Html:
        lines = []
        for number, alternative in enumerate(self.alternatives, 1):
            why = (element("br"), element("span", alternative.why, class_="dim")) if alternative.why else None
            call = rows.named(one_line(alternative.name, 60)), " ", brief_arguments(alternative.arguments)[0]
            lines.append((str(number), (element("code", call), why)))
        return table(lines, has_names=True)


def _succeeded(counts: object) -> bool:
    """Return True if at least one call of a tool succeeded. `counts` starts with the calls and the failures."""
    return isinstance(counts, list) and len(counts) > 1 and counts[0] > counts[1]
