"""Scripts on a contained copy: rehearsals for the kernel, which are kept or run, and the contained backend.

A script that only looked (`only_looked`) may go to the model without a request, if the user allowed it. The output of
such scripts is limited per turn.

The contained backend runs a script with packages in a fresh copy, without variables, files and environment of the user.
Tool calls go through the same gate as all calls. So a model's script runs there without a request. Nothing of it is
kept.
"""

from __future__ import annotations

import contextvars
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import RehearsalError, ScriptFailedError
from tract_jupyter.models import digest
from tract_jupyter.rehearsal import ToolReply, Watch, probe
from tract_jupyter.review import CHAT, Subject
from tract_jupyter.scripts.effects import differences, end
from tract_jupyter.scripts.kernel import NAMES
from tract_jupyter.toolkit import ToolResult, call_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.rehearsal import Effects, Rehearsal, Rehearser
    from tract_jupyter.scripts.run import ScriptRun
    from tract_jupyter.toolkit import ToolExecutor

LOOKS: Final = "Let the model look without asking, in this session"
"""The rule of the standing approval for scripts without effects, as the user sees it."""
MOST_LOOKED: Final = 20_000
"""The maximum number of characters that scripts without effects may send to the model per turn without a request."""


def looking() -> Subject:
    """Return the subject of this approval. It covers only scripts by the model of the chat."""
    return Subject("script", "kernel", digest({"rule": LOOKS}), {}, CHAT, rule=LOOKS)


def own_names(namespace: Mapping[str, Any], *, with_tools: bool = False) -> frozenset[str]:
    """Return the names of objects of this package. They hold open stores, so a copy has none, except `tools`."""
    package = __name__.partition(".")[0]
    return frozenset(
        name
        for name, value in namespace.items()
        if type(value).__module__.partition(".")[0] == package and (with_tools or name != "tools")
    )


class Rehearsed(NamedTuple):
    """The rehearsal of a script, or the reason why there is none.

    `run` has the answered tool calls. It becomes the result if the effects are kept.
    """

    run: ScriptRun
    rehearsal: Rehearsal | None
    why_not: str = ""

    @property
    def effects(self) -> Effects | None:
        """The effects. None without a rehearsal."""
        return None if self.rehearsal is None else self.rehearsal.effects


class Rehearsing:
    """The contained runs of one tract's scripts: rehearsals, and the contained backend.

    Attributes:
        is_on: If False, no script is rehearsed.
    """

    is_on: bool = True

    def __init__(self, executor: ToolExecutor, rehearser: Callable[[], Rehearser] | None) -> None:
        self._executor = executor
        self._rehearser = rehearser
        self._looked: dict[str, int] = {}

    @property
    def rehearser(self) -> Rehearser | None:
        """The rehearser of this kernel. None if nothing is rehearsed."""
        return self._rehearser() if self.is_on and self._rehearser is not None else None

    def rehearse(self, run: ScriptRun, namespace: dict[str, Any]) -> Rehearsed:
        """Rehearse a prepared script in the current thread."""
        rehearser, notes = self.rehearser, call_context().notes
        if rehearser is None:
            return Rehearsed(run, None)
        own = sorted(own_names(namespace) & run.script.names)
        if own:
            return Rehearsed(run, None, f"the code uses `{own[0]}`, which a copy of the kernel does not have")
        stop = None if notes is None else notes.stop
        try:
            rehearsal = rehearser.rehearse(
                run.script.without_tool_imports,
                namespace,
                tools=self._answering(run, self._answer),
                stop=stop,
            )
        except RehearsalError as error:
            level = probe()
            return Rehearsed(run, None, level.reason if level.name == "none" else str(error))
        return Rehearsed(run, rehearsal)

    def run_contained(self, run: ScriptRun) -> None:
        """Run a script of the contained backend, and store the outcome in `run`.

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
                    tools=self._answering(run, self._make),
                    stop=None if notes is None else notes.stop,
                    limits=replace(limits, seconds=min(limits.seconds, most or limits.seconds)),
                )
            except RehearsalError as error:
                raise ScriptFailedError(
                    f"the script cannot be contained here: {error} Or use backend='sandbox'"
                ) from None
            finally:
                run.calls.end()
        end(run, effects)

    def watch(self, run: ScriptRun, namespace: dict[str, Any]) -> Watch | None:
        """Save the variables and files that code names, before it runs in the kernel. None if that is not possible.

        Code of a turn is watched without rehearsals, too: the undo of the turn needs it.
        """
        if self._rehearser is None or not (self.is_on or call_context().effects):
            return None
        rehearser = self._rehearser()
        try:
            own = own_names(namespace, with_tools=True)
            return Watch(run.script.code, namespace, rehearser.workspace, rehearser.backups, own)
        except RehearsalError:
            return None  # the script runs as without undo

    def end_watch(self, run: ScriptRun, watched: Watch | None) -> None:
        """Store the change of a run in the kernel, and its difference from the rehearsal."""
        if watched is None:
            return
        expected = () if run.effects is None else [one.name for one in run.effects.variables]
        try:
            run.change = watched.finish(expected)
        except RehearsalError as error:
            run.notes = (*run.notes, f"The run cannot be undone: {error}")
            return
        note = "" if run.effects is None else differences(run.effects, run.change)
        run.notes = (*run.notes, *filter(None, [note]))

    @staticmethod
    def _answering(
        run: ScriptRun, answer: Callable[[ScriptRun, str, dict[str, Any]], ToolReply]
    ) -> Callable[[str, dict[str, Any]], ToolReply]:
        """Return the function that answers tool calls of the copy, with the context of this thread."""
        context = contextvars.copy_context()
        return lambda name, arguments: context.copy().run(answer, run, name, arguments)

    def _make(self, run: ScriptRun, name: str, arguments: dict[str, Any]) -> ToolReply:
        result = run.calls.execute(self._executor, name, arguments, line=0)
        return ToolReply(result.output, result.error)

    def _answer(self, run: ScriptRun, name: str, arguments: dict[str, Any]) -> ToolReply:
        """Make a call that only reads and needs no approval. All other calls end the rehearsal."""
        calls = run.calls
        call = self._executor.prepare(name, arguments, actor=calls.actor, profile=calls.profile)
        if isinstance(call, ToolResult):
            return ToolReply(error=call.error)
        if call.question is not None or not call.tool.traits.read_only:
            return ToolReply(needs_approval=True)
        return self._make(run, name, arguments)

    def looked(self) -> int:
        """Return the number of characters that scripts without effects sent in the current turn without a request."""
        turn = call_context().effects
        return 0 if turn is None else self._looked.get(turn.question, 0)

    def count_look(self, characters: int) -> None:
        """Count the text of a script that went to the model without a request."""
        turn = call_context().effects
        if turn is not None:
            self._looked[turn.question] = self.looked() + characters
