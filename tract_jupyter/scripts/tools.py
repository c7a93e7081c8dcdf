"""The tools that let a model run scripts, and its instructions about scripts, within a token limit.

A model's script runs in the sandbox without a request. Its only effects are tool calls, which go through the same gate
as all calls. In the kernel, a script runs only after the user approved the code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from tract_jupyter import prompts
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import PendingStatus, check_limit, check_text, one_line
from tract_jupyter.models.schema import stub_source
from tract_jupyter.prompts import refused
from tract_jupyter.scripts.script import MAIN
from tract_jupyter.toolkit import (
    DISCOVERY,
    ToolDefinition,
    ToolResult,
    Traits,
    call_context,
    callable_functions,
    note_question,
    ranked,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.scripts.runner import ScriptBackend, Scripts
    from tract_jupyter.toolkit import ToolExecutor, ToolProfile

NotebookId = Annotated[str, "The id of a script notebook: up to 64 letters, digits, '_', '-' and '.'."]
Whose = Annotated[
    str,
    "The script notebook with the variables; in the kernel, 'user' for the user's own variables.",
]
Where = Annotated[
    Literal["sandbox", "kernel"], "The sandbox runs code at once, the kernel after the user approved it."
]
WhereToRun = Annotated[
    Literal["sandbox", "contained", "kernel"],
    "The sandbox and the contained copy run code at once, the kernel after the user approved it.",
]
_READS = Traits(read_only=True)


def script_tools(
    executor: Callable[[], ToolExecutor], scripts: Callable[[], Scripts]
) -> list[ToolDefinition]:
    """Return the tools of one tract's scripts."""
    tools = _ScriptTools(executor, scripts)
    definition = ToolDefinition.built_in
    return [
        definition(tools.notebook_execute, told_actor=True, asks_itself=True, asks_always=_is_for_the_kernel),
        definition(tools.notebook_create, asks_itself=True),
        definition(tools.notebook_reset, asks_itself=True),
        definition(tools.notebook_variables, traits=_READS),
        definition(tools.notebook_list, traits=_READS),
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
            str, "Plain Python that calls tools as tools.NAME(...) and prints the results you need."
        ],
        notebook_id: Whose = MAIN,
        backend: WhereToRun = "sandbox",
    ) -> Any:
        """Run Python code: a script that defines functions, loops, counts, filters, and makes calls as tools.NAME(...).

        It returns printed text and the last value; variables stay. The sandbox runs it at once, without files, network
        or packages; a contained copy with packages, once; the kernel and writing after approval. Not to look for a
        tool: tools_search.
        """
        scripts = self._scripts()
        run = scripts.prepare(code, backend=backend, notebook_id=notebook_id, author=actor)
        if backend != "kernel" or actor == "user":
            done = scripts.execute(run)
            return ToolResult("notebook_execute", success=True, output=done.to_dict(), images=done.figures)

        from tract_jupyter.scripts.pendings import PendingScript

        executor = self._executor()
        reviewer = executor.reviewer
        pending = PendingScript.of(run, executor)
        notes = call_context().notes
        with reviewer.claim(pending) as claimed:
            if claimed is not pending:
                pending.discard()
            pending = claimed
            pending.caution = "" if notes is None else notes.doubt
            note_question(pending)
            if pending.caution or not reviewer.granted(pending) or pending.status.is_open:
                reviewer.decide_now(pending)
        if pending.status is not PendingStatus.APPROVED:
            pending.discard()
            return ToolResult("notebook_execute", success=False, error=refused(refusal(pending)), denied=True)
        result = pending.result
        answer: dict[str, Any] = result.to_dict()
        if result.code != code:
            answer = {"changed_by_the_person": result.code, **answer}
        return ToolResult("notebook_execute", success=True, output=answer, images=result.figures)

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

        Not for their values: print them in notebook_execute.
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

        Not for the variables of one: notebook_variables.
        """
        backends: tuple[ScriptBackend, ...] = ("sandbox", "kernel")
        return [
            {"notebook_id": notebook_id, "backend": backend, "variables": count}
            for backend in backends
            for notebook_id, count in self._scripts().notebooks_of(backend).sizes().items()
        ]


# --- the instructions of the model

_MOST_NAMES: Final = 50
_MOST_SPACES: Final = 10
_LONGEST_DESCRIPTION: Final = 300
_MISSES: Final = 5
"""The number of tools that may be too large before the search for more tools ends."""


def instructions(
    executor: ToolExecutor, profile: ToolProfile, count: Callable[[str], int], max_tokens: int, query: str
) -> str:
    """Return instructions for writing scripts. See `Scripts.get_system_instructions`."""
    max_tokens = check_limit(max_tokens)
    check_text(query, "query")
    functions = callable_functions(executor, "agent", profile)
    tools = executor.tools()
    can_search = all(name in tools and profile.in_code.has(tools[name]) for name in DISCOVERY)
    head = prompts.SCRIPTS + (prompts.SEARCH if can_search else "")
    least = count(head)
    if least > max_tokens:
        raise ContentError(f"the instructions need at least {least} tokens; max_tokens is {max_tokens}")
    full_text = _text(head, stub_source(functions), "")
    if count(full_text) <= max_tokens:
        return full_text
    listed = _likeliest(functions, ranked(functions, executor.uses, query), count, max_tokens - least)
    while listed:
        rest = [name for name in functions if name not in listed]
        text = _text(head, stub_source(listed, argument_docs=False), _rest_line(rest, can_search=can_search))
        if count(text) <= max_tokens:
            return text
        listed.popitem()
    return head


def _likeliest(
    functions: Mapping[str, ToolDefinition], names: Iterable[str], count: Callable[[str], int], room: int
) -> dict[str, ToolDefinition]:
    """Return the first tools that fit, each with its description. Skip a large tool for smaller ones."""
    listed: dict[str, ToolDefinition] = {}
    misses = 0
    for name in names:
        tool = functions[name]
        short = replace(tool, description=one_line(tool.description, _LONGEST_DESCRIPTION))
        size = count(stub_source({name: short}, argument_docs=False))
        if size <= room:
            listed[name], room = short, room - size
        else:
            misses += 1
            if misses == _MISSES:
                break
    return listed


def _text(head: str, stubs: str, rest: str) -> str:
    return head + prompts.SCRIPT_TOOLS.format(stubs=stubs + rest)


def _rest_line(names: list[str], *, can_search: bool) -> str:
    if not names:
        return ""
    if can_search:
        spaces = Counter(name.partition(".")[0] for name in names if "." in name).most_common(_MOST_SPACES)
        listed = ", ".join(f"tools.{space} ({number})" for space, number in spaces)
        return prompts.TO_BE_FOUND.format(
            count=len(names), spaces=f", for example in {listed}" if listed else ""
        )
    listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return prompts.NAMED.format(count=len(names), names=listed)
