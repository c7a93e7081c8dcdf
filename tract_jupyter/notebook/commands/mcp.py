"""`%tract mcp`: the servers whose tools are used here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, option
from tract_jupyter.notebook.views.html import Grid, GridView
from tract_jupyter.toolkit.names import python_name

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.toolkit.mcp.client import McpServer
    from tract_jupyter.tract import Tract

_USAGE = "mcp [add NAME [--trust-annotations] -- COMMAND ... | add NAME URL | remove NAME | list]"
_TRUST = "--trust-annotations"


def _mcp(notebook: NotebookSession, words: list[str]) -> GridView:
    tract = notebook.tract
    match words:
        case [] | ["list"]:
            return _list(tract)
        case ["remove", name]:
            tract.remove_mcp_server(name)
            return GridView(f"MCP server {name} was ended", ("Its tools are gone.",))
        case ["add", name, *rest] if rest:
            return _added(notebook, _add(tract, name, rest))
    raise OperationError(f"usage: %tract {_USAGE}; got mcp {' '.join(words)}")


def _add(tract: Tract, name: str, rest: list[str]) -> McpServer:
    """Start a server by what stands behind its name.

    Raises:
        OperationError: that is neither a command nor a URL.
    """
    options, dashes, command = _parted(rest)
    trusts, others = option(options, _TRUST)
    if dashes and command and not others:
        return tract.add_mcp_server(name, _split(command), trust_annotations=trusts)
    if not dashes and len(others) == 1 and "://" in others[0]:
        return tract.add_mcp_server(name, url=others[0], trust_annotations=trusts)
    raise OperationError(
        f"a server is started by %tract mcp add {name} -- COMMAND ..., or reached by %tract mcp add {name} URL; "
        "tract.add_mcp_server takes variables, headers and limits, too"
    )


def _parted(words: list[str]) -> tuple[list[str], bool, list[str]]:
    """Return what stands in front of `--`, whether there is one, and what stands behind it."""
    if "--" not in words:
        return words, False, []
    place = words.index("--")
    return words[:place], True, words[place + 1 :]


def _split(words: list[str]) -> list[str]:
    """Return the command as a shell would take it, quotes and all; but nothing is expanded.

    Raises:
        OperationError: a quote is not closed.
    """
    try:
        return shlex.split(" ".join(words))
    except ValueError as error:
        raise OperationError(f"the command cannot be read: {error}") from None


def _added(notebook: NotebookSession, server: McpServer) -> GridView:
    tract, tools = notebook.tract, notebook.config.tools_name
    rows = tuple(
        (f"{tools}.{server.name}.{python_name(tool.own_name)}", tool.description.partition("\n")[0])
        for tool in tract.executor.tools().values()
        if tool.namespace == server.name
    )
    told = f"It is started for this session only: {server.place}"
    return GridView(f"MCP server {server.name}", (told,), (_tools(rows), _left_out(tract, server.name)))


def _list(tract: Tract) -> GridView:
    servers = tract.mcp.servers
    rows = tuple(
        (name, str(len(server.listed)), _state(server), server.place, server.problem)
        for name, server in sorted(servers.items())
    )
    nothing = f"None. %tract {_USAGE}"
    heads = ("Name", "Tools", "State", "Command or URL", "Problem")
    grids = (
        Grid(heads, rows, code=frozenset({"Name", "Command or URL"})),
        *(_left_out(tract, name) for name in sorted(servers)),
    )
    return GridView("MCP servers", () if rows else (nothing,), grids)


def _state(server: McpServer) -> str:
    return "connected" if server.is_running else "ended; started again at the next call"


def _tools(rows: tuple[tuple[str, str], ...]) -> Grid:
    return Grid(("Function", "Description"), rows, code=frozenset({"Function"}))


def _left_out(tract: Tract, name: str) -> Grid:
    rows = tuple(sorted(tract.mcp.problems(name).items()))
    return Grid(("Tool", "Why it cannot be used"), rows, f"Left out of {name}", code=frozenset({"Tool"}))


def _words(notebook: NotebookSession, given: list[str]) -> list[tuple[str, str]]:
    """Return what may follow `%tract mcp` and the words that are `given`."""
    match given:
        case []:
            return [(word, "option") for word in ("add", "list", "remove")]
        case ["remove"]:
            return [(name, "server") for name in sorted(notebook.tract.mcp.servers)]
        case ["add", _]:
            return [("--", "option"), (_TRUST, "option")]
    return []


COMMANDS = (
    Command(_USAGE, "use the tools of an MCP server; it is started for this session only", _mcp, (_words,)),
)
