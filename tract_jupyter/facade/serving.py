"""MCP servers, whose tools are used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import McpError
from tract_jupyter.facade.tooling import Tooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.toolkit.mcp.client import McpServer


class Serving(Tooling):
    """The part of `Tract` that has MCP servers."""

    def add_mcp_server(
        self,
        name: str,
        command: Sequence[str] | None = None,
        **options: Any,
    ) -> McpServer:
        """Start an MCP server, or connect to one; its tools are `tools.NAME.tool` until it is removed or this closed.

        Its program may do all that you may do: add what you trust. It is not stored, so that no store starts programs.
        Calls of your own are made as they are; those of a model are asked about, as for all tools.

        Args:
            name: what it is called here: a Python name.
            command: the program and its arguments; left out, `url` says where a server over HTTP is.
            options: `url`, `env`, `cwd`, `headers`, `timeout`, `start_timeout`, `max_result` and `trust_annotations`;
                see `McpServer`.

        Raises:
            McpError: it cannot be started or reached, or the name is none or is taken.
        """
        from tract_jupyter.toolkit.mcp.client import McpServer

        server = McpServer(name, command, **options)
        if name in self._mcp.servers:
            raise McpError(f"there is an MCP server {name!r} already; remove_mcp_server({name!r}) ends it")
        self.executor.check_namespace(name)
        server.start()
        self._mcp.servers[name] = server
        return server

    @property
    def mcp_servers(self) -> dict[str, McpServer]:
        """The servers by name; those that ended are started again at the next call."""
        return dict(self._mcp.servers)

    def mcp_problems(self, name: str) -> dict[str, str]:
        """The tools of a server that cannot be used, and why.

        Raises:
            McpError: there is none of that name.
        """
        return dict(self._mcp.problems(name))

    def remove_mcp_server(self, name: str) -> None:
        """End a server, and take its tools away.

        Raises:
            McpError: there is none of that name.
        """
        self._mcp.remove(name)
