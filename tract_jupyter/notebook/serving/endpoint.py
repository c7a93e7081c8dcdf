"""The notebook's tract as an MCP server, for agents of other programs on this machine."""

from __future__ import annotations

import atexit
import contextvars
import secrets
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from IPython.display import display

from tract_jupyter.exceptions import McpStartError
from tract_jupyter.models import admin_limits
from tract_jupyter.notebook.serving.lane import ShellLane
from tract_jupyter.prompts import RUN_CODE, VARIABLES
from tract_jupyter.scripts import ScriptResult
from tract_jupyter.toolkit import READ_ON, ServedAs, ToolConfig, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.toolkit import HttpServer, McpService, ServerAddress


T = TypeVar("T")
_CODE: Final = "notebook_execute"
_VARIABLES: Final = "notebook_variables"
_CONTEXT: Final = (
    "status", "compile", "log", "diff", "get_commit", "list_branches", "list_tags", "query_by_tags",
    "query_by_text", READ_ON,
)  # fmt: skip
_PLACE: Final = {"backend": "kernel", "notebook_id": "user"}
SERVED: Final = (
    ServedAs("run_code", _CODE, _PLACE, RUN_CODE),
    ServedAs("variables", _VARIABLES, _PLACE, VARIABLES),
)
PROFILE: Final = ToolProfile(
    "kernel", dict.fromkeys((_CODE, _VARIABLES, *_CONTEXT), ToolConfig()), has_others=True
)
"""Code, variables, search of the context, and the user's tools and operations."""


class KernelEndpoint:
    """An MCP server for a notebook, with its own port and token. The requests about its calls appear in this cell.

    Args:
        notebook: the state of this kernel.
        is_of_turn: True for an agent that works in a turn of a cell. During its turn, approved code runs during that
            cell, as a model's script does, and not after it.

    Raises:
        AdminLimitError: the administrator's limits do not allow outside agents.
        OperationError: there is no kernel.
    """

    def __init__(self, notebook: NotebookSession, *, is_of_turn: bool = False) -> None:
        admin_limits().check_outside_agents()
        self._notebook = notebook
        self._is_of_turn = is_of_turn
        self._lane = ShellLane(notebook.shell)
        self._context = contextvars.copy_context()
        self._token = secrets.token_urlsafe(32)
        self._name = f"notebook_{secrets.token_hex(4)}"
        self._server: HttpServer | None = None

    @property
    def is_running(self) -> bool:
        """True while it serves."""
        return self._server is not None and self._server.is_running

    def start(self) -> ServerAddress:
        """Start to serve, and return the address. The SDK is imported in the server's thread.

        Raises:
            McpStartError: the SDK is missing, or the server does not start.
        """
        from tract_jupyter.toolkit import HttpServer

        self._notebook.lend_variables()
        self._server = HttpServer(self._service, self._token)
        self._server.start()
        return self._server.address(self._name)

    def move_here(self) -> None:
        """Show later requests in the output of the current cell."""
        self._context = contextvars.copy_context()

    def stop(self) -> None:
        """End the server. Requests of its clients stay in the inbox."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._lane.close()

    def _in_line(self, work: Callable[[], T], /) -> T:
        result = self._lane.run(work)
        if isinstance(result, ScriptResult) and not result.is_kept:  # the request shows kept output
            _show(result)
        return result

    def _in_turn(self, work: Callable[[], T], /) -> T:
        return work() if self._notebook.tract.outside.is_in_turn else self._in_line(work)

    def _copied_context(self) -> contextvars.Context:
        return self._context.copy()

    def _service(self) -> McpService:
        from tract_jupyter.toolkit import McpService, Surroundings

        in_line = self._in_turn if self._is_of_turn else self._in_line
        surroundings = Surroundings(self._copied_context, in_line, SERVED)
        return McpService(self._notebook.tract, PROFILE, None, surroundings)


def _show(result: ScriptResult) -> None:
    """Show the text and the figures of code that ran. The record of the request takes the text.

    Its other displays are shown while it runs.
    """
    if result.text:
        print(result.text, end="" if result.text.endswith("\n") else "\n")  # noqa: T201 # a cell's output
    for figure in result.figures:
        display({"image/png": b64encode(figure.data).decode(), "text/plain": "<Figure>"}, raw=True)


def _kernel_id() -> str:
    """Return Jupyter's id of this kernel, which is in the name of its connection file."""
    from ipykernel.connect import get_connection_file

    return Path(get_connection_file()).stem.removeprefix("kernel-")


class PublishedEndpoint(KernelEndpoint):
    """The endpoint of a kernel for all programs of this user. A file tells them its address and token.

    Attributes:
        url: the address; empty before the start.
        file: the file with the token; None before the start.
    """

    url: str = ""
    file: Path | None = None

    def start(self) -> ServerAddress:
        """Start to serve, write the file, and return the address.

        Raises:
            McpStartError: the SDK is missing, the server does not start, or the file cannot be written.
            StoreError: the store cannot be opened.
        """
        from tract_jupyter.toolkit import ServedKernel

        address = super().start()
        self.url = address.url
        try:
            self.file = ServedKernel.here(
                address.url, self._token, self._notebook.path, _kernel_id()
            ).publish()
        except McpStartError:
            super().stop()
            raise
        atexit.register(self._remove_file)
        return address

    def stop(self) -> None:
        """End the server, and remove the file."""
        self._remove_file()
        atexit.unregister(self._remove_file)
        super().stop()

    def _remove_file(self) -> None:
        if self.file is not None:
            with suppress(OSError):
                self.file.unlink(missing_ok=True)
