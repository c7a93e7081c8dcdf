"""The tools of MCP servers in the executor: `NAME.tool`, and `tools.NAME.tool` in code.

A server's description of a tool is only a claim. The executor omits a tool with an unusable description, but not the
other tools. The hash of a definition covers the server and all its claims. An approval therefore never covers another
tool.
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
_MOST_PARTS: Final = 50_000  # in all schemas of a server; reading them takes about ten seconds
_CHANGED: Final = "its server changed or removed it, so it was not called; check it, and call it again"


@dataclass
class _Definitions:
    """The definitions for one list of a server."""

    listed: tuple[McpTool, ...]
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class McpTools:
    """MCP servers by name, and their tools. The next call restarts a server that ended."""

    def __init__(self, check_name: Callable[[str], object]) -> None:
        self._check_name = check_name
        self.servers: dict[str, McpServer] = {}
        # one attribute, because concurrent threads must see both values in step
        self._current: tuple[dict[str, _Definitions], dict[str, ToolDefinition]] = ({}, {})

    def __call__(self) -> dict[str, ToolDefinition]:
        """Return all tools by name. It is the same dict until a server lists other tools."""
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
        """Start a server, or connect to one.

        Its tools are `tools.NAME.tool` until it is removed or the tract is closed.

        The program has all of your rights: add only programs that you trust. The server is not stored, because a
        store must never start programs. Your own calls need no approval. A model's calls need approval, like the
        calls of other tools.

        Args:
            name: its name here, a Python name.
            command: the program and its arguments.
            url: the URL of a server over HTTP, instead of a command.
            env: variables of the program, in addition to PATH, HOME and similar ones. It receives no others.
            cwd: the folder that the program runs in.
            headers: HTTP headers of each request to the URL, such as `{"Authorization": "Bearer ..."}`.
            timeout: maximum seconds of a call without progress, unless the call sets another limit.
            longest_timeout: maximum seconds of a call in total, even if the server reports progress.
            start_timeout: maximum seconds until it is ready.
            result_bytes: maximum number of text bytes in the answer to one call.
            trust_annotations: trust the server's claims about read-only tools. Models may then call these without
                approval.

        Raises:
            McpError: it cannot be started or reached, or the name is invalid or in use.
        """
        from tract_jupyter.toolkit.mcp.client import McpServer

        server = McpServer(
            name, command, url=url, env=env, cwd=cwd, headers=headers, timeout=timeout,
            longest_timeout=longest_timeout, start_timeout=start_timeout, result_bytes=result_bytes,
            trust_annotations=trust_annotations,
        )  # fmt: skip
        if name in self.servers:
            raise McpError(f"the MCP server {name!r} already exists; mcp.remove({name!r}) removes it")
        self._check_name(name)
        server.start()
        self.servers[name] = server
        return server

    def problems(self, name: str) -> dict[str, str]:
        """Return the reasons why some of a server's tools are missing, by tool name."""
        self._check_known(name)
        return self._up_to_date()[0][name].problems

    def remove(self, name: str) -> None:
        """Stop a server, and remove it with its tools."""
        self._check_known(name)
        self.servers.pop(name).close()

    def close(self) -> None:
        """Stop all servers."""
        while self.servers:
            self.servers.popitem()[1].close()

    def _check_known(self, name: str) -> None:
        check_text(name, "the name of a server", error=McpError)
        if name not in self.servers:
            known = f" Servers: {', '.join(self.servers)}." if self.servers else " No server has been added."
            raise McpError(f"no MCP server {name!r}.{nearest(str(name), self.servers)}{known}")

    def _up_to_date(self) -> tuple[dict[str, _Definitions], dict[str, ToolDefinition]]:
        current, servers = self._current[0], dict(self.servers)
        if current.keys() != servers.keys() or any(
            current[n].listed is not s.listed for n, s in servers.items()
        ):
            current = {name: _definitions(server, current.get(name)) for name, server in servers.items()}
            self._current = (
                current,
                {name: tool for listed in current.values() for name, tool in listed.tools.items()},
            )
        return self._current


def _definitions(server: McpServer, before: _Definitions | None) -> _Definitions:
    listed = server.listed
    if before is not None and before.listed is listed:
        return before
    definitions, parts = _Definitions(listed), 0
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
            definitions.problems[one_line(tool.name, 60)] = str(error)
        else:
            definitions.tools[definition.name] = definition
    return definitions


def _check_name(name: str, times: int, times_in_python: int) -> None:
    if not name.strip() or len(name) > _LONGEST_NAME or printable(name) != name or "\n" in name:
        raise SpecError(
            f"its name is invalid: a name has 1 to {_LONGEST_NAME} printable characters in one line"
        )
    if times > 1:
        raise SpecError(f"{times} tools have this name, so a call would be ambiguous")
    if times_in_python > 1:
        raise SpecError(f"{times_in_python} tools would be called {python_name(name)!r} in Python")


def _check_parts(parts: int) -> None:
    if parts > _MOST_PARTS:
        raise SpecError(
            f"the schemas up to this one have {parts:,} parts; the maximum of one server is {_MOST_PARTS:,}"
        )


def _definition(server: McpServer, tool: McpTool) -> ToolDefinition:
    definition = ToolDefinition.from_schema(
        f"{server.name}.{tool.name}", tool.description, tool.input_schema, _handler(server, tool),
        traits=_traits(tool, trusted=server.trust_annotations), owner=f"mcp:{server.name}",
        output_schema=_output_schema(tool),
    )  # fmt: skip
    claims = {**asdict(tool), "output_schema": ascii(tool.output_schema), "server": server.identity}
    return replace(definition, namespace=server.name, version=digest(claims))


def _output_schema(tool: McpTool) -> dict[str, Any] | None:
    """Return the schema of the value for code; None if it is unusable. It is only informative."""
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
        server.start()  # a restarted server may list other tools
        if tool not in server.listed:
            return ToolResult(full, success=False, error=_CHANGED)
        try:
            answer = server.answer(tool.name, arguments)
        except ToolExecutionError as error:
            return ToolResult(full, success=False, error=error.reason)
        return ToolResult(full, success=True, output=answer.value, told=answer.told, images=answer.images)

    return call


def _traits(tool: McpTool, *, trusted: bool) -> Traits:
    """Return the possible effects of a call. Without trust, only the server's warnings count."""
    if not trusted:
        return Traits(destructive=bool(tool.destructive), open_world=True)
    reads = bool(tool.read_only)  # missing hints have the defaults of MCP
    return Traits(reads, not reads and tool.destructive is not False, tool.open_world is not False)
