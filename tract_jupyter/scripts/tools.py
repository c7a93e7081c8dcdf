"""The tools by which a model runs scripts.

What a model writes runs in the sandbox, and nobody is asked about that: its only effects are the calls of tools that
it makes, and these go through the same gate as all. In the kernel it runs only after a person approved the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.models import PendingStatus
from tract_jupyter.prompts import BEGUN_BEFORE, refused
from tract_jupyter.scripts.pendings import PendingScript
from tract_jupyter.scripts.script import MAIN
from tract_jupyter.toolkit import ToolDefinition, ToolResult, Traits, call_context, note_question, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.scripts.result import ScriptResult
    from tract_jupyter.scripts.runner import ScriptBackend, Scripts
    from tract_jupyter.toolkit import ToolExecutor

NotebookId = Annotated[str, "Whose variables the script sees: up to 64 letters, digits, '_', '-' and '.'."]
Whose = Annotated[
    str,
    "Whose variables the script sees: those of a script notebook; in the kernel, 'user' for the person's own.",
]
Where = Annotated[
    Literal["sandbox", "kernel"], "The sandbox runs at once; the kernel after a person approved the code."
]
_READS = Traits(read_only=True)


def script_tools(
    executor: Callable[[], ToolExecutor], scripts: Callable[[], Scripts]
) -> list[ToolDefinition]:
    """Return the tools of one tract's scripts.

    Args:
        executor: gives the one that has these tools, when one is called: it says where a person is asked.
        scripts: gives the scripts.
    """
    tools = _ScriptTools(executor, scripts)
    made = ToolDefinition.built_in
    return [
        made(tools.notebook_execute, told_actor=True, asks_itself=True, asks_always=_is_for_the_kernel),
        made(tools.notebook_create, asks_itself=True),
        made(tools.notebook_reset, asks_itself=True),
        made(tools.notebook_variables, traits=_READS),
        made(tools.notebook_list, traits=_READS),
    ]


def _is_for_the_kernel(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["backend"] == "kernel")


class _ScriptTools:
    def __init__(self, executor: Callable[[], ToolExecutor], scripts: Callable[[], Scripts]) -> None:
        self._executor = executor
        self._scripts = scripts

    def notebook_execute(
        self,
        actor: str,
        /,
        code: Annotated[
            str, "Plain Python. It calls tools as tools.NAME(...) and prints what you need to know."
        ],
        notebook_id: Whose = MAIN,
        backend: Where = "sandbox",
    ) -> Any:
        """Run Python code: a script that defines functions, loops, counts, filters, and makes calls as tools.NAME(...).

        It returns what it prints and its last expression; variables stay. The sandbox runs it at once, without files,
        network or packages; the kernel after approval. Calls that write are asked about. Not to look for a tool:
        tools_search.
        """
        scripts = self._scripts()
        run = scripts.prepare(code, backend=backend, notebook_id=notebook_id, author=actor)
        if backend == "sandbox" or actor == "user":
            return scripts.execute(run).to_dict()

        def approved(pending: PendingScript) -> ScriptResult:
            now = pending.fields["code"]
            changed = scripts.prepare(now, backend=backend, notebook_id=notebook_id, author=actor)
            seen = None if is_asked else pending.seen
            return scripts.execute(run if now == code else changed, names=seen)

        executor = self._executor()
        reviewer = executor.reviewer
        pending = PendingScript(
            code, notebook_id=notebook_id, tract=executor.top.tract, acts_in=executor.tract, actor=actor,
            execute_fn=approved,
        )  # fmt: skip
        own, notes = pending.pending_id, call_context().notes
        doubt = "" if notes is None else notes.doubt
        is_asked = bool(doubt) or pending.subject is None
        if is_asked or not reviewer.granted(pending):
            is_asked = True
            with reviewer.claim(pending) as asked:
                pending = asked
                # a request that is still open, under its old id, was never approved: nothing of it ran
                pending.caution = "" if doubt == BEGUN_BEFORE and pending.pending_id != own else doubt
                note_question(pending)
                reviewer.decide_now(pending)
        else:
            note_question(pending)
        if pending.status is not PendingStatus.APPROVED:
            return ToolResult("notebook_execute", success=False, error=refused(refusal(pending)), denied=True)
        told: dict[str, Any] = pending.result.to_dict()
        return told if pending.result.code == code else {"changed_by_the_person": pending.result.code, **told}

    def notebook_create(self, notebook_id: NotebookId, backend: Where = "sandbox") -> dict[str, Any]:
        """Make another script notebook, by a name: a namespace that keeps its variables from script to script.

        Not for the first one: notebook_execute has it.
        """
        notebooks = self._scripts().notebooks_of(backend)
        notebooks.create(notebook_id)
        return {"notebook_id": notebook_id, "backend": backend}

    def notebook_variables(
        self, notebook_id: NotebookId = MAIN, backend: Where = "sandbox"
    ) -> dict[str, str]:
        """List which variables are defined in a script notebook after a script, with their types.

        Not for what they hold: print it in notebook_execute.
        """
        return self._scripts().notebooks_of(backend).variables(notebook_id)

    def notebook_reset(self, notebook_id: NotebookId = MAIN, backend: Where = "sandbox") -> dict[str, Any]:
        """Clear all variables of a script notebook. Not to take the context back: reset."""
        return {
            "notebook_id": notebook_id,
            "forgotten": self._scripts().notebooks_of(backend).reset(notebook_id),
        }

    def notebook_list(self) -> list[dict[str, Any]]:
        """List which script notebooks there are, and how many variables each has.

        Not for what is in one: notebook_variables.
        """
        backends: tuple[ScriptBackend, ...] = ("sandbox", "kernel")
        return [
            {"notebook_id": notebook_id, "backend": backend, "variables": count}
            for backend in backends
            for notebook_id, count in self._scripts().notebooks_of(backend).sizes().items()
        ]
