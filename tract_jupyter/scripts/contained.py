"""The contained backend: it runs a script with packages in a fresh copy that has nothing of the user.

The copy is a contained process (`rehearsal`) without variables, files and environment of the user. Tool calls go
through the same gate as all calls. So a model's script runs here without a request. Nothing of it is kept.
"""

from __future__ import annotations

import contextvars
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RehearsalError, ScriptFailedError
from tract_jupyter.models import counted
from tract_jupyter.rehearsal import ToolReply
from tract_jupyter.scripts.kernel import NAMES
from tract_jupyter.scripts.rehearsing import replay
from tract_jupyter.scripts.result import ScriptError, ScriptStatus
from tract_jupyter.toolkit import call_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.rehearsal import Effects, Rehearser
    from tract_jupyter.scripts.run import ScriptRun
    from tract_jupyter.toolkit import ToolExecutor


class Contained:
    """The contained backend of one tract.

    Args:
        executor: It makes the calls.
        rehearser: It returns the rehearser of this kernel. None if there is none.
    """

    def __init__(self, executor: ToolExecutor, rehearser: Callable[[], Rehearser] | None) -> None:
        self._executor = executor
        self._rehearser = rehearser

    def run(self, run: ScriptRun) -> None:
        """Run a script, and store the outcome in `run`.

        Raises:
            ScriptFailedError: This machine cannot contain code. Nothing ran.
        """
        if self._rehearser is None:
            raise ScriptFailedError("nothing contains code here; use backend='sandbox'")
        rehearser, notes = self._rehearser(), call_context().notes
        limits, most = rehearser.limits, run.meter.limits.seconds
        with tempfile.TemporaryDirectory(prefix="tract-contained-") as folder:
            try:
                effects = rehearser.run_bare(
                    run.script.without_tool_imports,
                    Path(folder),
                    NAMES,
                    tools=self._answering(run),
                    stop=None if notes is None else notes.stop,
                    limits=replace(limits, seconds=min(limits.seconds, most or limits.seconds)),
                )
            except RehearsalError as error:
                raise ScriptFailedError(
                    f"the script cannot be contained here: {error} Or use backend='sandbox'"
                ) from None
            finally:
                run.calls.end()
        _end(run, effects)

    def _answering(self, run: ScriptRun) -> Callable[[str, dict[str, Any]], ToolReply]:
        """Return the function that makes tool calls of the copy, with the context of this thread."""
        context = contextvars.copy_context()

        def make(name: str, arguments: dict[str, Any]) -> ToolReply:
            result = run.calls.execute(self._executor, name, arguments, line=0)
            return ToolReply(result.output, result.error)

        return lambda name, arguments: context.copy().run(make, name, arguments)


def _end(run: ScriptRun, effects: Effects) -> None:
    """Give a run its output, its status, and notes about refused attempts and lost files."""
    replay(run, effects)
    if effects.ending == "stopped":
        run.status = ScriptStatus.INTERRUPTED
    elif effects.ending in {"limit", "crashed"}:
        run.status = ScriptStatus.TIMED_OUT if effects.ending == "limit" else ScriptStatus.FAILED
        run.error = ScriptError("Stopped", effects.ending_note, f"Stopped: {effects.ending_note}\n")
    images = [output.data.get("image/png") for output in effects.outputs]
    run.figures = [image for image in images if isinstance(image, bytes)]
    run.notes = (*run.notes, *_notes(effects))


def _notes(effects: Effects) -> Iterator[str]:
    if effects.refused:
        yield f"Refused: {'; '.join(one.action for one in effects.refused)}."
    if effects.files:
        yield f"{counted(len(effects.files), 'file')} of the script ended with it; print what you need."
