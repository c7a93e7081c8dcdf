"""`%tract` and the magics of cells: `%%tract_chat`, `%%tract_operation`, `%%tract_run`, `%%tract_profile`, and more.

Each imports what it runs when it runs: `%load_ext` must stay quick.
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

    from tract_jupyter.notebook.operation_cell import Checker
    from tract_jupyter.notebook.session import NotebookSession

P = ParamSpec("P")
R = TypeVar("R")
OptionsT = TypeVar("OptionsT", bound=MagicOptions)


def _as_typed(function: Callable[P, R]) -> Callable[P, R]:
    """Take the line as it was typed, and turn a user's mistake into one line that says what to do.

    Without `no_var_expand` IPython would evaluate every `{expression}` and `$name` of the line before we see it.
    """

    @no_var_expand
    @functools.wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ToolExecutionError:
            raise  # its cause is the interesting part
        except TractError as error:
            raise _told_once(error) from None

    return told


def _takes(options: type[MagicOptions]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add the options of a magic to its help."""

    def add_help(magic: Callable[P, R]) -> Callable[P, R]:
        parser = MagicArgumentParser(options.magic, description=magic.__doc__)
        options.add_to(parser)
        magic.__doc__ = parser.format_help()
        magic.parser = parser  # type: ignore[attr-defined] # as IPython's `magic_arguments` does
        magic.options = options  # type: ignore[attr-defined]
        return magic

    return add_help


class AwaitedWork(Generic[R]):
    """What a magic that waits is to do, once it is awaited; if it is dropped before that, it says so.

    Args:
        magic: as one types it, such as `%tract_orchestrate`.
        work: what it does.
    """

    def __init__(self, magic: str, work: Coroutine[Any, Any, R]) -> None:
        self._magic = magic
        self._work = work
        self._is_awaited = False

    def __await__(self) -> Generator[Any, None, R]:
        """Do it."""
        self._is_awaited = True
        return _told(self._work).__await__()

    def __repr__(self) -> str:
        done = "is awaited" if self._is_awaited else "has not run"
        return f"<{self._magic} {done}; it runs by itself where it stands in a cell, in a line that is not indented>"

    def __del__(self) -> None:
        if self._is_awaited:
            return
        self._work.close()
        print(  # noqa: T201 # nothing can be raised here
            f"{self._magic} did not run: it waits, and in a block, a function or an expression nothing waits for it. "
            f"Write it in a line of its own that is not indented",
            file=sys.stderr,
        )


async def _told(work: Awaitable[R]) -> R:
    """Await work, and turn a user's mistake into one line, as for any magic."""
    try:
        return await work
    except ScriptRaisedError:
        raise  # it shows the script's own traceback
    except TractError as error:
        raise _told_once(error) from None


def _told_once(error: TractError) -> Exception:
    """Return the exception that a magic raises. An error that a display shows already keeps its own line."""
    if isinstance(error, RunFailedError):
        in_one_line(error, f"Run {error.run.run_id[:8]} {error.run.status}: see above.")
    return error if "_render_traceback_" in vars(error) else UsageError(str(error))


@magics_class
class TractMagics(Magics):
    """The magics of the extension."""

    def __init__(self, notebook: NotebookSession) -> None:
        super().__init__(notebook.shell)
        self._notebook = notebook
        self._checker: Checker | None = None

    def _parse(self, options: type[OptionsT], line: str, cell: str | None = "") -> OptionsT:
        config, shell = self._notebook.config, self._notebook.shell
        taken = {config.tract_name, config.tools_name, *shell.user_ns_hidden}
        return options.parse(line, cell, taken)

    @line_magic
    @_as_typed
    def tract(self, line: str) -> Any:
        """Show and change the context, its operations and tools, and decide what waits for a decision.

        %tract            where the context stands
        %tract log [N]    the newest commits as a graph; --events: what else has happened
        %tract compile    the messages that a model would be sent; --at COMMIT for another time
        %tract diff A B   how two contexts differ
        %tract branch, switch, merge, checkout, tag, pin, skip, undo, redo
        %tract chat       the turns of the conversation; %tract chat show draws one again
        %tract agents     the agents, live; %tract agents NAME tells more of one
        %tract orchestrator  the runs of the model that looks after the context; show draws one again
        %tract runs       the newest runs: a model's call with the operations around it
        %tract run ID     one of them as a graph; --prompt shows its prompt, --resume resumes it
        %tract prompt T   what would be sent if you said T; nothing is asked
        %tract profiles   the operations that runs use; %tract profile NAME --activate
        %tract ops        operations
        %tract tools      tools, with signatures
        %tract mcp        servers of more tools: %tract mcp add NAME -- COMMAND ...
        %tract inbox      what waits for a decision, whichever kernel asked
        %tract decide     decide by typing, where there is no panel
        %tract review N   review a stored operation that is not active
        %tract grants     standing approvals: what you are not asked about again
        %tract rules [N]  what the analysis looks for; the manual page of a rule
        %tract help       all commands, with their arguments
        """
        from tract_jupyter.notebook.commands import run_command

        view = run_command(self._notebook, line)
        if isinstance(view, Coroutine):
            return AwaitedWork(f"%tract {line.strip()}", view)
        if view is not None:
            display(view)
        return None

    @_takes(OperationOptions)
    @cell_magic
    @_as_typed
    def tract_operation(self, line: str, cell: str) -> Any:
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

        With --json or --yaml the body is the dict form, as a model emits it: name, description,
        fields {name: {type, description, default}}, actions {name: {description, params, required, defaults, code,
        isolation}}. With isolation: sandbox, or --sandbox for all actions, code runs in a process of its own, and
        reaches only pending.fields, pending.approve() and pending.reject(reason).
        """
        from tract_jupyter.notebook.operation_cell import define

        # a line in front, so that every line number is that of the whole cell
        return define(self._notebook, self._parse(OperationOptions, line), "\n" + cell)

    @line_magic
    @needs_local_scope
    @_as_typed
    def tract_fire(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Fire an operation and return its pending.

        %tract_fire citation_check urls=["https://example.com"] verified=False
        %tract_fire citation_check urls=$my_urls            the value of a variable
        %tract_fire citation_check --fields {"urls": []}    all fields as one dict
        %tract_fire citation_check urls=[] --review         decide it in a panel, whatever handlers there are

        Values are Python literals, JSON, $variables or bare words. An operation with one action is offered in a panel,
        too, if no handler decides; "Approve without running" there runs no action. You can answer a panel later, or
        `await` the pending to wait for the decision: p = %tract_fire citation_check urls=[] --review, then await p
        """
        from tract_jupyter.notebook.fire_line import parse_fire

        given = parse_fire(line, {**self._notebook.shell.user_ns, **(local_ns or {})})
        tract = self._notebook.tract
        pending = tract.operations.fire(
            given.operation, given.fields, review=given.review, offer=True, triggered_by="%tract_fire"
        )
        if given.review:
            tract.reviewer.show(pending)
        return pending

    @_takes(ScriptOptions)
    @cell_magic
    @_as_typed
    def tract_script(self, line: str, cell: str) -> Any:
        """Run the cell as a script that calls tools.

        A call that can change something stops at its line until you decide. If you reject it, the script gets
        `ToolDenied`, which it can catch. What the tools return stays in the script::

            %%tract_script
            found = [tools.get_commit(commit_hash=c["commit_hash"]) for c in tools.log(limit=20)]
            sum(len(str(commit["content"])) for commit in found)

        It runs in this kernel, where nothing contains it, and uses your variables unless --notebook is given. If it
        fails and you run it again, calls that it has made are not repeated, unless --anew is given. With --sandbox it
        runs in a process of its own: a subset of Python, with tools as its only way out.
        """
        from tract_jupyter.notebook.script_cell import run_cell

        options = self._parse(ScriptOptions, line)
        return AwaitedWork("%%tract_script", run_cell(self._notebook, cell, options))

    @_takes(RunCellOptions)
    @cell_magic
    @_as_typed
    def tract_run(self, line: str, cell: str) -> Any:
        """Send the cell to the model, and show the run that answers it while it goes on.

        A run is one call of the model with the operations of a profile around it. The view shows which of them run,
        which run side by side, why one does not, the prompt that they make, and the reply::

            %%tract_run --profile research
            Which of the three sources is newest?

        If the cell is empty, the context is answered as it stands. %tract run shows the run again. The stop button
        aborts it.
        """
        from tract_jupyter.notebook.runs.cell import run_cell

        options = self._parse(RunCellOptions, line)
        return AwaitedWork("%%tract_run", run_cell(self._notebook, cell, options))

    @_takes(ProfileOptions)
    @cell_magic
    @_as_typed
    def tract_profile(self, line: str, cell: str) -> None:
        """Write a profile, the operations around a model's call, as YAML.

        It is checked, saved, and shown. Each operation has a name and fields: kind (template, llm, guard, tool,
        compute, transform, rag, dynamic), text, into (system, user, tail, message, reply), when, after, only_if,
        required, and the parameters of its kind. They run in the order in which they stand, unless `order` says
        another::

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

        Tab completes fields, kinds, functions and tools. Nothing is executed, and no model is asked.
        """
        from tract_jupyter.notebook.profile_cell import save_profile

        options = self._parse(ProfileOptions, line)
        display(
            save_profile(self._notebook, options.name, cell, activate=options.activate, check=options.check)
        )

    @_takes(AgentOptions)
    @cell_magic
    @_as_typed
    def tract_agent(self, line: str, cell: str) -> None:
        """Define an agent: the cell is what its model is told first.

        An agent has a context of its own, which begins empty, and calls nothing but the tools that it is given::

            %%tract_agent counter --tools read_table --budget steps=10 --description "Counts birds."
            You count birds in tables of sightings. Never guess a number.

        tools.agents.counter("...") calls it, and so may a model that calls agents: %%tract_chat --profile agents. If
        there is an agent of that name, this is another version of it, and what has changed is shown; what the line
        does not name stays. A cell that begins with --- is a whole .agent file: name, description, model, tools,
        toolsets and budget as YAML, then --- and the instructions. %tract agents shows all of them.
        """
        from tract_jupyter.notebook.agents.cell import define

        display(define(self._notebook, self._parse(AgentOptions, line), cell))

    @_takes(ChatOptions)
    @cell_magic
    @_as_typed
    def tract_chat(self, line: str, cell: str) -> Any:
        """Say the cell to the model, and show what it answers and does.

        The model acts until it has an answer. It writes scripts that call tools; those that can change something wait
        for you in the cell::

            %%tract_chat --vars df
            Which column has gaps, and where do they begin?

        What is sent along is shown with its size before the answer begins. The stop button ends the turn, and what had
        come is kept. %tract chat show draws a turn again, %tract chat resume goes on with the last one.
        """
        from tract_jupyter.notebook.chat.cell import run_cell

        options = self._parse(ChatOptions, line)
        return AwaitedWork("%%tract_chat", run_cell(self._notebook, cell, options))

    @_takes(ProposeOptions)
    @line_cell_magic
    @_as_typed
    def tract_propose(self, line: str, cell: str | None = None) -> Any:
        """Have a model write an operation, which you read and activate, or send back.

        %tract_propose "check that every citation survives"
        %%tract_propose                a longer text below this line
        %tract_propose --template      a cell to write one yourself, with the text as its description

        Its code is parsed, checked and analysed, and rehearsed in the sandbox on drawn values, before you are asked in
        a panel. Nothing of it runs in this kernel before you activate it. What is wrong with it, and the reason of a
        rejection, goes back to the model. Write options in front of the text.
        """
        from tract_jupyter.notebook.propose_cell import check_text, propose

        options = self._parse(ProposeOptions, line, cell)
        check_text(options)
        return AwaitedWork("%tract_propose", propose(self._notebook, options))

    @_takes(OrchestrateOptions)
    @line_cell_magic
    @_as_typed
    def tract_orchestrate(self, line: str, cell: str | None = None) -> Any:
        """Have a model look after the context.

        %tract_orchestrate                          judge it: compress, pin, skip, branch, or nothing
        %tract_orchestrate it is near its budget    ... for this reason
        %%tract_orchestrate                         a longer reason or task below this line
        %tract_orchestrate --resume                 go on with the last run where it was left

        What it would change, you are asked about in the cell, with its reasons and what else it thought of; %tract
        autonomy says how much happens without you, and counts at once. The stop button ends the run. Write options in
        front of the reason. %tract orchestrator lists the runs, and draws one again.
        """
        from tract_jupyter.notebook.orchestration.cell import resolve_run, run_cell

        options = resolve_run(self._parse(OrchestrateOptions, line, cell), is_line=cell is None)
        return AwaitedWork("%tract_orchestrate", run_cell(self._notebook, options))

    @_takes(CheckOptions)
    @line_cell_magic
    @_as_typed
    def tract_check(self, line: str, cell: str | None = None) -> None:
        """Show what the analysis finds in code, without running it.

        %%tract_check                 the cell below this line
        %%tract_check --strict        and say whether the mode strict would block it
        %%tract_check --mode MODE     ... or disabled, warn, block_critical
        %tract_check os.remove(name)  one line

        Names from cells that ran before are known. Findings are advice, not containment.
        """
        from tract_jupyter.notebook.operation_cell import Checker

        options = self._parse(CheckOptions, line, cell)
        if not options.code.strip():
            raise UsageError("%tract_check needs code: in its line, or below %%tract_check")
        self._checker = self._checker or Checker(self._notebook)
        display(self._checker.check(options.code, options.blocking_mode))
