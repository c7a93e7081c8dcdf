"""The result of an orchestrator's run, and of each of its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tract_jupyter.loop import ReplyStored, RequestBegan
from tract_jupyter.models import AutonomyLevel, ToolCall, TurnOutcome, counted, digest
from tract_jupyter.orchestrator.assessment import state_of
from tract_jupyter.prompts import NOTHING_CHANGED
from tract_jupyter.toolkit import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.loop import EndedCall, TurnEvent
    from tract_jupyter.orchestrator.toolset import OrchestratorToolset


class OrchestratorState(StrEnum):
    """The state of an orchestrator."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSING = "pausing"
    """It ends before its next request."""
    STOPPED = "stopped"
    """It is about to stop. In a result: it was stopped or paused."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One call of a run, and its result.

    Attributes:
        step: the number of the request whose reply has the call, from 1.
        tool_call: the call that ran, with the user's changes.
        result: its result. A refused or only reported call is no success, and `error` has the reason.
        reasoning: the model's reason.
        decision: `approved`, `modified`, `rejected` or `told` (reported but not executed, because autonomy is manual).
            Empty if no approval was needed.
        reads: True if the tool only reads.
        tokens_before: the tokens of the context before the step.
        tokens_after: the tokens of the context after all calls of the step.
    """

    step: int
    tool_call: ToolCall
    result: ToolResult
    reasoning: str = ""
    decision: str = ""
    reads: bool = False
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True)
class OrchestratorResult:
    """The result of a run.

    Attributes:
        steps: the calls, in order.
        state: `idle` if the run is complete, `stopped` if it was stopped or paused.
        outcome: the kind of its end.
        note: the outcome in a sentence, with the remedy.
        text: the model's last text.
        run: the name of the run; `conversation(run)` opens it. Empty if there was no request to a model.
        reason: the reason of the run.
        autonomy: the effective level at its start.
        tokens_before: the tokens of the maintained context at its start.
        tokens_after: the tokens of the maintained context at its end.
        usage: the provider's usage data for all requests of the run, with the `cost` if known.
    """

    steps: tuple[StepResult, ...] = ()
    state: OrchestratorState = OrchestratorState.IDLE
    outcome: TurnOutcome = TurnOutcome.ANSWER
    note: str = ""
    text: str = ""
    run: str = ""
    reason: str = ""
    autonomy: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    tokens_before: int = 0
    tokens_after: int = 0
    usage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> tuple[ToolCall, ...]:
        """The calls that were reported but not executed, because autonomy is manual."""
        return tuple(one.tool_call for one in self.steps if one.decision == "told")

    @property
    def is_healthy(self) -> bool:
        """True if the run is complete, and the model called no tool that changes something."""
        return self.outcome is TurnOutcome.ANSWER and all(one.reads for one in self.steps)


_MOST_IDLE = 2
"""The maximum number of successive rounds of changing calls without any change. Then the run ends."""


class RunSteps:
    """The steps of one run.

    Attributes:
        results: the calls so far.
        last_text: the model's last text.
        toolset: the model's tools.
    """

    toolset: OrchestratorToolset

    def __init__(
        self,
        tract: Any,
        on_step: Callable[[StepResult], object],
        on_turn: Callable[[TurnEvent], object] | None,
    ) -> None:
        self.results: list[StepResult] = []
        self.last_text = ""
        self._tract = tract
        self._on_step = on_step
        self._observer = on_turn
        self._request = 0
        self._idle = 0
        self._changes = 0
        self._tokens = tract.status().token_count
        self._state = self._state_hash()

    def on_turn(self, event: TurnEvent) -> None:
        """Follow an event of the conversation."""
        if isinstance(event, RequestBegan):
            self._request = event.step
        elif isinstance(event, ReplyStored):
            self.last_text = event.text
        if self._observer is not None:
            self._observer(event)

    def after_step(self, calls: list[EndedCall]) -> str:
        """Record the results of a step's calls. Return the reason to end the run; empty if it continues."""
        before, self._tokens = self._tokens, self._tract.status().token_count
        for call in calls:
            step = self._step(call, before)
            self.results.append(step)
            self._on_step(step)
        changing = [call for call in calls if not self._only_reads(call)]
        if not changing:
            return ""
        state = self._state_hash()
        acts_elsewhere = any(
            call.made and not call.answer.is_error and self._changes_elsewhere(call) for call in changing
        )
        is_refused = any(one.decision == "rejected" for one in self.results[-len(calls) :])
        has_changed = state != self._state or acts_elsewhere
        self._state = state
        self._changes += sum(
            not call.answer.is_error and (has_changed or not self._runs_code(call)) for call in changing
        )
        self._idle = 0 if has_changed or is_refused else self._idle + 1
        return NOTHING_CHANGED if self._idle >= _MOST_IDLE else ""

    def note(self, outcome: TurnOutcome, note: str) -> str:
        """Describe the end of the run in a sentence."""
        reported = [one for one in self.results if one.decision == "told"]
        parts = []
        if outcome is TurnOutcome.ANSWER:
            parts.append(
                f"{counted(self._changes, 'change')} made" if self._changes else "nothing was changed"
            )
            if reported:
                reported_count = counted(len(reported), "proposal")
                parts.append(f"{reported_count} reported but not executed, because autonomy is manual")
        return "; ".join(filter(None, [*parts, note.replace("chat(None)", "resume()")]))

    # ---

    def _step(self, call: EndedCall, before: int) -> StepResult:
        own_arguments, reasoning, _ = self.toolset.split_arguments(call.call.name, call.call.arguments)
        name, arguments = (call.tool, dict(call.arguments)) if call.tool else (call.call.name, own_arguments)
        text, failed = call.answer.text, call.answer.is_error
        is_only_reported = (
            failed and not call.made and not call.tool and self.toolset.is_only_reported(call.call.name)
        )
        decision = "told" if is_only_reported else call.decision
        result = ToolResult(
            name, success=not failed, output=None if failed else text, error=text if failed else "",
            denied=is_only_reported or decision == "rejected",
        )  # fmt: skip
        return StepResult(
            self._request,
            ToolCall(call.call.id, name, arguments),
            result,
            reasoning or self.last_text,
            decision,
            self._only_reads(call),
            before,
            self._tokens,
        )

    def _only_reads(self, call: EndedCall) -> bool:
        tool = self._tract.executor.get(call.tool or call.call.name)
        return tool is not None and bool(tool.traits.read_only)

    def _runs_code(self, call: EndedCall) -> bool:
        """Return True if the tool runs code, which may only have read."""
        tool = self._tract.executor.get(call.tool)
        return tool is not None and tool.asks_itself

    def _changes_elsewhere(self, call: EndedCall) -> bool:
        """Return True if the tool's changes may lie outside of the context, so they cannot be detected."""
        tool = self._tract.executor.get(call.tool)
        return tool is not None and not tool.is_of_tract

    def _state_hash(self) -> str:
        return digest(state_of(self._tract))
