"""`Scripts` runs scripts and keeps their results."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tract_jupyter.exceptions import RehearsalError, ScriptFailedError
from tract_jupyter.models import brief_repr, canonical_json, check_choice, safe_repr
from tract_jupyter.scripts.call_log import CallLog
from tract_jupyter.scripts.figures import keep_figures
from tract_jupyter.scripts.kernel import NAMES, ScriptNotebooks, run_in_kernel
from tract_jupyter.scripts.limits import ScriptLimits
from tract_jupyter.scripts.result import ScriptStatus
from tract_jupyter.scripts.run import ScriptRun
from tract_jupyter.scripts.sandbox import Sandbox, restore_run
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

    from tract_jupyter.rehearsal import Effects, Rehearser
    from tract_jupyter.sandbox import SandboxPool
    from tract_jupyter.scripts.call_log import StoredLog
    from tract_jupyter.scripts.pendings import PendingScript, PendingScriptCall
    from tract_jupyter.scripts.rehearsing import Rehearsed, Rehearsing
    from tract_jupyter.scripts.result import OutputKind, ScriptResult
    from tract_jupyter.toolkit import ToolDefinition, ToolExecutor, ToolProfile, ToolsModule


ScriptBackend = Literal["kernel", "sandbox", "contained"]
"""The place where a script runs."""

_KEPT = 100
_MOST_CODE = 1_000_000


class Scripts:
    """The scripts of one tract.

    `results` has the newest 100 results, oldest first. `shown` is a context manager around each run; a notebook shows
    the script's output in it. Without a `rehearser`, there are no rehearsals.
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
        rehearser: Callable[[], Rehearser] | None = None,
    ) -> None:
        self._executor = executor
        self._count_tokens = count_tokens
        self.notebooks = ScriptNotebooks(lambda: {"tools": tools(), **NAMES})
        self.sandbox = Sandbox(executor, pool)
        self._rehearser = rehearser
        self.results: deque[ScriptResult] = deque(maxlen=_KEPT)
        self._overheads: dict[str, _Overhead] = {}
        self._instruction_tokens: dict[str, int] = {}  # tokens of the latest instructions, by profile
        self.runs = 0
        self.shown: Callable[[ScriptRun], AbstractContextManager[None]] = _not_shown
        self._stored_log = stored_log
        self._record = record

    @cached_property
    def rehearsing(self) -> Rehearsing:
        """The rehearsals of scripts for the kernel.

        It is also the backend for code with packages, without approval and without anything of the user.
        """
        from tract_jupyter.scripts.rehearsing import Rehearsing

        return Rehearsing(self._executor, self._rehearser)

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
        """Check a script and prepare its run. No part of it runs yet.

        The arguments are as in `run`. `live` receives the output at once, and `first_line` is the number of the first
        line, for messages with lines.

        Raises:
            ScriptSyntaxError: The code is not Python.
            ScriptFailedError: The code is not a text, is too long, or runs from a script.
        """
        if current_caller(self._executor) is not None:
            raise ScriptFailedError("a script cannot run another script; call the tools directly")
        if not isinstance(code, str) or len(code) > _MOST_CODE:
            raise ScriptFailedError(f"a script is a text of up to {_MOST_CODE:,} characters")
        script = Script(code, first_line)
        script.compiled()
        check_choice(backend, ("kernel", "sandbox", "contained"), "backend")
        if backend != "kernel" and notebook_id == OWN:
            raise ScriptFailedError(
                f"the {backend} cannot access the user's variables; use backend='kernel', which needs "
                "the user's approval of the code"
            )
        if not (limits is None or isinstance(limits, ScriptLimits)):
            raise ScriptFailedError(
                f"invalid limits {brief_repr(limits)}; use ScriptLimits(seconds=60), or None for the defaults"
            )
        return ScriptRun(
            script,
            backend=backend,
            notebook_id=self.notebooks.resolved(
                MAIN if notebook_id is None and backend != "kernel" else notebook_id
            ),
            limits=limits or ScriptLimits(),
            exchanged=self._exchanged(),
            live=live,
            author=author,
            anew=anew,
        )

    def notebooks_of(self, backend: ScriptBackend) -> Sandbox | ScriptNotebooks:
        """Return the notebooks of a backend."""
        return self.sandbox if backend == "sandbox" else self.notebooks

    def execute(self, run: ScriptRun, *, fresh: bool = False, effects: Effects | None = None) -> ScriptResult:
        """Run a prepared script in the current thread, and return its result.

        With `fresh`, it begins without the variables of the notebook. The result names differences from `effects`, the
        effects of its rehearsal.

        Raises:
            ScriptFailedError: The notebook cannot be used. Nothing ran.
        """
        run.calls.executor = self._executor
        notes = call_context().notes
        run.meter.start(None if notes is None or notes.meter is None else notes.meter.seconds_left)
        with self.shown(run):
            if run.backend == "sandbox":
                self._run_in_sandbox(run, fresh=fresh)
            elif run.backend == "contained":
                self.rehearsing.run_contained(run)
            else:
                run.effects = effects
                self._run_in_kernel(run, fresh=fresh)
        keep_figures(run)
        return self._recorded(run)

    def rehearse(self, code: str, *, notebook_id: str | None = None) -> PendingScript:
        """Rehearse code on a contained copy of the kernel, and return its effects as a request.

        Nothing changes before `keep()` adopts the effects, or `approve()` runs the code in the kernel. `effects` has
        the effects.

        Raises:
            ScriptSyntaxError: The code is not Python.
            ScriptFailedError: The arguments are invalid.
            RehearsalError: No rehearsal is possible here.
        """
        from tract_jupyter.scripts.pendings import PendingScript

        pending = PendingScript.of(self.prepare(code, notebook_id=notebook_id), self._executor)
        if pending.effects is None:
            raise RehearsalError(
                f"The code was not rehearsed: {pending.why_not or 'rehearsals are switched off'}. Use "
                "scripts.run(code) to run it in the kernel."
            )
        return pending

    def rehearse_run(self, run: ScriptRun) -> Rehearsed:
        """Rehearse a prepared script for the kernel. Return the rehearsal, or the reason why there is none."""
        run.calls.executor = self._executor
        run.meter.start()
        rehearsed = self.rehearsing.rehearse(run, self.notebooks.namespace(run.notebook_id))
        run.meter.clock.end()  # the wait for the user does not count
        return rehearsed

    def keep(self, rehearsed: Rehearsed) -> ScriptResult:
        """Adopt the effects of a rehearsal, and return its result. The code does not run in the kernel.

        Raises:
            RehearsalError: The effects cannot be kept. Nothing changed.
        """
        from tract_jupyter.scripts.effects import only_looked, replay

        run, rehearsal = rehearsed.run, rehearsed.rehearsal
        assert rehearsal is not None  # noqa: S101 # the caller has checked it
        run.effects, run.is_kept = rehearsal.effects, True
        namespace = self.notebooks.namespace(run.notebook_id)
        if only_looked(rehearsal.effects):
            rehearsal.discard()
        else:
            run.change = rehearsal.keep()
        self.notebooks.note(run.notebook_id, run.script.code)
        with self.shown(run):
            replay(run, rehearsal.effects)
        keep_figures(run)
        self.notebooks.restore(namespace)
        return self._recorded(run)

    def go_on_and_print(self, decided: PendingScriptCall) -> ScriptResult:
        """Continue a paused script after the decision about its call, and print its output for the record."""
        run, program = restore_run(decided.script, self._exchanged())
        run.calls.executor = self._executor
        run.meter.start()
        self.sandbox.go_on(run, program, decided)
        result = self._recorded(run)
        value = [] if result.value is None else [safe_repr(result.value)]
        parts = [
            *filter(None, [result.text.rstrip()]),
            *value,
            f"Script {result.status}: {result.call_count} tool calls",
        ]
        print("\n".join(parts))  # noqa: T201 # the caller records the output
        return result

    @property
    def hidden_names(self) -> frozenset[str]:
        """The names of objects of this package in the notebooks of the kernel, which a copy must not have."""
        from tract_jupyter.scripts.rehearsing import own_names

        return frozenset().union(*map(own_names, self.notebooks.namespaces()))

    @property
    def savings(self) -> Savings:
        """The savings of all runs, as in `tools.savings()`."""
        return self._executor.savings

    def _recorded(self, run: ScriptRun) -> ScriptResult:
        result = run.result()
        if run.calls.exchanged.calls:
            result = replace(result, savings=self._saved(run, result))
        self.runs += 1
        self.results.append(result)
        self._executor.count_savings(result.savings)
        self._record(_event(result))
        _record_change(run)
        notes = call_context().notes
        if notes is not None:
            notes.script = result.to_note()
        return result

    def _exchanged(self) -> Exchanged:
        return Exchanged(self._count_tokens, self._executor.result_bytes)

    def _saved(self, run: ScriptRun, result: ScriptResult) -> Savings:
        """Compare the tokens of the script with the tokens that its separate calls would have cost."""
        profile = run.calls.shown or get_profile("code")  # a user's script counts as a model's script
        exchanged, answer = run.calls.exchanged, canonical_json(result.to_dict())
        return Savings(
            scripts=1,
            calls=exchanged.calls,
            schema_tokens=self._overhead(profile).schemas * (exchanged.calls + 1),
            exchanged_tokens=exchanged.sent,
            shown_tokens=2 * self._shown(profile),
            script_tokens=self._count_tokens(result.code) + self._count_tokens(answer) + TOKENS_PER_CALL,
        )

    def count_search(self, profile: ToolProfile, exchanged: str) -> None:
        """Count a model's search for tools, with the answer."""
        tokens = self._count_tokens(exchanged) + TOKENS_PER_CALL
        self._executor.count_savings(
            Savings(searches=1, shown_tokens=self._shown(profile), script_tokens=tokens)
        )

    def _overhead(self, profile: ToolProfile) -> _Overhead:
        """Return the tokens of the schemas in a request. Count them again only if the tools change."""
        tools = self._executor.tools()
        overhead = self._overheads.get(profile.name)
        if overhead is None or overhead.profile != profile or not overhead.is_of(tools):
            count = self._count_tokens
            overhead = self._overheads[profile.name] = _Overhead(
                profile,
                tuple(tools.values()),
                schema_tokens(tools, profile.in_code, count, without=CODE_MODE),
                schema_tokens(tools, profile, count),
            )
        return overhead

    def _shown(self, profile: ToolProfile) -> int:
        """Return the tokens of schemas and instructions in each request under a profile."""
        if profile.name not in self._instruction_tokens and profile.callable_from_code is not None:
            self.get_system_instructions(profile=profile)
        return self._overhead(profile).shown + self._instruction_tokens.get(profile.name, 0)

    def _run_in_kernel(self, run: ScriptRun, *, fresh: bool) -> None:
        namespace = self.notebooks.namespace(run.notebook_id, fresh=fresh)
        run.calls.log = log = self._log(run, run.notebook_id)
        watched = self.rehearsing.watch(run, namespace)
        try:
            run_in_kernel(run, namespace, self._executor)
        finally:
            self.notebooks.note(run.notebook_id, run.script.code)
            log.end(completed=run.status is ScriptStatus.COMPLETED)
            run.notes = (*log.notes(), *run.notes)
            self.rehearsing.end_watch(run, watched)
        self.notebooks.restore(namespace)

    def _run_in_sandbox(self, run: ScriptRun, *, fresh: bool) -> None:
        # notebooks of the two backends may have the same id
        run.calls.log = log = self._log(run, f"sandbox:{run.notebook_id}")
        try:
            self.sandbox.run(run, fresh=fresh)
        finally:
            # The model knows of a failed script, and a paused one is saved as a whole. Only a crash leaves a log.
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

        In the kernel, the code runs in this process without restrictions. Use it for your own code, or for code that
        you have read. The sandbox is a separate process without files, network or packages, and reaches the outside
        only through tools. Use it for a model's code without approval. The contained backend is such a process with
        packages. It has none of your variables, files and environment variables, and keeps no variables.

        Args:
            code: Plain Python. `await` is allowed at the top level.
            backend: `kernel`, `sandbox` or `contained`.
            notebook_id: The notebook with its variables, such as `"main"`. The default in a notebook is the user's own
                variables.
            fresh: If True, delete the variables of this notebook first.
            limits: The limits.
            anew: If True, make all calls again. If False, reuse the answers of an earlier incomplete run of the same
                code in the kernel.

        Returns:
            The output, the calls and the value of the script, or its error.

        Raises:
            ScriptSyntaxError: The code is not Python. Nothing ran.
            ScriptFailedError: The arguments are invalid. Nothing ran.
        """
        run = self.prepare(code, backend=backend, notebook_id=notebook_id, limits=limits, anew=anew)
        return self.execute(run, fresh=fresh)

    def get_system_instructions(
        self, *, profile: str | ToolProfile = "code", max_tokens: int = 1_500, query: str = ""
    ) -> str:
        """Return the model's instructions about scripts: how to write them, and the signatures of its tools.

        If not all tools fit, the text lists the most used tools and the tools closest to the query, each with its
        description. The model finds the others with `tools_search`. The number of uses changes with every call, so a
        conversation keeps its first text.

        Args:
            profile: The profile with the model's tools.
            max_tokens: The limit for the text.
            query: The topic of the conversation, such as the first question.

        Raises:
            ContentError: The profile does not exist, or the limit is too low.
        """
        from tract_jupyter.scripts.tools import instructions

        bound = profile_of(profile)
        text = instructions(self._executor, bound, self._count_tokens, max_tokens, query)
        self._instruction_tokens[bound.name] = self._count_tokens(text)
        return text


def _record_change(run: ScriptRun) -> None:
    """Record the change of a script under its turn, for the undo of the turn."""
    turn = call_context().effects
    if turn is None or run.backend != "kernel":
        return
    if run.change is not None:
        turn.changed(run.change)
    elif not run.is_kept:
        turn.left("changes of a script in the kernel")


def _not_shown(_run: ScriptRun) -> AbstractContextManager[None]:
    return nullcontext()


class _Overhead(NamedTuple):
    """The tokens of schemas in one request: of all tools, and of the tools that a profile shows."""

    profile: ToolProfile
    tools: tuple[ToolDefinition, ...]
    schemas: int
    shown: int

    def is_of(self, tools: Mapping[str, ToolDefinition]) -> bool:
        """Return True if these are the counted tools."""
        return len(tools) == len(self.tools) and all(map(is_, tools.values(), self.tools))


def _event(result: ScriptResult) -> dict[str, Any]:
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
