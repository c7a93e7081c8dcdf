"""What came of a run of an orchestrator, and of each of its calls."""

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
    """How far an orchestrator is."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSING = "pausing"
    """It ends before its next request."""
    STOPPED = "stopped"
    """It is being stopped; or, of a result: it was stopped or paused."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One call of a run, with what came of it.

    Attributes:
        step: the request whose reply made it, from 1.
        tool_call: what was called: as it was carried out, with what a person changed.
        result: what came of it. What was refused, or only told, is no success, and its `error` says why.
        reasoning: why the model wanted it, in its own words.
        decision: `approved`, `modified`, `rejected`, `told` (not done, as autonomy is manual), or empty if nobody was
            asked.
        reads: whether it only reads.
        tokens_before: of the context, before the step.
        tokens_after: after all calls of the step.
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
    """What came of a run.

    Attributes:
        steps: the calls, in order.
        state: `idle` if the run came to its end, `stopped` if it was stopped or paused.
        outcome: how it ended.
        note: that in a sentence, and what to do.
        text: what the model said last.
        run: the name of the run, under which its conversation is kept; empty if no model was asked.
        reason: why it was run.
        autonomy: the level that counted when it began.
        tokens_before: of the context that is looked after.
        tokens_after: the same, at the end.
        usage: what the provider reported, of all requests of the run; with the `cost` where it is known.
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
        """The calls that were told, and not made, as autonomy is manual."""
        return tuple(one.tool_call for one in self.steps if one.decision == "told")

    @property
    def is_healthy(self) -> bool:
        """True if the model found nothing to do: it came to its end, and called nothing that changes something."""
        return self.outcome is TurnOutcome.ANSWER and all(one.reads for one in self.steps)
