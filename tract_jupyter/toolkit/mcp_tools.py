"""The tools of MCP servers among those of the executor: `NAME.tool`, and `tools.NAME.tool` in code.

What a server says about its tools is a claim. A tool that cannot be used as it is described is left out, and the
others stay. The hash of a definition covers all that was claimed and which server it was, so that an approval of one is
none of another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import McpError, SpecError, ToolExecutionError, nearest
from tract_jupyter.models.canonical import digest
from tract_jupyter.models.text import one_line, printable
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits
from tract_jupyter.toolkit.names import python_name
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.toolkit.mcp_client import McpServer

_LONGEST_NAME: Final = 128  # https://modelcontextprotocol.io/specification: tool names


@dataclass(frozen=True)
class McpTool:
    """A tool as its server describes it. The hints are the server's claims; None where it claims nothing."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


@dataclass
class _Made:
    """What was made of one list of a server."""

    listed: tuple[McpTool, ...]
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class McpTools:
    """MCP servers by name, and their tools."""

    def __init__(self) -> None:
        self.servers: dict[str, McpServer] = {}
        self._made: dict[str, _Made] = {}
        self._all: dict[str, ToolDefinition] = {}

    def __call__(self) -> dict[str, ToolDefinition]:
        """All of them, by name; the same dict as long as no server lists others."""
        made = self._made
        if made.keys() != self.servers.keys() or any(
            made[name].listed is not server.listed for name, server in self.servers.items()
        ):
            self._made = {name: self._up_to_date(server) for name, server in self.servers.items()}
            self._all = {name: tool for one in self._made.values() for name, tool in one.tools.items()}
        return self._all

    def problems(self, name: str) -> dict[str, str]:
        """Why some of a server's tools are left out.

        Raises:
            McpError: there is no server of that name.
        """
        self._check_known(name)
        self()
        return self._made[name].problems

    def remove(self, name: str) -> None:
        """End a server, and forget it with its tools.

        Raises:
            McpError: there is none of that name.
        """
        self._check_known(name)
        self.servers.pop(name).close()

    def close(self) -> None:
        """End all of them."""
        while self.servers:
            self.servers.popitem()[1].close()

    def _check_known(self, name: str) -> None:
        if name not in self.servers:
            known = f" There are: {', '.join(self.servers)}." if self.servers else " There is none."
            raise McpError(f"no MCP server {name!r}.{nearest(str(name), self.servers)}{known}")

    def _up_to_date(self, server: McpServer) -> _Made:
        before, listed = self._made.get(server.name), server.listed
        return before if before is not None and before.listed is listed else _made(server, listed)


def _made(server: McpServer, listed: tuple[McpTool, ...]) -> _Made:
    made = _Made(listed)
    names = Counter(tool.name for tool in listed)
    short = Counter(python_name(name) for name in names)
    for tool in listed:
        try:
            _check_name(tool.name, names[tool.name], short[python_name(tool.name)])
            definition = _definition(server, tool)
        except SpecError as error:
            made.problems[one_line(tool.name, 60)] = str(error)
        else:
            made.tools[definition.name] = definition
    return made


def _check_name(name: str, times: int, times_in_python: int) -> None:
    if not name.strip() or len(name) > _LONGEST_NAME or printable(name) != name or "\n" in name:
        raise SpecError(f"its name is none: 1 to {_LONGEST_NAME} characters that can be shown, in one line")
    if times > 1:
        raise SpecError(f"{times} tools have this name, so nobody can tell which one a call is for")
    if times_in_python > 1:
        raise SpecError(f"{times_in_python} tools would be called {python_name(name)!r} in Python")


def _definition(server: McpServer, tool: McpTool) -> ToolDefinition:
    made = ToolDefinition.from_schema(
        f"{server.name}.{tool.name}", tool.description, tool.input_schema, _handler(server, tool.name),
        traits=_traits(tool, trusted=server.trust_annotations), owner=f"mcp:{server.name}",
        output_schema=tool.output_schema,
    )  # fmt: skip
    claims = {**asdict(tool), "server": server.identity}
    return replace(made, namespace=server.name, version=digest(claims))


def _handler(server: McpServer, tool: str) -> Callable[..., ToolResult]:
    def call(**arguments: Any) -> ToolResult:
        full = f"{server.name}.{tool}"
        try:
            return ToolResult(full, success=True, output=server.call(tool, arguments))
        except ToolExecutionError as error:
            return ToolResult(full, success=False, error=error.reason)

    return call


def _traits(tool: McpTool, *, trusted: bool) -> Traits:
    """What calling it can do. Without trust, only what a server says against itself counts."""
    if not trusted:
        return Traits(destructive=bool(tool.destructive), open_world=True)
    reads = bool(tool.read_only)  # what it does not say, means here what MCP says
    return Traits(reads, not reads and tool.destructive is not False, tool.open_world is not False)
