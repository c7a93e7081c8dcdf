"""The result of an orchestrator's run, and of each of its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import AutonomyLevel, TurnOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.models import ToolCall
    from tract_jupyter.toolkit import ToolResult


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
