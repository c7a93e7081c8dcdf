"""The subcommands of `%tract`: those about operations and tools here, those about the context and review in theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models.schema.types import type_text
from tract_jupyter.notebook.arguments import Command, no_arguments
from tract_jupyter.notebook.history_commands import HISTORY
from tract_jupyter.notebook.mcp_commands import MCP
from tract_jupyter.notebook.review_commands import DECIDE, RECORD, REVIEW, code_text
from tract_jupyter.notebook.rule_commands import RULES
from tract_jupyter.notebook.runs.commands import RUNS
from tract_jupyter.notebook.runs.profiles import PROFILES
from tract_jupyter.notebook.views.html import Grid, View

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.operations.spec import OperationSpec


def run_command(session: Session, line: str) -> Any:
    """Run `%tract <line>`.

    Raises:
        OperationError: there is no such subcommand, or its arguments are wrong.
    """
    given, dashes, program = line.partition(" -- ")
    name, *rest = given.split() or ["status"]
    if dashes:  # of a program's own line every space may count
        rest += ["--", program]
    command = COMMANDS.get(name)
    if command is None:
        raise OperationError(f"no command {name!r}.{nearest(name, COMMANDS)} '%tract help' lists them")
    if command.whole_line:
        rest = line.strip().split(maxsplit=1)[1:]
    return command.run(session, rest)


def _status(session: Session, rest: list[str]) -> View:
    no_arguments("status", rest)
    status = session.tract.status()
    head = f" at {status.head[:8]}" if status.head else ", empty"
    lines = [
        (
            f"Branch {status.branch}{head}: {status.commit_count:,} commits, {status.message_count:,} messages, "
            f"{status.tokens} tokens ({status.token_source})"
        ),
        f"Operations: {', '.join(status.operations) or 'none'}",
    ]
    if status.waiting:
        lines.append(f"Waiting for a decision: {status.waiting} (%tract inbox)")
    if status.quarantined:
        lines.append(f"Stored but not approved here: {', '.join(status.quarantined)} (%tract review NAME)")
    if status.quarantined_handlers:
        listed = ", ".join(status.quarantined_handlers)
        lines.append(
            f"Saved handlers not approved here: {listed} (%tract review NAME); you are asked in their place"
        )
    savings = session.tract.tools.savings()
    if savings.calls:
        lines.append(
            f"Tool calls in code: {savings.calls:,}, which kept ≈{savings.total:,} tokens out of the prompt"
        )
    scripts = session.tract.scripts
    if scripts.runs:
        lines.append(f"Scripts: {scripts.runs:,}; {scripts.totals.arithmetic}")
    return View(f"tract in {status.location}", tuple(lines))


def _ops(session: Session, rest: list[str]) -> View:
    no_arguments("ops", rest)
    operations = session.tract.operations
    specs = [operations.registry.get_spec(name) for name in sorted(operations.registry.operation_names)]
    active = _operation_grid([spec for spec in specs if spec is not None], operations.registry.unreviewed)
    handlers = session.tract.hooks.saved.quarantined.items()
    quarantined = (
        *sorted(operations.quarantined.items()),
        *sorted((f"{one}/{name}", f"{why}; you are asked in its place") for (one, name), why in handlers),
    )
    nothing = "None yet. Define one with %%tract_operation NAME; %%tract_operation? explains how."
    return View(
        "Operations",
        () if active.rows or quarantined else (nothing,),
        (
            active,
            Grid(("Name", "Why it is not active"), quarantined, "Quarantined: see %tract review NAME",
                 code=frozenset({"Name"})),
        ),
    )  # fmt: skip


def _operation_grid(specs: list[OperationSpec], unreviewed: frozenset[str]) -> Grid:
    """The active operations; where their code runs, and that nobody reviewed it, where that says something."""
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


def _tools(session: Session, rest: list[str]) -> View:
    no_arguments("tools", rest)
    locks = session.tract.executor.locks
    rows = tuple(
        (
            f"{session.config.tools_name}.{tool.name}{tool.parameters.signature_text()}",
            ("reads" if tool.traits.read_only else "writes") + (", locked" if tool.name in locks else ""),
            tool.description.partition("\n")[0],
        )
        for tool in session.tract.executor.tools().values()
    )
    return View("Tools", (), (Grid(("Call", "", "Description"), rows, code=frozenset({"Call"})),))


def _help(session: Session, rest: list[str]) -> View:  # noqa: ARG001 # the same for all
    rows = tuple((f"%tract {command.usage}", command.summary) for command in COMMANDS.values())
    magics = {
        ("%%" if kind == "cell" else "%") + name: magic for name, (kind, magic) in _magics(session).items()
    }
    more = (
        *((name, _first_line(magic)) for name, magic in magics.items()),
        (f"{session.config.tools_name}.<Tab>", "every tool as a function"),
    )
    lines = (
        f"A question mark explains more: {', '.join(f'{name}?' for name in magics)}, %config TractJupyter",
    )
    return View("tract_jupyter", lines, (Grid(("Type", "To"), (*rows, *more), code=frozenset({"Type"})),))


def _magics(session: Session) -> dict[str, tuple[str, Any]]:
    """The extension's other magics by name: `cell` or `line`, and the function; of one that is both, that of cells."""
    registered = session.shell.magics_manager.magics
    ours = {
        name: (kind, magic)
        for kind in ("line", "cell")
        for name, magic in registered[kind].items()
        if getattr(getattr(magic, "__self__", None), "__module__", "") == "tract_jupyter.notebook.magics"
    }
    del ours["tract"]
    return dict(sorted(ours.items()))


def _first_line(magic: Any) -> str:
    """What a magic is for; `magic_arguments` puts its usage before that."""
    parser = getattr(magic, "parser", None)
    return ((magic.__doc__ if parser is None else parser.description) or "").partition("\n")[0]


COMMANDS = {
    "status": Command("status", "where the context stands; the default", _status),
    **HISTORY,
    **RUNS,
    **PROFILES,
    "ops": Command("ops", "active operations, and stored ones that nobody here has approved", _ops),
    "tools": Command("tools", "every tool with its signature", _tools),
    "mcp": MCP,
    "decide": DECIDE,
    **REVIEW,
    "record": RECORD,
    "rules": RULES,
    "help": Command("help", "this list", _help),
}
