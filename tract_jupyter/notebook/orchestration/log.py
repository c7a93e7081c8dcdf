"""A run of an orchestrator as a turn, live or from the store: its log with its additional parts, and its last line."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from tract_jupyter.exceptions import ContentError, OperationError
from tract_jupyter.loop import CallAsked, CallEnded, RequestBegan, TurnEnded
from tract_jupyter.models import AutonomyLevel, TurnOutcome, counted
from tract_jupyter.notebook.chat.log import TurnLog
from tract_jupyter.notebook.chat.source import TractSource, replayed_from
from tract_jupyter.notebook.chat.turn import DrawnTurn
from tract_jupyter.notebook.orchestration.parts import MEANS, AssessmentPart, HeadPart, StepPart
from tract_jupyter.orchestrator import about_run, split_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.loop import PastTurn, TurnEvent
    from tract_jupyter.models import Attachment, ToolCall
    from tract_jupyter.notebook.chat.parts import Part
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.orchestrator import Orchestrator
    from tract_jupyter.tract import Tract

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
        assessment = AssessmentPart("told", text, self.source.count(text))
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
        """Add a note if the level has changed."""
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
        """Return the command that reverses the changes of the run."""
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
    """The state of a run.

    Attributes:
        tokens_before: the tokens of the context before the run; None if unknown.
        tokens_now: the tokens now or at the end; None if unknown.
        most_tokens: the budget; None for none.
        undo: the command that reverses the changes; empty if there is none.
    """

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
    """Open the conversation of a run, and return it with its turn. The turn is None if the run sent no request.

    Raises:
        OrchestratorError: the run does not exist.
    """
    conversation_tract = orchestrator.conversation(run_name(run))
    try:
        turns = conversation_tract.loop.turns()
        yield conversation_tract, turns[-1] if turns else None
    finally:
        conversation_tract.close()


def run_log(
    tract: Tract, conversation_tract: Any, turn: PastTurn, *, to_go_on: bool = False
) -> OrchestrationLog:
    """Return the log of a stored run.

    Args:
        tract: the context.
        conversation_tract: the conversation of the run.
        turn: the turn of that conversation.
        to_go_on: leave out the end of the turn, to resume it.
    """
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
    """Return a stored run, the newest if `run` is None.

    Raises:
        OperationError: the run sent no request to a model.
        OrchestratorError: the run does not exist.
    """
    with conversation(tract.orchestrator, run) as (conversation_tract, turn):
        if turn is None:
            raise OperationError(
                f"{conversation_tract.current_branch} ended before a request to its model, so there is no turn to show"
            )
        return run_log(tract, conversation_tract, turn).view()
