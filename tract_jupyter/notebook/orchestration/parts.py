"""The parts of a run that a turn of chat has not: its head, what the model was told, and why it makes each call."""

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
    AutonomyLevel.MANUAL: "it says what it would do, and changes nothing",
    AutonomyLevel.COLLABORATIVE: "you are asked before it changes anything",
    AutonomyLevel.AUTONOMOUS: "it acts by itself",
}
"""What each level means for the person."""
_TOLD: Final = TOLD_NOT_DONE.partition(":")[0]
_REASON: Final = 400
_TOLD_TEXT: Final = 6_000
_CUT: Final = 160


@dataclass(frozen=True)
class HeadPart:
    """The first line: what is looked after, at which level, and why the run was started."""

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
    """What the model was told about the context."""

    id: str
    told: str
    tokens: int

    def blocks(self, limit: int) -> list[TurnBlock]:
        """Return the row, folded."""
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
            "done", "What the model was told", brief=element("span", brief, class_="dim"), brief_text=brief,
            tokens=tokens_text(self.tokens),
        )  # fmt: skip


@dataclass(frozen=True)
class StepPart(CallPart):
    """A call of a run, with why the model wants it and what else it has thought of."""

    reasoning: str = ""
    alternatives: tuple[Alternative, ...] = ()
    only_reads: Callable[[str], bool] = lambda _: False

    @property
    def is_told(self) -> bool:
        """True if it was told, and not done, as autonomy was manual."""
        ended = self.ended
        return ended is not None and ended.is_error and not ended.made and ended.text.startswith(_TOLD)

    @property
    def chosen(self) -> Alternative | None:
        """The call that the user chose in its place; None if there is none."""
        if self.ended is None:
            return None if self.ticket is None else getattr(self.ticket.pending, "instead", None)
        instead = self.ended.instead
        return None if instead is None else Alternative(instead["name"], dict(instead["arguments"]))

    @property
    def is_replaced(self) -> bool:
        """True if another call was made in its place."""
        ended = self.ended
        return ended is not None and bool(ended.made) and not ended.is_error and ended.instead is not None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments: as the model wrote them, but for the user's changes to this call."""
        return super().arguments if self.chosen is None else self.call.arguments

    @property
    def state(self) -> str:
        """How far it has come; a call that was made in its place counts."""
        return "done" if self.is_replaced else super().state

    @property
    def is_change(self) -> bool:
        """True if it was made, and may have changed something; of a script, if one of its calls may have."""
        ended = self.ended
        if ended is None or ended.is_error or not ended.made:
            return False
        if ended.script is None:
            return not self.only_reads(self.call.name)
        by_tool = ended.script.get("by_tool")
        made = by_tool.items() if isinstance(by_tool, dict) else ()
        return any(not self.only_reads(name) and _succeeded(counts) for name, counts in made)

    def blocks(self, limit: int) -> list[TurnBlock]:
        """Return why it is made, and the row."""
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
        """Return what the row says."""
        row = super().row(limit)
        more: list[Html] = []
        if len(self.reasoning) > _REASON:
            more += [rows.sub("Why"), rows.out(self.reasoning, limit)]
        if self.alternatives:
            more += [rows.sub("Alternatives"), self._others()]
        badge = "told, not done" if self.is_told else row.badge
        return self._told_instead(row)._replace(body=(row.body, more), badge=badge)

    def _told_instead(self, row: Row) -> Row:
        """Return a row that names the call that was made, where it is another one."""
        chosen = self.chosen
        if chosen is None:
            return row
        brief, text = brief_arguments(chosen.arguments)
        verb = "Ran" if self.is_replaced else "Chose"
        what = f"{verb} {one_line(chosen.name, 60)} instead of {self.call.name}"
        return row._replace(what=what, name="", brief=brief, brief_text=text)

    def _others(self) -> Html:
        lines = []
        for number, one in enumerate(self.alternatives, 1):
            why = (element("br"), element("span", one.why, class_="dim")) if one.why else None
            call = rows.named(one_line(one.name, 60)), " ", brief_arguments(one.arguments)[0]
            lines.append((str(number), (element("code", call), why)))
        return table(lines, has_names=True)


def _succeeded(counts: object) -> bool:
    """Return True if some calls of a tool did not fail: the first numbers are how many there were, and failures."""
    return isinstance(counts, list) and len(counts) > 1 and counts[0] > counts[1]
