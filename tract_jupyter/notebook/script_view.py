"""How a script stands, while it runs and afterwards."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.display import display, update_display

from tract_jupyter.notebook.display import Grid, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.scripts.result import ScriptResult, ToolCall
    from tract_jupyter.scripts.run import Run

_ENDINGS = {
    "completed": "Script completed",
    "failed": "Script failed",
    "timed_out": "Script stopped: its time is over",
    "interrupted": "Script interrupted",
    "rejected": "Script rejected",
    "paused": "Script paused",
}
_MOST_FAILURES = 10


class LiveView:
    """The counter of a running script: put up once there is something to tell, and replaced at the end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._shown = ""
        self._display_id = secrets.token_hex(16)

    def refresh(self) -> None:
        """Show how it stands."""
        text = _progress(self._run)
        if text != self._shown:
            self._put(View(text))
            self._shown = text

    def end(self, view: ResultView) -> None:
        """Show what came of it instead."""
        self._put(view)

    def _put(self, view: View | ResultView) -> None:
        if self._shown:
            update_display(view, display_id=self._display_id)
        else:
            display(view, display_id=self._display_id)


def _progress(run: Run) -> str:
    meter, budget = run.meter, run.meter.budget
    calls = f"{run.calls.count:,}" + (f" of {budget.calls:,}" if budget.calls is not None else "")
    seconds = f"{meter.seconds:.0f}" + (f" of {budget.seconds:g}" if budget.seconds is not None else "")
    doing = "Script waits for a decision" if meter.is_waiting else "Script runs"
    return f"{doing}: {calls} tool calls, {seconds} s"


@dataclass(frozen=True)
class ResultView:
    """What came of a script, and what the analysis says about it."""

    result: ScriptResult
    note: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return self._view()._repr_mimebundle_()  # IPython's protocol

    def _view(self) -> View:
        result = self.result
        title = f"{_ENDINGS[result.status]}: {result.call_count:,} tool calls in {result.seconds:.2f} s"
        lines = [_savings_text(result)] if result.call_count else []
        lines += result.notes
        lines += ["%%tract_script --anew makes all calls again."] if result.replayed_count else []
        lines += [self.note] if self.note else []
        calls = Grid(
            ("Tool", "Calls", "Failed", "Seconds"),
            tuple(_by_tool(result.calls)),
            code=frozenset({"Tool"}),
            right=frozenset({"Calls", "Failed", "Seconds"}),
        )
        failures = Grid(
            ("Line", "Tool", "Error"),
            tuple(_failures(result.calls)),
            "Calls that failed",
            code=frozenset({"Tool"}),
        )
        return View(title, tuple(lines), (calls, failures))


def _savings_text(result: ScriptResult) -> str:
    saved = result.savings.saved
    verdict = f"≈ {saved:,} tokens saved" if saved >= 0 else f"≈ {-saved:,} tokens more than calls one by one"
    return f"{verdict}: {result.savings.arithmetic}"


def _by_tool(calls: tuple[ToolCall, ...]) -> Iterator[tuple[str, ...]]:
    for tool in dict.fromkeys(call.tool for call in calls):
        of_tool = [call for call in calls if call.tool == tool]
        failed = sum(not call.success for call in of_tool)
        yield tool, f"{len(of_tool):,}", f"{failed:,}", f"{sum(call.seconds for call in of_tool):.3f}"


def _failures(calls: tuple[ToolCall, ...]) -> Iterator[tuple[str, ...]]:
    failed = [call for call in calls if not call.success]
    for call in failed[:_MOST_FAILURES]:
        yield str(call.line or ""), call.tool, call.error
    if len(failed) > _MOST_FAILURES:
        yield "", "", f"and {len(failed) - _MOST_FAILURES:,} more"
