"""`Scripts` runs scripts, and keeps their results."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.exceptions import ContentError, ScriptFailedError
from tract_jupyter.models.checks import check_choice
from tract_jupyter.models.schema import stub_source
from tract_jupyter.models.text import safe_repr
from tract_jupyter.prompts import tool_calls as prompts
from tract_jupyter.scripts.call_log import ScriptReplay
from tract_jupyter.scripts.kernel import NAMES, run_in_kernel
from tract_jupyter.scripts.limits import ScriptLimits
from tract_jupyter.scripts.notebooks import MAIN, ScriptNotebooks
from tract_jupyter.scripts.result import ScriptStatus
from tract_jupyter.scripts.run import ScriptRun
from tract_jupyter.scripts.sandbox import Sandbox, taken_up
from tract_jupyter.scripts.script import Script
from tract_jupyter.toolkit.calling import current_caller
from tract_jupyter.toolkit.names import all_functions
from tract_jupyter.toolkit.results import Savings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.scripts.call_log import StoredLog
    from tract_jupyter.scripts.pendings import PendingScriptCall
    from tract_jupyter.scripts.result import OutputKind, ScriptResult
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.stubs import ToolsModule


_MOST_NAMES = 50


def instructions(tools: Mapping[str, ToolDefinition], count: Callable[[str], int], max_tokens: int) -> str:
    """Return instructions for writing scripts, with the signatures of the tools.

    Where that is too long, descriptions are left out first, then the signatures of the last tools, which are named.

    Args:
        tools: those that the model has, by name.
        count: counts tokens.
        max_tokens: of the whole text.

    Raises:
        ContentError: not even the words about scripts fit.
    """
    least = count(prompts.SCRIPTS)
    if least > max_tokens:
        raise ContentError(f"the instructions need at least {least} tokens; max_tokens is {max_tokens}")
    for text in _shorter_and_shorter(all_functions(tools)):
        if count(text) <= max_tokens:
            return text
    return prompts.SCRIPTS


def _shorter_and_shorter(functions: Mapping[str, ToolDefinition]) -> Iterator[str]:
    yield _text(stub_source(functions))
    yield _text(stub_source(functions, docs=False))
    kept = len(functions)
    while kept > 1:
        kept = kept * 3 // 4
        names = list(functions)
        shown = stub_source({name: functions[name] for name in names[:kept]}, docs=False)
        rest = names[kept:]
        listed = ", ".join(rest[:_MOST_NAMES]) + (", ..." if len(rest) > _MOST_NAMES else "")
        yield _text(shown + prompts.LEFT_OUT.format(count=len(rest), names=listed))


def _text(stubs: str) -> str:
    return prompts.SCRIPTS + prompts.SCRIPT_TOOLS.format(stubs=stubs)


Backend = Literal["kernel", "sandbox"]

_KEPT = 100
_MOST_CODE = 1_000_000


class Scripts:
    """The scripts of one tract.

    Args:
        tools: gives the module that scripts find as `tools`.
        executor: makes the calls of those in the sandbox.
        tract: whose questions are asked.
        stored_log: gives the rows for the calls of a run, by the hash of the script and the notebook's id.
        record: stores the data of the event of a run.

    Attributes:
        notebooks: whose variables scripts of the kernel see.
        sandbox: runs what nobody approved, and keeps its variables.
        results: the newest 100, the oldest first.
        totals: what all runs saved.
        runs: how many there were.
    """

    def __init__(
        self,
        tools: Callable[[], ToolsModule],
        executor: ToolExecutor,
        tract: Any,
        stored_log: Callable[[str, str], StoredLog],
        record: Callable[[dict[str, Any]], object] = lambda _: None,
    ) -> None:
        self.notebooks = ScriptNotebooks(lambda: {"tools": tools(), **NAMES})
        self.sandbox = Sandbox(executor, tract)
        self.results: deque[ScriptResult] = deque(maxlen=_KEPT)
        self.totals = Savings()
        self.runs = 0
        self._stored_log = stored_log
        self._record = record

    def prepare(
        self,
        code: str,
        *,
        backend: Backend = "kernel",
        notebook_id: str | None = None,
        limits: ScriptLimits | None = None,
        live: Callable[[OutputKind, str], object] | None = None,
        first_line: int = 1,
        author: str = "user",
        anew: bool = False,
    ) -> ScriptRun:
        """Check a script and get it ready; nothing of it runs.

        Args:
            code: plain Python; `await` may stand at the top level.
            backend: where it is to run: `kernel` or `sandbox`.
            notebook_id: whose variables it sees; the user's own, or `main`, if left out.
            limits: what it may take.
            live: is given what it prints, as it comes.
            first_line: the number of its first line, for what names lines.
            author: who wrote it, for the record.
            anew: make all calls, also those that an earlier run in the kernel has made, which did not complete.

        Raises:
            ScriptSyntaxError: it is not Python.
            ScriptFailedError: it is not a text, is too long, or is run from a script.
        """
        if current_caller() is not None:
            raise ScriptFailedError("a script cannot run another script; call the tools that it would call")
        if not isinstance(code, str) or len(code) > _MOST_CODE:
            raise ScriptFailedError(f"a script is a text of up to {_MOST_CODE:,} characters")
        script = Script(code, first_line)
        script.compiled()
        check_choice(backend, ("kernel", "sandbox"), "backend")
        return ScriptRun(
            script,
            backend=backend,
            notebook_id=self.notebooks.resolved(
                MAIN if notebook_id is None and backend == "sandbox" else notebook_id
            ),
            limits=limits or ScriptLimits(),
            live=live,
            author=author,
            anew=anew,
        )

    def notebooks_of(self, backend: Backend) -> Sandbox | ScriptNotebooks:
        """Return the keeper of a backend's notebooks."""
        return self.sandbox if backend == "sandbox" else self.notebooks

    def execute(self, run: ScriptRun, *, fresh: bool = False) -> ScriptResult:
        """Run a prepared script in the current thread, and return its result.

        Raises:
            ScriptFailedError: the notebook cannot be used; nothing ran.
        """
        run.meter.start()
        if run.backend == "sandbox":
            self.sandbox.run(run, fresh=fresh)
        else:
            self._run_in_kernel(run, fresh=fresh)
        return self._recorded(run)

    def go_on(self, decided: PendingScriptCall) -> ScriptResult:
        """Continue a paused script, now that its call has been decided about."""
        run, program = taken_up(decided.script)
        run.meter.start()
        self.sandbox.go_on(run, program, decided)
        return self._recorded(run)

    def go_on_and_print(self, decided: PendingScriptCall) -> ScriptResult:
        """Take up a paused script, and print what it showed: for the record of the decision."""
        result = self.go_on(decided)
        value = [] if result.value is None else [safe_repr(result.value)]
        told = [
            *filter(None, [result.text.rstrip()]),
            *value,
            f"Script {result.status}: {result.call_count} tool calls",
        ]
        print("\n".join(told))  # noqa: T201 # whoever carries the decision out keeps it
        return result

    def _recorded(self, run: ScriptRun) -> ScriptResult:
        result = run.result()
        self.runs += 1
        self.results.append(result)
        self.totals += result.savings
        self._record(_event(result))
        return result

    def _run_in_kernel(self, run: ScriptRun, *, fresh: bool) -> None:
        namespace = self.notebooks.namespace(run.notebook_id, fresh=fresh)
        replay = ScriptReplay(self._stored_log(run.script.script_hash, run.notebook_id), anew=run.anew)
        run.calls.log = replay.log
        try:
            run_in_kernel(run, namespace)
        finally:
            replay.end(completed=run.status is ScriptStatus.COMPLETED)
            run.notes = replay.notes()
        self.notebooks.restore(namespace)

    def run(self, code: str, *, fresh: bool = False, **options: Any) -> ScriptResult:
        """Run a script in the current thread; see `prepare` for the options."""
        return self.execute(self.prepare(code, **options), fresh=fresh)


def _event(result: ScriptResult) -> dict[str, Any]:
    """What the event of a run says."""
    return {
        "script_hash": result.script_hash,
        "author": result.author,
        "code": result.code,
        "backend": result.backend,
        "notebook_id": result.notebook_id,
        "status": result.status.value,
        "error": None if result.error is None else f"{result.error.name}: {result.error.message}"[:2_000],
        "tool_calls": result.call_count,
        "replayed_calls": result.replayed_count,
        "seconds": round(result.seconds, 6),
        "tokens_saved": result.savings.saved,
    }
