"""The notebook's tract as an MCP server, for agents of other programs on this machine.

Approved code runs in line with the user's cells. A client of the kernel's own connection sends an execute request, as a
front end does. So the code waits behind earlier cells, never runs within a cell that awaits, shows the kernel as busy,
and ends with the stop button. The request only has a random ticket. This process keeps the approved work of each
ticket, so no other sender can run code with one.
"""

from __future__ import annotations

import atexit
import contextvars
import json
import secrets
import threading
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from IPython.display import display

from tract_jupyter.exceptions import McpStartError, OperationError
from tract_jupyter.models import admin_limits
from tract_jupyter.prompts import RUN_CODE, VARIABLES
from tract_jupyter.scripts import ScriptResult
from tract_jupyter.toolkit import READ_ON, ServedAs, ToolConfig, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.toolkit import HttpServer, McpService, ServerAddress


T = TypeVar("T")
_LOOK_SECONDS = 0.1
_REDEEM = "__import__('tract_jupyter.notebook.serving', fromlist=['redeem']).redeem({ticket!r})"


class _Work:
    """Work that waits for its turn, with the context of its caller."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self.ended = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the work. Its caller gets the result or the error."""
        try:
            self.result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 # the waiting thread raises it
            self.error = error
        finally:
            self.ended.set()


_waiting: dict[str, _Work] = {}


def redeem(ticket: str) -> None:
    """Run the approved work of a ticket. It is valid once."""
    work = _waiting.pop(ticket, None)
    if work is None:
        raise OperationError("this ticket is not valid; only an approved call of this kernel has one")
    work.run()


class ShellLane:
    """The way for approved code of outside calls into the kernel's main thread."""

    def __init__(self, shell: InteractiveShell) -> None:
        if getattr(shell, "kernel", None) is None:
            raise OperationError("this needs a Jupyter kernel; IPython in a terminal has none")
        self._lock = threading.Lock()
        self._is_closed = False
        self._context: Any = None
        self._socket: Any = None
        self._session: Any = None

    def run(self, work: Callable[[], T], /) -> T:
        """Run work when the earlier cells have ended, and return its result."""
        if threading.current_thread() is threading.main_thread():
            return work()  # a cell of the user carries it out
        task, ticket = _Work(work), secrets.token_urlsafe(32)
        _waiting[ticket] = task
        try:
            with self._lock:
                self._carry_out(task, ticket)
        finally:
            _waiting.pop(ticket, None)
            if self._is_closed:
                self.close()
        if task.error is not None:
            raise task.error
        result: T = task.result
        return result

    def close(self) -> None:
        """Close the connection, or let the thread of the last waiting work close it: only one thread may use it."""
        self._is_closed = True
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._socket is not None:
                self._socket.close(0)
                self._context.term()
                self._socket = None
        finally:
            self._lock.release()

    def _carry_out(self, task: _Work, ticket: str) -> None:
        """Send the ticket. The kernel drops queued requests if a cell fails, so send it again then."""
        sent = self._send(ticket)
        while not task.ended.wait(_LOOK_SECONDS):
            if self._is_refused(sent) and ticket in _waiting:
                sent = self._send(ticket)

    def _send(self, ticket: str) -> str:
        if self._socket is None:
            self._connect()
        content = {
            "code": _REDEEM.format(ticket=ticket), "silent": True, "store_history": False, "user_expressions": {},
            "allow_stdin": False, "stop_on_error": False,
        }  # fmt: skip
        message = self._session.send(self._socket, "execute_request", content)
        return str(message["header"]["msg_id"])

    def _is_refused(self, sent: str) -> bool:
        """Return True if the kernel answered the request."""
        import zmq

        is_refused = False
        while True:
            try:
                _, reply = self._session.recv(self._socket, mode=zmq.NOBLOCK)
            except ValueError:  # such as a message with another signature
                continue
            if reply is None:
                return is_refused
            is_refused = is_refused or reply["parent_header"].get("msg_id") == sent

    def _connect(self) -> None:
        import zmq
        from ipykernel.connect import get_connection_file
        from jupyter_client.session import Session

        info = json.loads(Path(get_connection_file()).read_text())
        self._session = Session(key=info["key"].encode(), signature_scheme=info["signature_scheme"])
        joined = "-" if info["transport"] == "ipc" else ":"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(f"{info['transport']}://{info['ip']}{joined}{info['shell_port']}")


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
        """Start to serve, and return the address. The SDK is imported in the server's thread."""
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
    """The endpoint of a kernel for all programs of this user. A file tells them its address and token."""

    url: str = ""
    file: Path | None = None

    def start(self) -> ServerAddress:
        """Start to serve, write the file, and return the address."""
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
