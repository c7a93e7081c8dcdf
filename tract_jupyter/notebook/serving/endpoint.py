"""The notebook's tract as an MCP server, for agents of other programs on this machine."""

from __future__ import annotations

import contextvars
import secrets
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.notebook.serving.lane import ShellLane

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.toolkit import HttpServer, McpService


class KernelAddress(NamedTuple):
    """The address of a kernel for one MCP client.

    Attributes:
        url: the URL, on 127.0.0.1.
        headers: the HTTP headers with the token.
        name: the name of the server for the client. It is random, so no other server of the user has it.
    """

    url: str
    headers: dict[str, str]
    name: str


class KernelEndpoint:
    """An MCP server for a notebook, with its own port and token. The requests about its calls appear in this cell.

    Args:
        notebook: the state of this kernel.

    Raises:
        OperationError: there is no kernel.
    """

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._lane = ShellLane(notebook.shell)
        self._context = contextvars.copy_context()
        self._token = secrets.token_urlsafe(32)
        self._name = f"notebook_{secrets.token_hex(4)}"
        self._server: HttpServer | None = None

    @property
    def is_running(self) -> bool:
        """True while it serves."""
        return self._server is not None and self._server.is_running

    def start(self) -> KernelAddress:
        """Start to serve, and return the address. The SDK is imported in the server's thread.

        Raises:
            McpStartError: the SDK is missing, or the server does not start.
            StoreError: the store cannot be opened.
        """
        from tract_jupyter.toolkit import HttpServer

        self._notebook.lend_variables()
        self._server = HttpServer(self._service, self._token)
        self._server.start()
        return KernelAddress(self._server.url, {"Authorization": f"Bearer {self._token}"}, self._name)

    def stop(self) -> None:
        """End the server. Requests of its clients stay in the inbox."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._lane.close()

    def _service(self) -> McpService:
        from tract_jupyter.notebook.serving.tools import PROFILE, SERVED
        from tract_jupyter.toolkit import McpService, Surroundings

        surroundings = Surroundings(self._context, self._lane.run, SERVED)
        return McpService(self._notebook.tract, PROFILE, None, surroundings)
