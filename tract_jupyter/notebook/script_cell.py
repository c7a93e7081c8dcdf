"""The `%%tract_script` cell: run a script in a worker thread, while the cell awaits it and panels work."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from IPython.display import display

from tract_jupyter.concurrency import Worker
from tract_jupyter.exceptions import OperationError, in_one_line
from tract_jupyter.models import counted
from tract_jupyter.notebook.output import CellOutput, displays_hooked
from tract_jupyter.notebook.views.html import Grid, GridView
from tract_jupyter.review import current_sink, findings_text, real_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.notebook.options import ScriptOptions
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.scripts import (
        OutputKind,
        ScriptCall,
        ScriptLimits,
        ScriptResult,
        ScriptRun,
    )


E = TypeVar("E", bound=BaseException)


def shown_above(error: E, state: str = "Failed") -> E:
    """Reduce an error that the display shows already to one line. IPython then also cancels the queued cells."""
    in_one_line(error, f"{state}: see above. Queued cells did not run.")
    return error


_ENDINGS = {
    "completed": "Script completed",
    "failed": "Script failed",
    "timed_out": "Script stopped: its time limit is reached",
    "interrupted": "Script interrupted",
    "rejected": "Script rejected",
    "paused": "Script paused",
}
_MOST_FAILURES = 10


class LiveView:
    """The counter of a running script. The result replaces it."""

    def __init__(self, run: ScriptRun) -> None:
        self._run = run
        self._shown = ""
        self._beats = 0
        self._output = CellOutput()

    def beat(self) -> None:
        """Show the current state every few heartbeats."""
        self._beats += 1
        if self._beats % _REFRESHED_EVERY:
            return
        text = _progress(self._run)
        if text != self._shown:
            self._output.put(GridView(text))
            self._shown = text

    def end(self, result: ScriptResult, note: str) -> None:
        """Show the result instead, with the note of the analysis."""
        self._output.put(_result_view(result, note))


def _progress(run: ScriptRun) -> str:
    clock, limits = run.meter.clock, run.meter.limits
    if limits.calls is None:
        calls = counted(run.calls.count, "tool call")
    else:
        calls = f"{run.calls.count:,} of {counted(limits.calls, 'tool call')}"
    seconds = f"{clock.seconds:.0f}" + (f" of {limits.seconds:g}" if limits.seconds is not None else "")
    doing = "Script waiting for a decision" if clock.is_waiting else "Script running"
    return f"{doing}: {calls}, {seconds} s"


def _result_view(result: ScriptResult, note: str) -> GridView:
    title = f"{_ENDINGS[result.status]}: {counted(result.call_count, 'tool call')} in {result.seconds:.2f} s"
    savings = result.savings
    lines = [f"{savings.verdict}: {savings.arithmetic}"] if savings.calls else []
    lines += result.notes
    lines += ["%%tract_script --anew repeats all calls."] if result.replayed_count else []
    lines += [note] if note else []
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
    return GridView(title, tuple(lines), (calls, failures))


def _by_tool(calls: tuple[ScriptCall, ...]) -> Iterator[tuple[str, ...]]:
    for tool in dict.fromkeys(call.tool for call in calls):
        of_tool = [call for call in calls if call.tool == tool]
        failed = sum(not call.success for call in of_tool)
        yield tool, f"{len(of_tool):,}", f"{failed:,}", f"{sum(call.seconds for call in of_tool):.3f}"


def _failures(calls: tuple[ScriptCall, ...]) -> Iterator[tuple[str, ...]]:
    failed = [call for call in calls if not call.success]
    for call in failed[:_MOST_FAILURES]:
        yield str(call.line or ""), call.tool, call.error
    if len(failed) > _MOST_FAILURES:
        yield "", "", f"and {len(failed) - _MOST_FAILURES:,} more"


QUEUED: Final = "Stopped. Queued cells did not run."
"""The text of a stopped cell instead of a traceback. Its display names the stopped turn."""
_REFRESHED_EVERY = 10  # heartbeats


def _limits(options: ScriptOptions) -> ScriptLimits:
    from tract_jupyter.scripts import ScriptLimits

    limits: dict[str, Any] = {"seconds": options.timeout, "calls": options.calls}
    return ScriptLimits(**{name: value for name, value in limits.items() if value is not None})


async def run_cell(notebook: NotebookSession, code: str, options: ScriptOptions) -> None:
    """Run the code of a cell as a script, and show the result."""
    if not code.strip():
        raise OperationError("no code. Write the script below %%tract_script. Nothing was run")
    notebook.lend_variables()
    if options.rehearse:
        await _rehearse(notebook, code, options)
        return
    run = notebook.tract.scripts.prepare(
        code,
        backend="sandbox" if options.sandbox else "kernel",
        notebook_id=options.notebook_id,
        limits=_limits(options),
        live=_to_screen,
        first_line=2,
        anew=options.anew,
    )
    note = _findings(notebook, run)
    view = LiveView(run)
    worker = Worker(lambda: _executed(notebook, run, fresh=options.fresh), "tract-script")
    try:
        result = await worker.wait(view.beat)
    except asyncio.CancelledError as error:
        in_one_line(error, "Interrupted: the script was stopped.")
        run.stopper.signal.set("interrupted")
        await worker.ended()
        if worker.result is not None:
            view.end(worker.result, note)
        raise
    _show_rest(run)
    if result.value is not None:
        display(result.value)
    view.end(result, note)
    if options.out:
        notebook.shell.user_ns[options.out] = result
    result.check()


async def _rehearse(notebook: NotebookSession, code: str, options: ScriptOptions) -> None:
    """Show the effects of the code as a request, which does not block the cell."""
    if options.sandbox:
        raise OperationError(
            "--rehearse and --sandbox exclude each other: the sandbox has no effects to rehearse"
        )
    tract = notebook.tract
    worker = Worker(lambda: tract.scripts.rehearse(code, notebook_id=options.notebook_id), "tract-rehearse")
    pending = await worker.wait()
    if options.out:
        notebook.shell.user_ns[options.out] = pending
    tract.reviewer.show(pending)


def _findings(notebook: NotebookSession, run: ScriptRun) -> str:
    """Return the number of findings in a sentence. Findings are advice; the script does not wait for them."""
    tract = notebook.tract
    before = tract.scripts.notebooks.ran_code(run.notebook_id) if run.backend == "kernel" else ()
    block = tract.operations.advice.code_block(
        "script", run.script.code, tools=tract.executor.tools(), cells_before=before
    )
    text = findings_text([block])
    return f"{text} %%tract_check shows more." if text else ""


def _executed(notebook: NotebookSession, run: ScriptRun, *, fresh: bool) -> ScriptResult:
    with _displays_captured(notebook.shell, run):
        return notebook.tract.scripts.execute(run, fresh=fresh)


@contextmanager
def _displays_captured(shell: InteractiveShell, run: ScriptRun) -> Iterator[None]:
    """Capture the displays of the script's thread in its result. Displays beyond the limit do not reach the screen."""

    def hook(message: dict[str, Any]) -> dict[str, Any] | None:
        content = message.get("content", {})
        # requests and their displays are not output of the script
        if message.get("msg_type") != "display_data" or current_sink() is not run.capture:
            return message
        data = content.get("data", {})
        return message if run.capture.show("display", str(data.get("text/plain", "")), data) else None

    with displays_hooked(shell, hook):
        yield


def _to_screen(kind: OutputKind, text: str) -> None:
    real_stream("stderr" if kind == "stderr" else "stdout").write(text)


def _show_rest(run: ScriptRun) -> None:
    """Show a note about omitted output, and the end of the output."""
    for output in run.capture.rest():
        _to_screen(output.kind, output.text)
