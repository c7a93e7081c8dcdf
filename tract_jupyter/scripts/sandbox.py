"""The sandbox backend: it runs a script in a separate Python interpreter that reaches the outside only through tools.

`pydantic-monty` runs the script in a worker process without files, network or environment. The only clock is the time
of day. Any other request suspends the script and arrives here as a snapshot. `ScriptCalls` makes the tool calls, and
all other requests are refused. The interpreter supports a subset of Python.

`check_script` runs first. The interpreter's own type checker is not used. It rejects optional values, which may be
valid at run time, and it takes exponential time for some short scripts.
"""

from __future__ import annotations

import ast
import base64
import re
import uuid
from contextlib import contextmanager
from dataclasses import asdict
from operator import is_not
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, ParameterError
from tract_jupyter.models import PendingStatus, plain
from tract_jupyter.prompts import NO_JSON
from tract_jupyter.review import CallSite, asked_at
from tract_jupyter.sandbox import LACKS, ErrorHints, SandboxLimits, explain_error, names_bound_by
from tract_jupyter.scripts.check import TOOLS, check_script, nearest_tool
from tract_jupyter.scripts.kernel import NAMES, check_new, check_room, checked_id, existing
from tract_jupyter.scripts.limits import ScriptLimits
from tract_jupyter.scripts.result import ScriptError, ScriptStatus
from tract_jupyter.scripts.run import ScriptRun
from tract_jupyter.scripts.script import MAIN, Script
from tract_jupyter.scripts.stopper import ScriptPaused, ScriptStopped
from tract_jupyter.toolkit import (
    ToolProfile,
    ToolResult,
    all_functions,
    calling,
    functions,
    namespaces,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pydantic_monty import ExternalModule, FunctionSnapshot

    from tract_jupyter.review import CodeRange
    from tract_jupyter.sandbox import SandboxPool, SandboxSession
    from tract_jupyter.scripts.pendings import PendingScriptCall
    from tract_jupyter.toolkit import Exchanged, ToolDefinition, ToolExecutor


_FILENAME = re.compile(r"<python-input-\d+>")
_HINTS = ErrorHints(
    lacks=f"{LACKS}. Rewrite the code, or ask the user to approve it for the kernel",
    modules="It has the module tools and a part of the standard library: json, re, math, datetime, collections, ...",
    closed="The sandbox has no files, no network and no environment. It reaches the outside with tools.NAME(...)",
)


_NO_MEMBER = re.compile(
    r"module 'tools\.?(\w*)' has no attribute '(\w+)'|cannot import name '(\w+)' from 'tools\.?(\w*)'"
)


def script_error(error: Any, filename: str, functions: Iterable[str]) -> ScriptError:
    """Convert an error of `pydantic_monty`. `functions` are the paths of all tools, such as `files.read`."""
    name, message, traceback = explain_error(error, _FILENAME.sub(filename, error.display()), _HINTS)
    missing = _NO_MEMBER.match(message)
    if missing is not None:
        hint = nearest_tool(missing[1] or missing[4] or "", missing[2] or missing[3], functions)
        message, traceback = f"{message}.{hint}" if hint else message, traceback + hint
    return ScriptError(name, message, traceback)


def bound_names(code: str) -> set[str]:
    """Return the names that a script binds at its top level."""
    names: set[str] = set()
    stack: list[ast.AST] = list(ast.parse(code).body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            names.update(*(each.names for each in ast.walk(node) if isinstance(each, ast.Global)))
        else:
            names.update(names_bound_by(node))
            stack.extend(ast.iter_child_nodes(node))
    return names - {TOOLS, *NAMES, "*"}


MOST_BYTES = 5_000_000
"""The maximum size of a stored program. A larger program waits only in its process."""


def save_state(run: ScriptRun, snapshot: bytes, *, call: CodeRange, names: Collection[str]) -> dict[str, Any]:
    """Return the state of a run: the program, its output, and its use of the limits."""
    return {
        "code": run.script.code,
        "first_line": run.script.first_line,
        "call": list(call),
        "notebook_id": run.notebook_id,
        "names": sorted(names),
        "author": run.author,
        "profile": None if run.calls.profile is None else run.calls.profile.to_dict(),
        "snapshot": base64.b64encode(snapshot).decode(),
        "outputs": [{"kind": output.kind, "text": output.text} for output in run.capture.outputs()],
        "calls": run.meter.calls - 1,  # the current call is made later
        "result_bytes": run.meter.result_bytes,
        "exchanged": [run.calls.exchanged.calls, run.calls.exchanged.tokens, run.calls.exchanged.sent],
        "seconds": run.meter.clock.seconds,
        "limits": asdict(run.meter.limits),
    }


def restore_run(state: dict[str, Any], exchanged: Exchanged) -> tuple[ScriptRun, bytes]:
    """Restore a run from its saved state, and return it with its program. `exchanged` continues its counts."""
    run = ScriptRun(
        Script(state["code"], state["first_line"]),
        backend="sandbox",
        notebook_id=state["notebook_id"],
        limits=ScriptLimits(**state["limits"]),
        exchanged=exchanged,
        author=state["author"],
    )
    profile = state["profile"]  # as it was when the script began
    run.calls.profile = None if profile is None else ToolProfile.from_dict(profile)
    for output in state["outputs"]:
        run.capture.write(output["kind"], output["text"])
    run.meter.go_on(calls=state["calls"], result_bytes=state["result_bytes"], seconds=state["seconds"])
    run.calls.count = state["calls"]  # the current call is counted again
    exchanged.go_on(*state["exchanged"])
    return run, base64.b64decode(state["snapshot"])


_MODULE = uuid.uuid5(uuid.NAMESPACE_URL, "tract_jupyter.tools")
_ANSWERED = frozenset({"import", "import_stubs", "system.sleep"})
"""Requests of the interpreter without outside access: for the module `tools`, and for waiting."""

_PRELUDE = """\
import tools
ToolDenied = PermissionError
ToolExecutionError = (RuntimeError, PermissionError)
"""
_ASK_TYPE = "try:\n    __types['{0}'] = type({0}).__name__\nexcept NameError:\n    pass\n"
_SUSPENSIONS = 1_000  # for imports, sleeps and names, in addition to calls


class _Variables(NamedTuple):
    """A notebook's variables: the interpreter's serialized state, and the names."""

    state: bytes
    names: frozenset[str]


_EMPTY = _Variables(b"", frozenset())


class _Tools(NamedTuple):
    """The module `tools` of the sandbox, and the tools in it."""

    tools: tuple[ToolDefinition, ...]
    names: dict[str, str]
    """The tools' own names, by the path after `tools.`."""
    module: ExternalModule


class Sandbox:
    """The sandbox backend: it runs scripts in worker processes, and keeps their variables by notebook."""

    def __init__(self, executor: ToolExecutor, pool: Callable[[], SandboxPool]) -> None:
        self._executor = executor
        self._pool = pool
        self._made: _Tools | None = None
        self._variables: dict[str, _Variables] = {}

    def run(self, run: ScriptRun, *, fresh: bool = False) -> None:
        """Run a script, and store the outcome in `run`.

        Raises:
            NoSandboxError: The sandbox is not available.
        """
        self._pool().opened()  # also for an invalid script, which gets the same error without a sandbox
        if fresh:
            self._variables.pop(run.notebook_id, None)
        check_room(run.notebook_id, self._variables)
        run.error = check_script(run.script, self._executor.tools(), self._names(run.notebook_id))
        if run.error is not None:
            run.status = ScriptStatus.FAILED
        else:
            self._run(run)
        run.calls.end()

    def _run(self, run: ScriptRun) -> None:
        with self._outcome_of(run), calling(run.calls, self._executor), self._session(run) as session:
            run.script.register()
            first = session.call(
                session.monty.feed_start, run.script.padded, print_callback=run.capture.write
            )
            run.value = self._to_the_end(run, session, first)
            self._keep(run, session, self._names(run.notebook_id))

    @contextmanager
    def _outcome_of(self, run: ScriptRun) -> Iterator[None]:
        import pydantic_monty as monty

        try:
            yield
            run.status = ScriptStatus.COMPLETED
        except ScriptStopped:
            run.status = _stopped(run)
        except KeyboardInterrupt as error:
            run.status = ScriptStatus.INTERRUPTED
            run.error = ScriptError(type(error).__name__, str(error), "")
        except ScriptPaused as paused:
            run.status, run.pending_id = ScriptStatus.PAUSED, paused.pending.pending_id
        except monty.MontyCrashedError as error:
            run.status = (
                _stopped(run) if run.stopper.signal.reason or error.timed_out else ScriptStatus.FAILED
            )
            if run.status is ScriptStatus.FAILED:
                run.error = ScriptError("SandboxError", "the sandbox's process ended", str(error))
        except monty.MontyError as error:
            run.error = script_error(error, run.script.filename, self._tools().names)
            is_late = run.error.name == "TimeoutError" and "time limit exceeded" in run.error.message
            run.status = ScriptStatus.TIMED_OUT if is_late else ScriptStatus.FAILED

    def create(self, notebook_id: str) -> None:
        """Create a notebook."""
        check_new(checked_id(notebook_id), self._variables)
        check_room(notebook_id, self._variables)
        self._variables[notebook_id] = _EMPTY

    def sizes(self) -> dict[str, int]:
        """Return the number of variables of each notebook, by id."""
        return {notebook_id: len(variables.names) for notebook_id, variables in self._variables.items()}

    def variables(self, notebook_id: str) -> dict[str, str]:
        """Return the variables of a notebook with their types."""
        variables = self._existing(notebook_id)
        if not variables.names:
            return {}
        with self._pool().checkout(external_modules={"tools": self._tools().module}) as session:
            session.monty.load_session(variables.state)
            code = "".join(map(_ASK_TYPE.format, sorted(variables.names)))
            types: dict[str, str] = session.call(session.monty.feed_run, f"__types = {{}}\n{code}__types")
        return types

    def reset(self, notebook_id: str) -> int:
        """Delete a notebook's variables, and return their number."""
        count = len(self._existing(notebook_id).names)
        self._variables[notebook_id] = _EMPTY
        return count

    def _existing(self, notebook_id: str) -> _Variables:
        if notebook_id == MAIN:
            return self._variables.setdefault(MAIN, _EMPTY)
        return existing(notebook_id, self._variables)

    @contextmanager
    def _session(self, run: ScriptRun) -> Iterator[SandboxSession]:
        """Yield a session with the notebook's variables. Stopping the script kills the session's process."""
        with self._checkout(run) as session:
            variables = self._variables.get(run.notebook_id)
            if variables is None or variables is _EMPTY:
                session.call(session.monty.feed_run, _PRELUDE)
            else:
                session.call(session.monty.load_session, variables.state)
            yield session

    @contextmanager
    def _checkout(self, run: ScriptRun) -> Iterator[SandboxSession]:
        modules = {"tools": self._tools().module}
        with (
            self._pool().checkout(limits=_limits(run), external_modules=modules) as session,
            run.stopper.watched(lambda: run.meter.is_over_time),
            run.stopper.killable(session.kill),  # between two calls, nothing else can stop the worker
        ):
            yield session

    def _tools(self) -> _Tools:
        """Return the module `tools`. Create it again only if the tools change."""
        tools = tuple(self._executor.tools().values())
        module = self._made
        if module is None or len(module.tools) != len(tools) or any(map(is_not, module.tools, tools)):
            module = self._made = _tools_module(tools)
        return module

    def _names(self, notebook_id: str) -> frozenset[str]:
        variables = self._variables.get(notebook_id)
        return frozenset() if variables is None else variables.names

    def _keep(self, run: ScriptRun, session: SandboxSession, before: Iterable[str]) -> None:
        names = bound_names(run.script.code).union(before)
        self._variables[run.notebook_id] = _Variables(session.monty.dump(), frozenset(names))

    def _to_the_end(self, run: ScriptRun, session: SandboxSession, snapshot: Any) -> Any:
        import pydantic_monty as monty

        while not isinstance(snapshot, monty.MontyComplete):
            snapshot = session.call(*self._answer(run, snapshot))
        return snapshot.output

    def _answer(self, run: ScriptRun, snapshot: Any) -> tuple[Any, ...]:
        """Return the method of the snapshot that continues the program, and its arguments."""
        name = getattr(snapshot, "function_name", None)
        if name is None:
            return (snapshot.resume,)  # an unbound name
        if snapshot.is_os_function:
            return (snapshot.resume_auto,) if name in _ANSWERED else (snapshot.resume_not_handled,)
        return (snapshot.resume, _reply(self._called(run, snapshot)))

    def _called(self, run: ScriptRun, snapshot: FunctionSnapshot) -> ToolResult:
        short = snapshot.function_name.removeprefix("tools.")
        name = short if self._made is None else self._made.names.get(short, short)
        tool = self._executor.get(name)
        arguments = snapshot.kwargs
        try:
            if tool is not None and snapshot.args:
                arguments = tool.parameters.bind(snapshot.args, arguments)
            arguments = plain(arguments)  # a tool gets no objects of the interpreter
        except ParameterError as error:
            return ToolResult(name, success=False, error="; ".join(error.problems))
        except ContentError as error:
            return ToolResult(name, success=False, error=str(error))
        call = run.script.range_of(snapshot.position)
        run.calls.pause = lambda tool, values: self._question(run, snapshot, call, tool, values)
        with asked_at(CallSite(run.script.filename, call.line)):
            return run.calls.execute(self._executor, name, arguments, line=call.line)

    def _question(
        self,
        run: ScriptRun,
        snapshot: FunctionSnapshot,
        call: CodeRange,
        tool: ToolDefinition,
        values: dict[str, Any],
    ) -> PendingScriptCall | None:
        """Return the request about a call, with the paused program; None if the program is too large to store."""
        from tract_jupyter.scripts.pendings import PendingScriptCall

        program = snapshot.dump()
        if len(program) > MOST_BYTES:
            return None
        fields = {
            "tool": tool.name,
            "arguments": values,
            "definition_hash": tool.hash_for(values),
            "script": {
                **save_state(run, program, call=call, names=self._names(run.notebook_id)),
                "tract": self._executor.tract.family.agent_id if self._executor.agent else "",
            },
        }
        executor, top = self._executor, self._executor.top.tract
        executor.remember_grants()
        question = PendingScriptCall(fields, tract=top, actor=executor.qualified(run.calls.actor))
        question.act_in(executor.tract)
        return question

    def go_on(self, run: ScriptRun, program: bytes, decided: PendingScriptCall) -> None:
        """Continue a saved program with the result of its current call."""
        with self._outcome_of(run), calling(run.calls, self._executor), self._checkout(run) as session:
            run.script.register()
            snapshot: Any = session.call(
                session.monty.load_snapshot, program, print_callback=run.capture.write
            )
            answer = self._decided(run, decided)
            run.value = self._to_the_end(run, session, session.call(snapshot.resume, _reply(answer)))
            self._keep(run, session, decided.script["names"])
        run.calls.end()

    def _decided(self, run: ScriptRun, decided: PendingScriptCall) -> ToolResult:
        line, name = decided.script["call"][0], decided.tool_name
        if decided.status is not PendingStatus.APPROVED:
            return ToolResult(name, success=False, error=refusal(decided), denied=True)
        return run.calls.execute(self._executor, name, decided.call_arguments, line=line,
                                 approval=decided.approval)  # fmt: skip


def _limits(run: ScriptRun) -> Any:
    limits = run.meter.limits
    calls = limits.calls if limits.calls is not None else 1_000_000
    return SandboxLimits(limits.seconds, limits.memory, _SUSPENSIONS + 2 * calls).options()


def _reply(result: ToolResult) -> Any:
    """Convert a result to plain data for the sandbox, or to an exception by name."""
    if not result.success:
        kind = "PermissionError" if result.denied else "RuntimeError"
        return {"exc_type": kind, "message": f"{result.tool_name}: {result.error}"}
    try:
        return {"return_value": plain(result.output)}
    except ContentError as error:  # its effect remains, so the script must not try again
        return {"exc_type": "RuntimeError", "message": NO_JSON.format(tool=result.tool_name, reason=error)}


def _stopped(run: ScriptRun) -> ScriptStatus:
    return ScriptStatus.INTERRUPTED if run.stopper.signal.reason == "interrupted" else ScriptStatus.TIMED_OUT


def _stand_in(*_: Any, **__: Any) -> None:
    """Return a stand-in for a function of `tools`, for the sandbox."""


def _tools_module(definitions: tuple[ToolDefinition, ...]) -> _Tools:
    """Create the module. Its functions never run. Each call arrives as a snapshot with the function's name."""
    from pydantic_monty import ExternalModule

    tools = {tool.name: tool for tool in definitions}
    known = all_functions(tools)
    spaces = {
        space: ExternalModule(
            dict.fromkeys(functions(tools, space), _stand_in), id=uuid.uuid5(_MODULE, space)
        )
        for space in namespaces(tools)
    }
    plain = dict.fromkeys(functions(tools), _stand_in)
    module = ExternalModule({**plain, **spaces}, id=_MODULE)
    return _Tools(definitions, {short: tool.name for short, tool in known.items()}, module)
