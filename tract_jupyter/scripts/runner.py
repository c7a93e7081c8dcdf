"""`Scripts` runs scripts, and keeps their results."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tract_jupyter.exceptions import ScriptFailedError
from tract_jupyter.models import brief_repr, canonical_json, check_choice, safe_repr
from tract_jupyter.scripts.call_log import CallLog
from tract_jupyter.scripts.instructions import instructions
from tract_jupyter.scripts.kernel import NAMES, ScriptNotebooks, run_in_kernel, was_left
from tract_jupyter.scripts.known import keep_made
from tract_jupyter.scripts.limits import ScriptLimits
from tract_jupyter.scripts.result import ScriptStatus
from tract_jupyter.scripts.run import ScriptRun
from tract_jupyter.scripts.sandbox import Sandbox, taken_up
from tract_jupyter.scripts.script import MAIN, OWN, Script
from tract_jupyter.toolkit import (
    CODE_MODE,
    TOKENS_PER_CALL,
    Exchanged,
    Savings,
    call_context,
    current_caller,
    get_profile,
    profile_of,
    schema_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.sandbox import SandboxPool
    from tract_jupyter.scripts.call_log import StoredLog
    from tract_jupyter.scripts.pendings import PendingScriptCall
    from tract_jupyter.scripts.result import OutputKind, ScriptResult
    from tract_jupyter.toolkit import ToolDefinition, ToolExecutor, ToolProfile, ToolsModule


ScriptBackend = Literal["kernel", "sandbox"]
"""Where a script runs."""

_KEPT = 100
_MOST_CODE = 1_000_000


class Scripts:
    """The scripts of one tract.

    Args:
        executor: has the tools, and makes the calls of scripts in the sandbox.
        tools: gives the module that scripts find as `tools`.
        pool: gives the processes of the sandbox.
        stored_log: gives the rows for the calls of a run, by the hash of the script and the notebook's id.
        record: stores the data of the event of a run.
        count_tokens: counts those of a text.

    Attributes:
        notebooks: whose variables scripts of the kernel see.
        sandbox: runs what nobody approved, and keeps its variables.
        results: the newest 100, the oldest first.
        runs: how many there were.
        shown: a context manager around each run; a notebook shows the script's output within it.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        *,
        tools: Callable[[], ToolsModule],
        pool: Callable[[], SandboxPool],
        stored_log: Callable[[str, str], StoredLog],
        record: Callable[[dict[str, Any]], object],
        count_tokens: Callable[[str], int],
    ) -> None:
        self._executor = executor
        self._count_tokens = count_tokens
        self.notebooks = ScriptNotebooks(lambda: {"tools": tools(), **NAMES})
        self.sandbox = Sandbox(executor, pool)
        self.results: deque[ScriptResult] = deque(maxlen=_KEPT)
        self._overheads: dict[str, _Overhead] = {}
        self._told: dict[str, int] = {}  # tokens of the instructions that were made last, by profile
        self.runs = 0
        self.shown: Callable[[ScriptRun], AbstractContextManager[None]] = _not_shown
        self._stored_log = stored_log
        self._record = record

    def prepare(
        self,
        code: str,
        *,
        backend: ScriptBackend = "kernel",
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
            notebook_id: whose variables it sees: in the kernel `user` for the user's own, as if left out; else `main`.
            limits: what it may take.
            live: is given what it prints, as it comes.
            first_line: the number of its first line, for what names lines.
            author: who wrote it, for the record.
            anew: make all calls, also those that an earlier run in the kernel has made, which did not complete.

        Raises:
            ScriptSyntaxError: it is not Python.
            ScriptFailedError: it is not a text, is too long, or is run from a script.
        """
        if current_caller(self._executor) is not None:
            raise ScriptFailedError("a script cannot run another script; call the tools that it would call")
        if not isinstance(code, str) or len(code) > _MOST_CODE:
            raise ScriptFailedError(f"a script is a text of up to {_MOST_CODE:,} characters")
        script = Script(code, first_line)
        script.compiled()
        check_choice(backend, ("kernel", "sandbox"), "backend")
        if backend == "sandbox" and notebook_id == OWN:
            raise ScriptFailedError(
                "the sandbox does not see the variables of the person; backend='kernel' does, once a person has "
                "approved the code"
            )
        if not (limits is None or isinstance(limits, ScriptLimits)):
            raise ScriptFailedError(
                f"limits are made with ScriptLimits(seconds=60), or None for the usual ones; not {brief_repr(limits)}"
            )
        return ScriptRun(
            script,
            backend=backend,
            notebook_id=self.notebooks.resolved(
                MAIN if notebook_id is None and backend == "sandbox" else notebook_id
            ),
            limits=limits or ScriptLimits(),
            exchanged=self._exchanged(),
            live=live,
            author=author,
            anew=anew,
        )

    def notebooks_of(self, backend: ScriptBackend) -> Sandbox | ScriptNotebooks:
        """Return the keeper of a backend's notebooks."""
        return self.sandbox if backend == "sandbox" else self.notebooks

    def execute(
        self, run: ScriptRun, *, fresh: bool = False, names: dict[str, Any] | None = None
    ) -> ScriptResult:
        """Run a prepared script in the current thread, and return its result.

        Args:
            run: the script.
            fresh: begin without the variables of the notebook.
            names: the variables that the script sees in the kernel: a copy, so that other threads do not change it.

        Raises:
            ScriptFailedError: the notebook cannot be used; nothing ran.
        """
        run.calls.executor = self._executor
        notes = call_context().notes
        run.meter.start(None if notes is None or notes.meter is None else notes.meter.seconds_left)
        with self.shown(run):
            if run.backend == "sandbox":
                self._run_in_sandbox(run, fresh=fresh)
            else:
                self._run_in_kernel(run, fresh=fresh, names=names)
        return self._recorded(run)

    def go_on(self, decided: PendingScriptCall) -> ScriptResult:
        """Continue a paused script, now that its call has been decided about."""
        run, program = taken_up(decided.script, self._exchanged())
        run.calls.executor = self._executor
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

    @property
    def savings(self) -> Savings:
        """What all runs saved, as `tools.savings()` tells."""
        return self._executor.savings

    def _recorded(self, run: ScriptRun) -> ScriptResult:
        result = run.result()
        if run.calls.exchanged.calls:
            result = replace(result, savings=self._saved(run, result))
        self.runs += 1
        self.results.append(result)
        self._executor.count_savings(result.savings)
        self._record(_event(result))
        notes = call_context().notes
        if notes is not None:
            notes.script = result.to_note()
        return result

    def _exchanged(self) -> Exchanged:
        return Exchanged(self._count_tokens, self._executor.result_bytes)

    def _saved(self, run: ScriptRun, result: ScriptResult) -> Savings:
        """Compare what the script took in a model's requests with what its calls would have taken."""
        profile = run.calls.shown or get_profile("code")  # a person's script counts as one of a model
        made, told = run.calls.exchanged, canonical_json(result.to_dict())
        return Savings(
            scripts=1,
            calls=made.calls,
            schema_tokens=self._overhead(profile).schemas * (made.calls + 1),
            exchanged_tokens=made.sent,
            shown_tokens=2 * self._shown(profile),
            script_tokens=self._count_tokens(result.code) + self._count_tokens(told) + TOKENS_PER_CALL,
        )

    def count_search(self, profile: ToolProfile, exchanged: str) -> None:
        """Count a request by which a model looked for tools, and what it was told."""
        tokens = self._count_tokens(exchanged) + TOKENS_PER_CALL
        self._executor.count_savings(
            Savings(searches=1, shown_tokens=self._shown(profile), script_tokens=tokens)
        )

    def _overhead(self, profile: ToolProfile) -> _Overhead:
        """Return the tokens of the schemas that a request sends; counted anew only when the tools change."""
        tools = self._executor.tools()
        known = self._overheads.get(profile.name)
        if known is None or known.profile != profile or not known.is_of(tools):
            count = self._count_tokens
            known = self._overheads[profile.name] = _Overhead(
                profile,
                tuple(tools.values()),
                schema_tokens(tools, profile.in_code, count, without=CODE_MODE),
                schema_tokens(tools, profile, count),
            )
        return known

    def _shown(self, profile: ToolProfile) -> int:
        """Return the tokens of schemas and instructions that each request sends under a profile."""
        if profile.name not in self._told and profile.callable_from_code is not None:
            self.get_system_instructions(profile=profile)
        return self._overhead(profile).shown + self._told.get(profile.name, 0)

    def _run_in_kernel(self, run: ScriptRun, *, fresh: bool, names: dict[str, Any] | None) -> None:
        namespace = self.notebooks.namespace(run.notebook_id, fresh=fresh)
        before = dict(namespace if names is None else names)
        run.calls.log = log = self._log(run, run.notebook_id)
        try:
            run_in_kernel(run, namespace if names is None else names, self._executor)
        finally:
            made = namespace
            if names is not None:
                made = {} if was_left() else keep_made(before, names, namespace)
            self.notebooks.note(run.notebook_id, run.script.code, before, made)
            log.end(completed=run.status is ScriptStatus.COMPLETED)
            run.notes = (*log.notes(), *run.notes)
        self.notebooks.restore(namespace)

    def _run_in_sandbox(self, run: ScriptRun, *, fresh: bool) -> None:
        # the two backends have notebooks of their own, which may be called the same
        run.calls.log = log = self._log(run, f"sandbox:{run.notebook_id}")
        try:
            self.sandbox.run(run, fresh=fresh)
        finally:
            # one that failed has told its model so, one that waits is saved as a whole: only a death leaves a log
            log.end(completed=True)
            run.notes = log.notes()

    def _log(self, run: ScriptRun, notebook: str) -> CallLog:
        return CallLog(self._stored_log(run.script.script_hash, notebook), anew=run.anew)

    def run(
        self,
        code: str,
        *,
        backend: ScriptBackend = "kernel",
        notebook_id: str | None = None,
        fresh: bool = False,
        limits: ScriptLimits | None = None,
        anew: bool = False,
    ) -> ScriptResult:
        """Run Python code that calls tools, in the current thread.

        In the kernel it runs in this process, and nothing contains it: that is for your own code, or for code that you
        read. The sandbox is a process of its own, without files, network or packages, whose only way out are the tools:
        that is for what a model wrote and nobody approved.

        Args:
            code: plain Python; `await` may stand at the top level.
            backend: `kernel` or `sandbox`.
            notebook_id: whose variables it sees, such as `"main"`. In a notebook the user's own, if left out.
            fresh: forget that notebook's variables first.
            limits: what it may take.
            anew: make all calls. If left out, those that the same code has made in the kernel, in a run that did not
                complete, are answered as they were then.

        Returns:
            What it printed, showed, called and returned; an error of the script is in it, too.

        Raises:
            ScriptSyntaxError: it is not Python; nothing ran.
            ScriptFailedError: it cannot be run like this; nothing ran.
        """
        run = self.prepare(code, backend=backend, notebook_id=notebook_id, limits=limits, anew=anew)
        return self.execute(run, fresh=fresh)

    def get_system_instructions(
        self, *, profile: str | ToolProfile = "code", max_tokens: int = 1_500, query: str = ""
    ) -> str:
        """Return what a model is told about scripts: how to write them, and the signatures of its tools.

        Where there is no room for all tools, those are listed that were used most and that have most to do with what
        was asked, each with its description; the others are found with `tools_search`. Use changes with every call: a
        conversation keeps the text that it began with.

        Args:
            profile: which tools it has.
            max_tokens: of the text.
            query: what the conversation is about, such as the first question.

        Raises:
            ContentError: there is no such profile, or the bound is too narrow for any of it.
        """
        bound = profile_of(profile)
        text = instructions(self._executor, bound, self._count_tokens, max_tokens, query)
        self._told[bound.name] = self._count_tokens(text)
        return text


def _not_shown(_run: ScriptRun) -> AbstractContextManager[None]:
    return nullcontext()


class _Overhead(NamedTuple):
    """The tokens of schemas in one request: of all tools, and of those that a profile shows."""

    profile: ToolProfile
    tools: tuple[ToolDefinition, ...]
    schemas: int
    shown: int

    def is_of(self, tools: Mapping[str, ToolDefinition]) -> bool:
        """Return True if these are the tools that were counted."""
        return len(tools) == len(self.tools) and all(map(is_, tools.values(), self.tools))


def _event(result: ScriptResult) -> dict[str, Any]:
    """Return the payload of a run's event."""
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
