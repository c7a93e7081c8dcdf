"""The tools of MCP servers among those of the executor: `NAME.tool`, and `tools.NAME.tool` in code.

What a server says about its tools is a claim. A tool that cannot be used as it is described is left out, and the
others stay. The hash of a definition covers all that was claimed and which server it was, so that an approval of one
does not cover another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, McpError, SpecError, ToolExecutionError, nearest
from tract_jupyter.models import check_text, digest, one_line, printable
from tract_jupyter.models.schema import JsonSchema, count_parts
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits
from tract_jupyter.toolkit.mcp.content import unwrapped_schema
from tract_jupyter.toolkit.names import python_name
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tract_jupyter.toolkit.mcp.client import McpServer, McpTool

_LONGEST_NAME: Final = 128  # https://modelcontextprotocol.io/specification: tool names
_MOST_PARTS: Final = 50_000  # of all schemas of a server; reading these takes some ten seconds
_CHANGED: Final = "its server changed or removed it, so it was not called; check it, and call it again"


@dataclass
class _Made:
    """The definitions made from one list of a server."""

    listed: tuple[McpTool, ...]
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class McpTools:
    """MCP servers by name, and their tools; a server that ended is started again at the next call.

    Args:
        check_name: refuses a name for a server that other tools have.

    Attributes:
        servers: by name.
    """

    def __init__(self, check_name: Callable[[str], object]) -> None:
        self._check_name = check_name
        self.servers: dict[str, McpServer] = {}
        # one attribute, since threads that ask at once must find the two in step
        self._current: tuple[dict[str, _Made], dict[str, ToolDefinition]] = ({}, {})

    def __call__(self) -> dict[str, ToolDefinition]:
        """Return all tools by name; the same dict as long as no server lists others."""
        return self._up_to_date()[1]

    def add(
        self,
        name: str,
        command: Sequence[str] | None = None,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        longest_timeout: float = 3_600.0,
        start_timeout: float = 30.0,
        result_bytes: int = 1_000_000,
        trust_annotations: bool = False,
    ) -> McpServer:
        """Start a server, or connect to one; its tools are `tools.NAME.tool` until it is removed or the tract closed.

        Its program may do all that you may do: add what you trust. It is not stored, so that no store starts programs.
        Calls of your own are made as they are; those of a model are asked about, as for all tools.

        Args:
            name: what it is called here: a Python name.
            command: the program and its arguments.
            url: of a server over HTTP instead.
            env: variables of the program besides PATH, HOME and the like. No others are passed on.
            cwd: the folder that the program runs in.
            headers: sent with each request to the URL, such as `{"Authorization": "Bearer ..."}`.
            timeout: seconds that a call may take without progress, unless the call says otherwise.
            longest_timeout: seconds that a call may take in total, even if the server reports progress.
            start_timeout: seconds until it must be ready.
            result_bytes: the most bytes of text that one call may bring.
            trust_annotations: believe what the server says about which of its tools only read, so that models may call
                these without being asked about.

        Raises:
            McpError: it cannot be started or reached, or the name is not valid or is taken.
        """
        from tract_jupyter.toolkit.mcp.client import McpServer

        server = McpServer(
            name, command, url=url, env=env, cwd=cwd, headers=headers, timeout=timeout,
            longest_timeout=longest_timeout, start_timeout=start_timeout, result_bytes=result_bytes,
            trust_annotations=trust_annotations,
        )  # fmt: skip
        if name in self.servers:
            raise McpError(f"there is an MCP server {name!r} already; mcp.remove({name!r}) ends it")
        self._check_name(name)
        server.start()
        self.servers[name] = server
        return server

    def problems(self, name: str) -> dict[str, str]:
        """Return why some of a server's tools are left out.

        Raises:
            McpError: no server has that name.
        """
        self._check_known(name)
        return self._up_to_date()[0][name].problems

    def remove(self, name: str) -> None:
        """End a server, and forget it with its tools.

        Raises:
            McpError: no server has that name.
        """
        self._check_known(name)
        self.servers.pop(name).close()

    def close(self) -> None:
        """End all servers."""
        while self.servers:
            self.servers.popitem()[1].close()

    def _check_known(self, name: str) -> None:
        check_text(name, "the name of a server", error=McpError)
        if name not in self.servers:
            known = (
                f" There are: {', '.join(self.servers)}." if self.servers else " No server has been added."
            )
            raise McpError(f"no MCP server {name!r}.{nearest(str(name), self.servers)}{known}")

    def _up_to_date(self) -> tuple[dict[str, _Made], dict[str, ToolDefinition]]:
        made, servers = self._current[0], dict(self.servers)
        if made.keys() != servers.keys() or any(made[n].listed is not s.listed for n, s in servers.items()):
            made = {name: _made(server, made.get(name)) for name, server in servers.items()}
            self._current = made, {name: tool for one in made.values() for name, tool in one.tools.items()}
        return self._current


def _made(server: McpServer, before: _Made | None) -> _Made:
    listed = server.listed
    if before is not None and before.listed is listed:
        return before
    made, parts = _Made(listed), 0
    names = Counter(tool.name for tool in listed)
    short = Counter(python_name(name) for name in names)
    for tool in listed:
        parts += count_parts([tool.input_schema, tool.output_schema])
        try:
            _check_name(tool.name, names[tool.name], short[python_name(tool.name)])
            if tool.problem:
                raise SpecError(tool.problem)
            _check_parts(parts)
            definition = _definition(server, tool)
        except (SpecError, ContentError) as error:
            made.problems[one_line(tool.name, 60)] = str(error)
        else:
            made.tools[definition.name] = definition
    return made


def _check_name(name: str, times: int, times_in_python: int) -> None:
    if not name.strip() or len(name) > _LONGEST_NAME or printable(name) != name or "\n" in name:
        raise SpecError(
            f"its name is not valid: a name has 1 to {_LONGEST_NAME} characters that can be shown, in one line"
        )
    if times > 1:
        raise SpecError(f"{times} tools have this name, so a call would be ambiguous")
    if times_in_python > 1:
        raise SpecError(f"{times_in_python} tools would be called {python_name(name)!r} in Python")


def _check_parts(parts: int) -> None:
    if parts > _MOST_PARTS:
        raise SpecError(
            f"the schemas up to this one have {parts:,} parts; {_MOST_PARTS:,} is the most of one server"
        )


def _definition(server: McpServer, tool: McpTool) -> ToolDefinition:
    made = ToolDefinition.from_schema(
        f"{server.name}.{tool.name}", tool.description, tool.input_schema, _handler(server, tool),
        traits=_traits(tool, trusted=server.trust_annotations), owner=f"mcp:{server.name}",
        output_schema=_output_schema(tool),
    )  # fmt: skip
    claims = {**asdict(tool), "output_schema": ascii(tool.output_schema), "server": server.identity}
    return replace(made, namespace=server.name, version=digest(claims))


def _output_schema(tool: McpTool) -> dict[str, Any] | None:
    """Return the schema of the value for code; None if it cannot be used, as nothing depends on it."""
    schema = unwrapped_schema(tool.output_schema)
    try:
        if schema is not None:
            JsonSchema(schema)
    except SpecError:
        return None
    return schema


def _handler(server: McpServer, tool: McpTool) -> Callable[..., ToolResult]:
    def call(**arguments: Any) -> ToolResult:
        full = f"{server.name}.{tool.name}"
        server.start()  # one that ended may list other tools now
        if tool not in server.listed:
            return ToolResult(full, success=False, error=_CHANGED)
        try:
            answer = server.answer(tool.name, arguments)
        except ToolExecutionError as error:
            return ToolResult(full, success=False, error=error.reason)
        return ToolResult(full, success=True, output=answer.value, told=answer.told, images=answer.images)

    return call


def _traits(tool: McpTool, *, trusted: bool) -> Traits:
    """Return what calling it can do. Without trust, only what a server says against itself counts."""
    if not trusted:
        return Traits(destructive=bool(tool.destructive), open_world=True)
    reads = bool(tool.read_only)  # what it does not say, means here what MCP says
    return Traits(reads, not reads and tool.destructive is not False, tool.open_world is not False)
