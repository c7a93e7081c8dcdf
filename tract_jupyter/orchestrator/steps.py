"""The steps of a run: what came of each call, and whether the run goes on though nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.loop import ReplyStored, RequestBegan
from tract_jupyter.models import ToolCall, TurnOutcome, counted, digest
from tract_jupyter.orchestrator.assessment import state_of
from tract_jupyter.orchestrator.result import StepResult
from tract_jupyter.prompts import NOTHING_CHANGED
from tract_jupyter.toolkit import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.loop import EndedCall, TurnEvent
    from tract_jupyter.orchestrator.toolset import OrchestratorToolset

_MOST_IDLE = 2
"""Rounds in a row that should have changed something and did not, after which a run is stopped."""


class RunSteps:
    """The steps of one run.

    Args:
        tract: the context that is looked after.
        on_step: is given each call with what came of it.
        on_turn: is given each event of the conversation; None if nobody looks on.

    Attributes:
        results: the calls so far.
        said: what the model said last.
        toolset: the tools that it has.
    """

    toolset: OrchestratorToolset

    def __init__(
        self,
        tract: Any,
        on_step: Callable[[StepResult], object],
        on_turn: Callable[[TurnEvent], object] | None,
    ) -> None:
        self.results: list[StepResult] = []
        self.said = ""
        self._tract = tract
        self._on_step = on_step
        self._told = on_turn
        self._request = 0
        self._idle = 0
        self._changes = 0
        self._tokens = tract.status().token_count
        self._state = self._look()

    def on_turn(self, event: TurnEvent) -> None:
        """Follow the conversation."""
        if isinstance(event, RequestBegan):
            self._request = event.step
        elif isinstance(event, ReplyStored):
            self.said = event.text
        if self._told is not None:
            self._told(event)

    def after_step(self, calls: list[EndedCall]) -> str:
        """Note what came of the calls of a step; return why the run ends with it, empty if it goes on."""
        before, self._tokens = self._tokens, self._tract.status().token_count
        for call in calls:
            step = self._step(call, before)
            self.results.append(step)
            self._on_step(step)
        wanted = [call for call in calls if not self._only_reads(call)]
        if not wanted:
            return ""
        state = self._look()
        acts_elsewhere = any(
            call.made and not call.answer.is_error and self._is_foreign(call) for call in wanted
        )
        is_refused = any(one.decision == "rejected" for one in self.results[-len(calls) :])
        has_changed = state != self._state or acts_elsewhere
        self._state = state
        self._changes += sum(
            not call.answer.is_error and (has_changed or not self._asks_itself(call)) for call in wanted
        )
        self._idle = 0 if has_changed or is_refused else self._idle + 1
        return NOTHING_CHANGED if self._idle >= _MOST_IDLE else ""

    def note(self, outcome: TurnOutcome, note: str) -> str:
        """Return how the run ended, in a sentence."""
        told = [one for one in self.results if one.decision == "told"]
        parts = []
        if outcome is TurnOutcome.ANSWER:
            parts.append(
                f"{counted(self._changes, 'change')} made" if self._changes else "nothing was changed"
            )
            if told:
                parts.append(f"{counted(len(told), 'proposal')} told, and not done, as autonomy is manual")
        return "; ".join(filter(None, [*parts, note.replace("chat(None)", "resume()")]))

    # ---

    def _step(self, call: EndedCall, before: int) -> StepResult:
        bare, reasoning, _ = self.toolset.parted(call.call.name, call.call.arguments)
        name, arguments = (call.tool, dict(call.arguments)) if call.tool else (call.call.name, bare)
        text, failed = call.answer.text, call.answer.is_error
        is_told = failed and not call.made and not call.tool and self.toolset.is_told(call.call.name)
        decision = "told" if is_told else call.decision
        result = ToolResult(
            name, success=not failed, output=None if failed else text, error=text if failed else "",
            denied=is_told or decision == "rejected",
        )  # fmt: skip
        return StepResult(
            self._request,
            ToolCall(call.call.id, name, arguments),
            result,
            reasoning or self.said,
            decision,
            self._only_reads(call),
            before,
            self._tokens,
        )

    def _only_reads(self, call: EndedCall) -> bool:
        tool = self._tract.executor.get(call.tool or call.call.name)
        return tool is not None and bool(tool.traits.read_only)

    def _asks_itself(self, call: EndedCall) -> bool:
        """Return True if a tool carries out code, which may have only read."""
        tool = self._tract.executor.get(call.tool)
        return tool is not None and tool.asks_itself

    def _is_foreign(self, call: EndedCall) -> bool:
        """Return True if what a tool changes may lie outside of the context, where nobody sees it."""
        tool = self._tract.executor.get(call.tool)
        return tool is not None and not tool.is_of_tract

    def _look(self) -> str:
        return digest(state_of(self._tract))
