"""Formatters for IPython. The value types themselves do not depend on notebooks.

Formatters are registered by type names. The first display of a value imports its type and its view.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.llm import Models
    from tract_jupyter.review import Pending
    from tract_jupyter.runs import Fork, ForkTable, Run, RunResponse
    from tract_jupyter.toolkit import ToolsModule
    from tract_jupyter.tract import Tract


def register(shell: InteractiveShell) -> None:
    """Show contexts, differences, runs and their results as views, and pendings as panels."""
    shell.display_formatter.ipython_display_formatter.for_type_by_name(*_PENDING, _show_pending)  # type: ignore[union-attr]
    for module, name in _FORMATTERS:
        _bundles(shell).for_type_by_name(module, name, _FORMATTERS[module, name])


def unregister(shell: InteractiveShell) -> None:
    """Remove the formatters. Formatters that the user registered later stay."""
    displayed: Any = shell.display_formatter.ipython_display_formatter  # type: ignore[union-attr]
    with suppress(KeyError):
        if displayed.lookup_by_type(".".join(_PENDING)) is _show_pending:
            displayed.pop(".".join(_PENDING))
    bundles = _bundles(shell)
    for (module, name), function in _FORMATTERS.items():
        with suppress(KeyError):  # it is not registered
            if bundles.lookup_by_type(f"{module}.{name}") is function:
                bundles.pop(f"{module}.{name}")


def _show_pending(pending: Pending) -> None:
    """Display an open pending once per cell, as its panel or as full text. Any other pending has a short text."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    from tract_jupyter.exceptions import TractError
    from tract_jupyter.review import how_to_decide

    reviewer, text = pending.tract.reviewer, repr(pending)
    is_here: Any = getattr(reviewer.channel, "is_here", None)
    decides = f"{how_to_decide(pending.pending_id)} decides it"
    if pending.status.is_open and is_here is None:  # the tract has another channel
        text += f". It waits in the inbox: {decides} in a notebook on its store, and .review() asks here"
    elif pending.status.is_open and is_here(pending.pending_id):
        if getattr(get_ipython(), "kernel", None) is not None:
            return
        text += f". {decides}"  # the terminal already shows `Out[n]:`
    elif pending.status.is_open:
        try:
            reviewer.show(pending)
            if not is_here(pending.pending_id):  # it was shown in an earlier cell
                reviewer.show_again(pending)
        except TractError as error:
            text += f": {error}"
        else:
            return
    display({"text/plain": text}, raw=True)


def _bundles(shell: InteractiveShell) -> Any:
    return shell.display_formatter.mimebundle_formatter  # type: ignore[union-attr] # each shell has one


def _show_with(module: str, name: str) -> Callable[..., dict[str, str]]:
    """Return a formatter that makes a view of `tract_jupyter.notebook` at its first use."""

    def show(value: object, **_: object) -> Any:
        views: Any = import_module(f"tract_jupyter.notebook.{module}")
        return attrgetter(name)(views)(value)._repr_mimebundle_()

    return show


def _show_run(run: Run, **_: object) -> dict[str, str]:
    from tract_jupyter.notebook.runs.prompt import inspected
    from tract_jupyter.notebook.runs.view import RunView

    view = RunView(run, inspection=inspected(run))
    return {"text/html": str(view.to_html()), "text/plain": view.to_text()}


def _show_response(response: RunResponse, **_: object) -> dict[str, str]:
    return {"text/plain": str(response)} if response.run is None else _show_run(response.run)


def _show_models(models: Models, **_: object) -> dict[str, str]:
    from tract_jupyter.llm import key_text
    from tract_jupyter.notebook.views.html import Grid, GridView

    rows = [(model.name, model.model or "", model.place, key_text(model.key)) for model in models.values()]
    rows += [
        (model.name, "", f"another key of {model.connection}", key_text(model.key))
        for model in models.credentials
    ]
    notes = models.asked if rows else (repr(models),)
    grid = Grid(("Name", "Model", "Place", "Key"), tuple(rows), code=frozenset({"Name", "Model"}))
    return GridView("Models", notes, (grid,))._repr_mimebundle_()


_PENDING: Final = ("tract_jupyter.review.pending", "Pending")


def _show_list(values: list[object], **_: object) -> Any:
    """Show a list of values of this package as a table. None for any other list leaves it to IPython."""
    from tract_jupyter.notebook.views.values import is_shown, list_view

    if values and is_shown(values[0]) and {type(value) for value in values} == {type(values[0])}:
        return list_view(values)._repr_mimebundle_()
    if not values and type(values).__module__.startswith("tract_jupyter."):
        from tract_jupyter.notebook.views.html import GridView

        return GridView(repr(values))._repr_mimebundle_()
    method = None if type(values) is list else getattr(values, "_repr_mimebundle_", None)
    return None if method is None else method()


def _show_fork(fork: Fork, **_: object) -> dict[str, str]:
    from tract_jupyter.runs import ForkTable

    return _show_forks(ForkTable((fork,)), title=f"Fork {fork.name}", notes=(str(fork),))


def _show_forks(
    table: ForkTable, title: str = "Forks", notes: tuple[str, ...] = (), **_: object
) -> dict[str, str]:
    from tract_jupyter.notebook.views.html import Grid, GridView

    figures = frozenset({"Steps", "Calls", "Tokens", "Cost"})
    grid = Grid(table.heads, table.rows, code=frozenset({"Name", "Model"}), right=figures)
    notes = notes if table.forks else (str(table),)
    return GridView(title, notes, (grid,))._repr_mimebundle_()


def tract_view(tract: Tract, **_: object) -> dict[str, str] | None:
    """Return a tract as a mime bundle; None if it cannot be read, for example after `close`."""
    from tract_jupyter.exceptions import TractError
    from tract_jupyter.notebook.views.overview import TractView

    try:
        return TractView.of(tract)._repr_mimebundle_()
    except TractError:
        return None


def tools_view(tools: ToolsModule, prefix: str = "", **_: object) -> dict[str, str] | None:
    """Return tools as a mime bundle; None if they cannot be read. `prefix` replaces the name of their module."""
    from tract_jupyter.exceptions import TractError
    from tract_jupyter.notebook.views.tool_list import ToolsView
    from tract_jupyter.toolkit import executor_of

    try:
        executor, namespace = executor_of(tools)
        name = prefix or tools.__name__.partition(".")[0]
        return ToolsView.of(executor, name, (), namespace)._repr_mimebundle_()
    except TractError:
        return None


_VALUES: Final = {
    "agents.definition": "TreeLimits",
    "agents.registry": "Agent AgentCall",
    "context.spawn": "InheritedContext",
    "context.tags": "TagInfo",
    "context.undo": "UndoStep",
    "context.verification": "Damage",
    "review.bus": "HookEvent",
    "llm.cassette": "CassetteReport",
    "llm.connections": "Credential ModelConnection",
    "llm.prices": "ModelPrice",
    "llm.spending": "CostReport",
    "loop.stored": "PastTurn",
    "models.attachment": "AttachedFile",
    "models.budget": "Allowance TokenBudget",
    "models.commit": "BranchInfo CommitInfo",
    "models.compression": "CompressPlan CompressResult ExpandResult GCResult ToolCompactResult",
    "models.merge": "ImportResult MergeResult RebaseResult",
    "models.spawn": "CollapseResult SpawnInfo TractInfo",
    "models.status": "StatusInfo",
    "models.turn": "ChatResponse",
    "operations.rehearsal": "Rehearsal",
    "operations.spec": "OperationSpec",
    "operations.writing": "WrittenOperation",
    "orchestrator.config": "OrchestratorConfig",
    "orchestrator.result": "OrchestratorResult",
    "policy.policies": "Preview",
    "review.decision": "Decision",
    "review.grants": "Grant",
    "runs.costs": "RewriteCost TurnCost",
    "runs.events": "RunEvent",
    "runs.preview": "PromptPreview",
    "runs.profile.model": "OperationProfile",
    "runs.store": "ProfileEntry",
    "runs.verification": "RunRoot",
    "scripts.result": "ScriptResult",
    "storage.journal": "CompileRecord Event",
    "storage.questions": "StoredDecision StoredPending",
    "storage.refs": "Move",
    "toolkit.definitions": "ToolDefinition",
    "toolkit.results": "ToolResult",
    "toolkit.savings": "Savings",
}
"""The modules and names of value types. A list of values is a table (`_show_list`)."""
_PARTS: Final = {
    "agents.agents": "Agents",
    "context.compile": "CompileRecords",
    "context.log": "History",
    "context.spawn": "Family",
    "context.tags": "Tags",
    "llm.cassette": "Cassette",
    "loop.loop": "ToolLoop",
    "operations.handlers": "Hooks",
    "operations.lifecycle": "Operations",
    "orchestrator.orchestrator": "TractOrchestrator",
    "policy.policies": "Policies",
    "review.grants": "Grants",
    "review.review": "Review",
    "review.trust": "Trust",
    "runs.costs": "Costs",
    "runs.forks": "Forks",
    "runs.service": "Runs",
    "runs.store": "Profiles",
    "scripts.runner": "Scripts",
    "session": "Session",
    "toolkit.autonomy": "Autonomy",
    "toolkit.mcp.tools": "McpTools",
    "toolkit.workspace": "Workspace",
}
"""The parts of a tract. Their views list their methods."""


def _show_dict(values: dict[object, object], **_: object) -> Any:
    """Show a dict with values of this package as a table. None for any other dict leaves it to IPython."""
    return None if type(values) is not dict else _show_list(list(values.values()))


def _named(names: Mapping[str, str], show: Callable[..., Any]) -> dict[tuple[str, str], Callable[..., Any]]:
    return {(f"tract_jupyter.{module}", name): show for module in names for name in names[module].split()}


_FORMATTERS: Final = {
    **_named(_VALUES, _show_with("views.values", "value_view")),
    **_named(_PARTS, _show_with("views.values", "part_view")),
    ("builtins", "list"): _show_list,
    ("builtins", "dict"): _show_dict,
    ("tract_jupyter.tract", "Tract"): tract_view,
    ("tract_jupyter.toolkit.stubs", "ToolsModule"): tools_view,
    ("tract_jupyter.runs.forks", "Fork"): _show_fork,
    ("tract_jupyter.runs.forks", "ForkTable"): _show_forks,
    ("tract_jupyter.llm.registry", "Models"): _show_models,
    ("tract_jupyter.models.context", "CompiledContext"): _show_with("views.context", "ContextView.of"),
    ("tract_jupyter.models.diff", "DiffResult"): _show_with("views.diff", "DiffView"),
    ("tract_jupyter.runs.model", "Run"): _show_run,
    ("tract_jupyter.runs.turn", "RunResponse"): _show_response,
}
