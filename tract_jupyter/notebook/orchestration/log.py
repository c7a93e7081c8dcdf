"""A run of an orchestrator as a turn, live or from the store: its additional parts, its log, and its last line."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from tract_jupyter.exceptions import ContentError, OperationError
from tract_jupyter.loop import CallAsked, CallEnded, RequestBegan, TurnEnded
from tract_jupyter.models import AutonomyLevel, TurnOutcome, counted, one_line, printable, shortened
from tract_jupyter.notebook.chat.log import TurnLog
from tract_jupyter.notebook.chat.parts import CallPart, RowPart
from tract_jupyter.notebook.chat.rows import brief_arguments, tokens_text
from tract_jupyter.notebook.chat.source import TractSource, replayed_from
from tract_jupyter.notebook.chat.turn import DrawnTurn
from tract_jupyter.notebook.chat.view import TurnBlock
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import element, table
from tract_jupyter.notebook.views.rows import Row
from tract_jupyter.orchestrator import about_run, split_arguments
from tract_jupyter.prompts import TOLD_NOT_DONE
from tract_jupyter.toolkit import Alternative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.loop import PastTurn, TurnEvent
    from tract_jupyter.models import Attachment, ToolCall
    from tract_jupyter.notebook.chat.parts import Part
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.orchestrator import Orchestrator
    from tract_jupyter.tract import Tract


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


def _assessment_part(told: str, tokens: int) -> RowPart:
    """Return the assessment of the context that the model gets."""
    lines = [line.removeprefix("- ") for line in told.splitlines() if line.startswith("- ")]
    brief = one_line(" · ".join(lines[:2]) or told, _CUT)
    return RowPart("told", Row(
        "done", "Request to the model", brief=element("span", brief, class_="dim"), brief_text=brief,
        tokens=tokens_text(tokens), body=rows.out(told, _TOLD_TEXT),
    ))  # fmt: skip


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


GO_ON: Final = "%tract_orchestrate --resume"
SHOW: Final = "%tract orchestrator show"


@dataclass(eq=False, kw_only=True)
class OrchestrationLog(TurnLog):
    """The log of a run. It adds the head, reasons of calls, the level and the size of the context.

    Args:
        turn: the run so far, a `DrawnRun`.
        tract: the context.
        reason: the reason for the run.
        level: the level of autonomy at the start.
        now: returns the current level; None for a finished run.
        head: the head of the context before the run.
        branch: the branch of the context.
        named_tract: the variable with the tract.
    """

    turn: DrawnTurn = field(default_factory=lambda: DrawnRun(go_on=GO_ON, named="run"))
    show_again: str = SHOW
    tract: Tract
    reason: str = ""
    level: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    now: Callable[[], AutonomyLevel] | None = None
    head: str | None = None
    branch: str = ""
    named_tract: str = "tract"

    def add(self, event: TurnEvent) -> None:
        """Add the next event."""
        with self._lock:
            if isinstance(event, RequestBegan | CallAsked):
                self._check_level()
            super().add(event)
            if isinstance(event, CallEnded):
                self._check_level()
            if isinstance(event, CallEnded | TurnEnded):
                self._measure(event)

    def view(self) -> DrawnRun:
        """Return the current state of the run."""
        run, budget = cast("DrawnRun", super().view()), self.tract.budget
        return replace(
            run,
            most_tokens=None if budget is None else budget.max_tokens,
            undo=self._undo(run) if run.is_over else "",
        )

    def _opening(self, text: str, attachments: Sequence[Attachment]) -> list[Part]:  # noqa: ARG002 # a run has none
        of = " of ".join(filter(None, [self.branch, f"tract {self.tract.family.agent_id[:12]}"]))
        assessment = _assessment_part(text, self.source.count(text))
        return [HeadPart("head", of, self.level, self.reason), assessment]

    def _make_call(self, part_id: str, call: ToolCall) -> StepPart:
        tool = self.tract.executor.get(call.name)
        arguments, reasoning, alternatives = split_arguments(tool, call.arguments)
        return StepPart(
            part_id, replace(call, arguments=arguments), reasoning=reasoning, alternatives=alternatives,
            only_reads=self._only_reads,
        )  # fmt: skip

    def _only_reads(self, name: str) -> bool:
        tool = self.tract.executor.get(name)
        return tool is not None and bool(tool.traits.read_only)

    def _check_level(self) -> None:
        level = self.level if self.now is None else self.now()
        if level is not self.level:
            raised = level.rank > self.level.rank
            self.level = level
            title = f"Autonomy was {'raised' if raised else 'lowered'}: {level} from here on."
            self.note(title, f"{MEANS[level].capitalize()}.")

    def _measure(self, event: CallEnded | TurnEnded) -> None:
        if self.now is not None:
            self.set(tokens_now=self.tract.status().token_count)
        stored = event.about.get("tokens") if isinstance(event, TurnEnded) else None
        if isinstance(stored, int):  # the run comes from the store
            self.set(tokens_now=stored)

    def _undo(self, turn: DrawnTurn) -> str:
        changes = sum(isinstance(part, StepPart) and part.is_change for part in turn.parts)
        is_elsewhere = (
            self.now is None or self.tract.current_branch != self.branch or self.tract.head == self.head
        )
        if not changes or is_elsewhere:
            return ""
        if changes == 1:
            return "%tract undo --yes takes it back"
        return "" if self.head is None else f"{self.named_tract}.reset({self.head[:8]!r}) takes them back"


@dataclass(frozen=True)
class DrawnRun(DrawnTurn):
    """The state of a run. Numbers of tokens are None if they are unknown."""

    tokens_before: int | None = None
    tokens_now: int | None = None
    most_tokens: int | None = None
    undo: str = ""

    @property
    def outcome(self) -> str:
        """The changes in a sentence without its period."""
        steps = [part for part in self.parts if isinstance(part, StepPart)]
        done = sum(step.is_change for step in steps)
        reported = sum(step.is_told for step in steps)
        refused = sum(step.state == "refused" for step in steps)
        sentences = [
            f"{counted(done, 'change')} made" if done else "Nothing was changed",
            f"{counted(refused, 'proposal')} rejected" if refused else "",
            f"{counted(reported, 'proposal')} reported but not executed, because autonomy was manual"
            if reported
            else "",
        ]
        return "; ".join(filter(None, sentences))

    @property
    def summary(self) -> str:
        """The end of the run and its changes in a line."""
        _, title, _ = super()._state()
        return "; ".join(filter(None, [title, self.outcome]))

    def _actions(self) -> tuple[Action, ...]:
        return ("stop",) if self.ended is None else ()

    def _state(self) -> tuple[str, str, str]:
        icon, title, more = super()._state()
        if self.ended is None:
            return icon, title, more
        if self.ended.outcome is TurnOutcome.ANSWER:
            return icon or "i-done", self.outcome, "; ".join(filter(None, [title, self.undo]))
        return icon, title, "; ".join(filter(None, [self.outcome, more, self.undo]))

    def _numbers(self) -> list[str]:
        return [self._context(), *super()._numbers()]

    def _context(self) -> str:
        before, now, most = self.tokens_before, self.tokens_now, self.most_tokens
        if before is None and now is None:
            return ""
        counts = " → ".join(dict.fromkeys(f"{count:,}" for count in (before, now) if count is not None))
        of = "" if most is None else f" of {most:,}"
        return f"context {counts}{of} tokens"


# --- runs in the store


def run_name(name: str | None) -> str | None:
    """Return the name of a run. Its number is also valid."""
    return f"run-{int(name)}" if name is not None and name.isdecimal() else name


@contextmanager
def conversation(orchestrator: Orchestrator, run: str | None) -> Iterator[tuple[Any, PastTurn | None]]:
    """Open the conversation of a run, and return it with its turn. The turn is None if the run sent no request."""
    conversation_tract = orchestrator.conversation(run_name(run))
    try:
        turns = conversation_tract.loop.turns()
        yield conversation_tract, turns[-1] if turns else None
    finally:
        conversation_tract.close()


def run_log(
    tract: Tract, conversation_tract: Any, turn: PastTurn, *, to_go_on: bool = False
) -> OrchestrationLog:
    """Return the log of a stored run. `to_go_on` leaves out the end of the turn, to resume it."""
    about = about_run(conversation_tract) or {}
    tokens, head = about.get("tokens"), about.get("head")
    run = OrchestrationLog(
        source=TractSource(tract), tract=tract, reason=str(about.get("reason") or ""),
        level=_level(about.get("effective") or about.get("autonomy")), head=head if isinstance(head, str) else None,
        branch=str(about.get("branch") or ""),
    )  # fmt: skip
    run.set(replayed=replayed_from(tract), tokens_before=tokens if isinstance(tokens, int) else None)
    for event in conversation_tract.loop.events_of(turn):
        if not (to_go_on and isinstance(event, TurnEnded)):
            run.add(event)
    return run


def asked_level(conversation_tract: Any) -> AutonomyLevel:
    """Return the level that the user or policy requested for a run."""
    return _level((about_run(conversation_tract) or {}).get("autonomy"))


def _level(value: object) -> AutonomyLevel:
    try:
        return AutonomyLevel(str(value))
    except ContentError:  # another author wrote it
        return AutonomyLevel.MANUAL


def stored_run(tract: Tract, run: str | None = None) -> DrawnRun:
    """Return a stored run, the newest if `run` is None."""
    with conversation(tract.orchestrator, run) as (conversation_tract, turn):
        if turn is None:
            raise OperationError(
                f"{conversation_tract.current_branch} ended before a request to its model, so there is no turn to show"
            )
        return run_log(tract, conversation_tract, turn).view()
