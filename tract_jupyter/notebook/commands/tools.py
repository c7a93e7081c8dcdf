"""The commands of `%tract` for operations and tools, including the tools of MCP servers."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models.schema import type_text
from tract_jupyter.notebook.commands.command import Command, no_arguments, option, option_value
from tract_jupyter.notebook.commands.review import code_text, quarantined
from tract_jupyter.notebook.views.html import Grid, GridView
from tract_jupyter.notebook.views.tool_list import ToolsView
from tract_jupyter.toolkit import python_name

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.toolkit import McpServer
    from tract_jupyter.tract import Tract


def _ops(notebook: NotebookSession, rest: list[str]) -> GridView:
    no_arguments("ops", rest)
    operations = notebook.tract.operations
    specs = [operations.registry.get_spec(name) for name in sorted(operations.registry.operation_names)]
    active = _operation_grid([spec for spec in specs if spec is not None], operations.registry.unreviewed)
    not_active = tuple(
        (name, f"{why}. Until then, its requests come to you" if "/" in name else why)
        for name, why in quarantined(notebook.tract).items()
    )
    waiting = tuple(
        (name, line)
        for name, line in sorted(operations.waiting().items())
        if name not in operations.quarantined
    )
    nothing = "None yet. Define one with %%tract_operation NAME; %%tract_operation? explains how."
    return GridView(
        "Operations",
        () if active.rows or waiting or not_active else (nothing,),
        (
            active,
            Grid(("Name", "Look at it"), waiting, "Waiting for approval", code=frozenset({"Name", "Look at it"})),
            Grid(("Name", "Why it is not active"), not_active, "Quarantined: see %tract review NAME",
                 code=frozenset({"Name"})),
        ),
    )  # fmt: skip


def _operation_grid(specs: list[OperationSpec], unreviewed: frozenset[str]) -> Grid:
    """Return the table of active operations. The column for code appears if one is sandboxed or not reviewed."""
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


def _tools(notebook: NotebookSession, words: list[str]) -> ToolsView:
    view = ToolsView.of(notebook.tract.executor, notebook.config.tools_name, words)
    if words and not view.tools:
        raise OperationError(
            f"no tool has {' '.join(words)!r} in its name or description; %tract tools lists all"
        )
    return view


_MCP_USAGE = (
    "mcp [add NAME [--trust-annotations] [--timeout S] -- COMMAND ... | add NAME URL | remove NAME | list]"
)
_TRUST, _TIMEOUT = "--trust-annotations", "--timeout"


def _mcp(notebook: NotebookSession, words: list[str]) -> GridView:
    tract = notebook.tract
    match words:
        case [] | ["list"]:
            return _list(tract)
        case ["remove", name]:
            tract.mcp.remove(name)
            return GridView(
                f"MCP server {name} was removed", ("Its process has ended, and its tools were removed.",)
            )
        case ["add", name, *rest] if rest:
            return _added_view(notebook, _add(tract, name, rest))
    raise OperationError(f"usage: %tract {_MCP_USAGE}; got mcp {' '.join(words)}")


def _add(tract: Tract, name: str, rest: list[str]) -> McpServer:
    """Start the server that the words describe."""
    options, dashes, command = _split_at_dashes(rest)
    trusts, others = option(options, _TRUST)
    timeout, others = _timeout(others)
    if dashes and command and not others:
        return tract.mcp.add(name, _split(command), trust_annotations=trusts, **timeout)
    if not dashes and len(others) == 1 and "://" in others[0]:
        return tract.mcp.add(name, url=others[0], trust_annotations=trusts, **timeout)
    raise OperationError(
        f"%tract mcp add {name} -- COMMAND ... starts a server, and %tract mcp add {name} URL connects to one. "
        "tract.mcp.add also takes variables, headers and limits"
    )


def _timeout(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the timeout as an argument of `add`, and the other words."""
    value, others = option_value(words, _TIMEOUT)
    if value is None:
        return {}, words
    if not re.fullmatch(r"\d+(\.\d+)?", value):
        raise OperationError(
            f"{_TIMEOUT} must be the seconds that a call may take without progress, such as {_TIMEOUT} 120, "
            f"not {value!r}"
        )
    return {"timeout": float(value)}, others


def _split_at_dashes(words: list[str]) -> tuple[list[str], bool, list[str]]:
    """Split words at `--`: return the words before it, True if it exists, and the words after it."""
    if "--" not in words:
        return words, False, []
    place = words.index("--")
    return words[:place], True, words[place + 1 :]


def _split(words: list[str]) -> list[str]:
    """Split a command like a shell, without expansions."""
    try:
        return shlex.split(" ".join(words))
    except ValueError as error:
        raise OperationError(f"the command cannot be read: {error}") from None


def _added_view(notebook: NotebookSession, server: McpServer) -> GridView:
    tract, tools = notebook.tract, notebook.config.tools_name
    rows = tuple(
        (f"{tools}.{server.name}.{python_name(tool.own_name)}", tool.description.partition("\n")[0])
        for tool in tract.executor.tools().values()
        if tool.namespace == server.name
    )
    note = f"Started for this session only: {server.place}"
    grid = Grid(("Function", "Description"), rows, code=frozenset({"Function"}))
    return GridView(f"MCP server {server.name}", (note,), (grid, _left_out(tract, server.name)))


def _list(tract: Tract) -> GridView:
    servers = tract.mcp.servers
    rows = tuple(
        (name, str(len(server.listed)), _state(server), server.place, server.problem)
        for name, server in sorted(servers.items())
    )
    nothing = f"None. %tract {_MCP_USAGE}"
    heads = ("Name", "Tools", "State", "Command or URL", "Problem")
    grids = (
        Grid(heads, rows, code=frozenset({"Name", "Command or URL"})),
        *(_left_out(tract, name) for name in sorted(servers)),
    )
    return GridView("MCP servers", () if rows else (nothing,), grids)


def _state(server: McpServer) -> str:
    return "connected" if server.is_running else "ended; started again at the next call"


def _left_out(tract: Tract, name: str) -> Grid:
    rows = tuple(sorted(tract.mcp.problems(name).items()))
    return Grid(("Tool", "Why it cannot be used"), rows, f"Left out of {name}", code=frozenset({"Tool"}))


def _mcp_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    match typed:
        case []:
            return [(word, "option") for word in ("add", "list", "remove")]
        case ["remove"]:
            return [(name, "server") for name in sorted(notebook.tract.mcp.servers)]
        case ["add", _]:
            return [(word, "option") for word in ("--", _TRUST, _TIMEOUT)]
    return []


COMMANDS = (
    Command("ops", "list active operations, and stored ones without your approval", _ops),
    Command(
        "tools [WORD ...]",
        "list all tools with their signatures, or only tools that contain all words",
        _tools,
    ),
    Command(
        _MCP_USAGE, "use the tools of an MCP server; it is started for this session only", _mcp, (_mcp_words,)
    ),
)
