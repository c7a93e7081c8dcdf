"""`%tract` and the magics for cells: `%%tract_chat`, `%%tract_operation`, `%%tract_run`, `%%tract_profile` and others.

Each magic imports its implementation when it runs. This keeps `%load_ext` quick.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.display import display

from tract_jupyter.exceptions import (
    RunFailedError,
    ScriptRaisedError,
    ToolExecutionError,
    TractError,
    in_one_line,
)
from tract_jupyter.notebook.magic_line import MagicOptions
from tract_jupyter.notebook.options import (
    AgentOptions,
    ChatOptions,
    CheckOptions,
    OperationOptions,
    OrchestrateOptions,
    ProfileOptions,
    ProposeOptions,
    RunCellOptions,
    ScriptOptions,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from tract_jupyter.notebook.session import NotebookSession

P = ParamSpec("P")
R = TypeVar("R")
OptionsT = TypeVar("OptionsT", bound=MagicOptions)


def _user_errors(function: Callable[P, R]) -> Callable[P, R]:

    @no_var_expand
    @functools.wraps(function)
    def magic(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ToolExecutionError:
            raise  # the user needs the traceback of its cause
        except TractError as error:
            raise _as_usage_error(error) from None

    return magic


def _takes(
    options: type[OptionsT],
) -> Callable[[Callable[[TractMagics, OptionsT, Any], R]], Callable[..., R]]:
    """Make a magic of a method that takes parsed options and the cell. Its help lists the options."""

    def make_magic(method: Callable[[TractMagics, OptionsT, Any], R]) -> Callable[..., R]:
        @_user_errors
        def magic(self: TractMagics, line: str, cell: str | None = None) -> R:
            return method(self, options.parse(line, cell, self.taken_names), cell)

        parser = MagicArgumentParser(options.magic, description=method.__doc__)
        options.add_to(parser)
        magic.__name__, magic.__doc__ = method.__name__, parser.format_help()
        magic.parser = parser  # type: ignore[attr-defined] # as IPython's `magic_arguments` does
        magic.options = options  # type: ignore[attr-defined]
        return magic

    return make_magic


class AwaitedWork(Generic[R]):
    """The work of a magic that waits. It starts when it is awaited, and prints a message if that never happens."""

    def __init__(self, magic: str, work: Coroutine[Any, Any, R]) -> None:
        self._magic = magic
        self._work = work
        self._is_awaited = False

    def __await__(self) -> Generator[Any, None, R]:
        """Run the work."""
        self._is_awaited = True
        return _awaited(self._work).__await__()

    def __repr__(self) -> str:
        done = "is awaited" if self._is_awaited else "has not run"
        return f"<{self._magic} {done}; it runs automatically in a cell, on a line without indentation>"

    def __del__(self) -> None:
        if self._is_awaited:
            return
        self._work.close()
        print(  # noqa: T201 # `__del__` cannot raise
            f"{self._magic} did not run, because a block, a function or an expression cannot wait for it. "
            "Write it on a separate line without indentation",
            file=sys.stderr,
        )


async def _awaited(work: Awaitable[R]) -> R:
    """Await work. A user's mistake becomes one line, as in any magic."""
    try:
        return await work
    except ScriptRaisedError:
        raise  # it shows the script's own traceback
    except TractError as error:
        raise _as_usage_error(error) from None


def _as_usage_error(error: TractError) -> Exception:
    """Return the exception that a magic raises. If a display shows the error already, its one line stays."""
    if isinstance(error, RunFailedError):
        in_one_line(error, f"Run {error.run.run_id[:8]} {error.run.status}: see above.")
    return error if "_render_traceback_" in vars(error) else UsageError(str(error))


@magics_class
class TractMagics(Magics):
    """The magics of the extension."""

    def __init__(self, notebook: NotebookSession) -> None:
        super().__init__(notebook.shell)
        self._notebook = notebook

    @property
    def taken_names(self) -> set[str]:
        """The names of variables that `--out` cannot replace."""
        config, shell = self._notebook.config, self._notebook.shell
        return {config.tract_name, config.tools_name, *shell.user_ns_hidden}

    @line_magic
    @_user_errors
    def tract(self, line: str) -> Any:
        """Show and change the context, its operations and tools, and decide requests.

        %tract            the current state of the context
        %tract log [N]    the newest commits as a graph; --events adds other events
        %tract compile    the messages that a model would get; --at COMMIT for an earlier state
        %tract diff A B   the difference between two contexts
        %tract branch, switch, merge, checkout, tag, pin, skip, undo, redo
        %tract chat       the turns of the conversation; %tract chat show draws one again
        %tract agents     the agents, live; %tract agents NAME shows one
        %tract orchestrator  the runs of the orchestrator; show draws one again
        %tract runs       the newest runs: a model's call with the operations around it
        %tract run ID     one run with its operations; --prompt shows its prompt, --resume resumes it
        %tract prompt T   the prompt for the message T, without a request
        %tract profiles   the operations that runs use; %tract profile NAME --activate
        %tract ops        operations
        %tract tools      tools with their signatures
        %tract mcp        servers with more tools: %tract mcp add NAME -- COMMAND ...
        %tract inbox      the requests that need a decision, from any kernel
        %tract decide     decide a request by typing
        %tract review N   review a stored operation that is not active
        %tract grants     standing approvals
        %tract rules [N]  the rules of the analysis; the manual page of a rule
        %tract help       all commands with their arguments
        """
        from tract_jupyter.notebook.commands import run_command

        view = run_command(self._notebook, line)
        if isinstance(view, Coroutine):
            return AwaitedWork(f"%tract {line.strip()}", view)
        if view is not None:
            display(view)
        return None

    @cell_magic
    @_takes(OperationOptions)
    def tract_operation(self, options: OperationOptions, cell: str) -> Any:
        """Define an operation. The cell is parsed, never executed, and shown for review.

        The docstring is the description, annotated assignments are fields, functions are actions::

            %%tract_operation citation_check
            '''Verify source URLs.'''
            urls: Annotated[list[str], "URLs to verify"]
            verified: bool = False

            def verify(pending, strict: bool = False):
                '''Check that all URLs are in the context.'''
                text = str(pending.tract.compile().to_dicts())
                missing = [url for url in pending.fields["urls"] if url not in text]
                if missing and strict:
                    pending.reject(f"missing: {missing}")
                else:
                    pending.fields["verified"] = True
                    pending.approve()

        With --json or --yaml, the body is the dict form that models write: name, description,
        fields {name: {type, description, default}}, actions {name: {description, params, required, defaults, code,
        isolation}}. With isolation: sandbox, or --sandbox for all actions, code runs in a separate process. It
        reaches only pending.fields, pending.approve() and pending.reject(reason).
        """
        from tract_jupyter.notebook.operation_cell import define

        # an empty first line, so line numbers refer to the whole cell
        return define(self._notebook, options, "\n" + cell)

    @line_magic
    @needs_local_scope
    @_user_errors
    def tract_fire(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Fire an operation and return its pending.

        %tract_fire citation_check urls=["https://example.com"] verified=False
        %tract_fire citation_check urls=$my_urls            the value of a variable
        %tract_fire citation_check --fields {"urls": []}    all fields as one dict
        %tract_fire citation_check urls=[] --review         decide it in a panel, even if a handler exists

        Values are Python literals, JSON, $variables or bare words. If no handler decides, an operation with one
        action also gets a panel. "Approve without running" there runs no action. You can answer a panel later, or
        `await` the pending to wait for the decision: p = %tract_fire citation_check urls=[] --review, then await p
        """
        from tract_jupyter.notebook.cell_syntax import parse_fire

        fire = parse_fire(line, {**self._notebook.shell.user_ns, **(local_ns or {})})
        tract = self._notebook.tract
        pending = tract.operations.fire(
            fire.operation, fire.fields, review=fire.review, offer=True, triggered_by="%tract_fire"
        )
        if fire.review:
            tract.reviewer.show(pending)
        return pending

    @cell_magic
    @_takes(ScriptOptions)
    def tract_script(self, options: ScriptOptions, cell: str) -> Any:
        """Run the cell as a script that calls tools.

        A call that can change something stops at its line until you decide. If you reject it, the script gets
        `ToolDenied`, which it can catch. The results of the tools stay in the script::

            %%tract_script
            found = [tools.get_commit(commit_hash=c["commit_hash"]) for c in tools.log(limit=20)]
            sum(len(str(commit["content"])) for commit in found)

        The script runs in this kernel without isolation, and uses your variables unless you add --notebook. If it
        fails and you run it again, completed calls are not repeated unless you add --anew. With --sandbox it
        runs in a separate process: a subset of Python that reaches the outside only by tools.
        """
        from tract_jupyter.notebook.script_cell import run_cell

        return AwaitedWork("%%tract_script", run_cell(self._notebook, cell, options))

    @cell_magic
    @_takes(RunCellOptions)
    def tract_run(self, options: RunCellOptions, cell: str) -> Any:
        """Send the cell to the model, and show the run live.

        A run is one call of the model with the operations of a profile around it. The view shows the operations,
        their order and times, the reason for each skipped one, the prompt, and the reply::

            %%tract_run --profile research
            Which of the three sources is newest?

        An empty cell sends the context without a new message. %tract run shows the run again. The stop button
        aborts it.
        """
        from tract_jupyter.notebook.runs.cell import run_cell

        return AwaitedWork("%%tract_run", run_cell(self._notebook, cell, options))

    @cell_magic
    @_takes(ProfileOptions)
    def tract_profile(self, options: ProfileOptions, cell: str) -> None:
        """Write a profile, the operations around a model's call, as YAML.

        The profile is checked, saved and shown. Each operation has a name and fields: kind (template, llm, guard,
        tool, compute, transform, rag, dynamic), text, into (system, user, tail, message, reply), when, after, only_if,
        required, and the parameters of its kind. The operations run in the order of the cell, unless `order` changes
        it::

            %%tract_profile guide --activate
            description: short answers
            operations:
              question:
                kind: guard
                engine: liquid
                text: '{"is_question": true}'
                outputs: [is_question]
              style:
                text: " Be brief."
                into: system
                required: true

        Tab completes fields, kinds, functions and tools. No code runs, and nothing is sent to a model.
        """
        from tract_jupyter.notebook.profile_cell import save_profile

        display(
            save_profile(self._notebook, options.name, cell, activate=options.activate, check=options.check)
        )

    @cell_magic
    @_takes(AgentOptions)
    def tract_agent(self, options: AgentOptions, cell: str) -> None:
        """Define an agent. The cell has the instructions for its model.

        An agent has a separate context, which starts empty, and calls only the tools in its definition::

            %%tract_agent counter --tools read_table --budget steps=10 --description "Counts birds."
            You count birds in tables of sightings. Never guess a number.

        tools.agents.counter("...") calls it. A model that may call agents can also call it: %%tract_chat
        --profile agents. If the agent exists, the cell makes a new version and shows the changes. Options that
        the line omits stay.
        A cell that starts with --- is a complete .agent file: name, description, model, tools,
        toolsets and budget as YAML, then --- and the instructions. %tract agents shows all agents.
        """
        from tract_jupyter.notebook.agents.cell import define

        display(define(self._notebook, options, cell))

    @cell_magic
    @_takes(ChatOptions)
    def tract_chat(self, options: ChatOptions, cell: str) -> Any:
        """Send the cell to the model, and show its reply and its actions live.

        The model acts until it has an answer. It writes scripts that call tools. Scripts that can change something
        wait for you in the cell::

            %%tract_chat --vars df
            Which column has gaps, and where do they begin?

        The output starts with the attachments and their sizes. The stop button ends the turn and keeps its results.
        %tract chat show draws a turn again, %tract chat resume continues the last one.
        """
        from tract_jupyter.notebook.chat.cell import run_cell

        return AwaitedWork("%%tract_chat", run_cell(self._notebook, cell, options))

    @line_cell_magic
    @_takes(ProposeOptions)
    def tract_propose(self, options: ProposeOptions, _cell: str | None) -> Any:
        """Ask a model to write an operation for your review.

        %tract_propose "check that every citation survives"
        %%tract_propose                a longer text below this line
        %tract_propose --template      a cell to write one yourself, with the text as its description

        The code is parsed, analysed, and rehearsed on sample values. Then you
        activate it in a panel, or send it back with a reason.
        The code cannot run in this kernel before you activate it. The model gets problems and the reasons of your
        rejections, and tries again. Write options before the text.
        """
        from tract_jupyter.notebook.propose_cell import check_text, propose

        check_text(options)
        return AwaitedWork("%tract_propose", propose(self._notebook, options))

    @line_cell_magic
    @_takes(OrchestrateOptions)
    def tract_orchestrate(self, options: OrchestrateOptions, cell: str | None) -> Any:
        """Let a model look after the context.

        %tract_orchestrate                          assess it: compress, pin, skip, branch, or nothing
        %tract_orchestrate it is near its budget    the same with a reason
        %%tract_orchestrate                         a longer reason or task below this line
        %tract_orchestrate --resume                 resume the last run

        The cell asks you before each change, and shows the reasons and alternatives of the model. %tract
        autonomy sets how much happens without you, also during a run. The stop button ends the run. Write options
        before the reason. %tract orchestrator lists the runs, and draws one again.
        """
        from tract_jupyter.notebook.orchestration.cell import resolve_run, run_cell

        options = resolve_run(options, is_line=cell is None)
        return AwaitedWork("%tract_orchestrate", run_cell(self._notebook, options))

    @line_cell_magic
    @_takes(CheckOptions)
    def tract_check(self, options: CheckOptions, _cell: str | None) -> None:
        """Show the findings of the analysis in code, without running it.

        %%tract_check                 the cell below this line
        %%tract_check --strict        also say if the mode strict would block it
        %%tract_check --mode MODE     the same for disabled, warn or block_critical
        %tract_check os.remove(name)  one line

        The analysis knows the names of earlier cells. Findings are advice, not containment.
        """
        from tract_jupyter.notebook.operation_cell import check

        if not options.code.strip():
            raise UsageError("%tract_check needs code: in its line, or below %%tract_check")
        display(check(self._notebook, options.code, options.blocking_mode))
