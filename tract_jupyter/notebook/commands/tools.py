"""The commands of `%tract` that list operations and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models.schema import type_text
from tract_jupyter.notebook.commands.command import Command, no_arguments
from tract_jupyter.notebook.commands.review import code_text
from tract_jupyter.notebook.views.html import Grid, GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.operations.spec import OperationSpec


def _ops(notebook: NotebookSession, rest: list[str]) -> GridView:
    no_arguments("ops", rest)
    operations = notebook.tract.operations
    specs = [operations.registry.get_spec(name) for name in sorted(operations.registry.operation_names)]
    active = _operation_grid([spec for spec in specs if spec is not None], operations.registry.unreviewed)
    handlers = notebook.tract.hooks.saved.quarantined.items()
    quarantined = (
        *sorted(operations.quarantined.items()),
        *sorted(
            (f"{one}/{name}", f"{why}; until then you are asked instead") for (one, name), why in handlers
        ),
    )
    nothing = "None yet. Define one with %%tract_operation NAME; %%tract_operation? explains how."
    return GridView(
        "Operations",
        () if active.rows or quarantined else (nothing,),
        (
            active,
            Grid(("Name", "Why it is not active"), quarantined, "Quarantined: see %tract review NAME",
                 code=frozenset({"Name"})),
        ),
    )  # fmt: skip


def _operation_grid(specs: list[OperationSpec], unreviewed: frozenset[str]) -> Grid:
    """Return the active operations; where their code runs, and that nobody reviewed it, where that says something."""
    about = {spec.name: code_text(spec, unreviewed) for spec in specs}
    rows = tuple(
        (
            spec.name,
            ", ".join(f"{p.name}: {type_text(p.annotation)}" for p in spec.parameters()),
            ", ".join(spec.actions),
            spec.description.partition("\n")[0],
            spec.spec_hash[:8],
            *([about[spec.name]] if any(about.values()) else []),
        )
        for spec in specs
    )
    heads = ("Name", "Fields", "Actions", "Description", "Hash", *(["Code"] if any(about.values()) else []))
    return Grid(heads, rows, "Active", code=frozenset({"Name", "Fields", "Actions", "Hash"}))


def _tools(notebook: NotebookSession, rest: list[str]) -> GridView:
    no_arguments("tools", rest)
    locks = notebook.tract.executor.locks
    rows = tuple(
        (
            f"{notebook.config.tools_name}.{tool.name}{tool.parameters.signature_text()}",
            ("reads" if tool.traits.read_only else "writes") + (", locked" if tool.name in locks else ""),
            tool.description.partition("\n")[0],
        )
        for tool in notebook.tract.executor.tools().values()
    )
    return GridView("Tools", (), (Grid(("Call", "", "Description"), rows, code=frozenset({"Call"})),))


COMMANDS = (
    Command("ops", "list active operations, and stored ones that nobody here has approved", _ops),
    Command("tools", "list every tool with its signature", _tools),
)
