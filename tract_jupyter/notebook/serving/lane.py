"""Approved code in line with the user's cells.

A client of the kernel's own connection sends an execute request, as a front end does. So the code waits behind earlier
cells, never runs within a cell that awaits, shows the kernel as busy, and ends with the stop button. The request only
has a random ticket. This process keeps the approved work of each ticket, so no other sender can run code with one.
"""

from __future__ import annotations

import contextvars
import json
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tract_jupyter.exceptions import OperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

T = TypeVar("T")
_LOOK_SECONDS = 0.1
_CODE = "__import__('tract_jupyter.notebook.serving.lane', fromlist=['redeem']).redeem({ticket!r})"


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
    """Run the approved work of a ticket. It is valid once.

    Raises:
        OperationError: there is no such ticket.
    """
    work = _waiting.pop(ticket, None)
    if work is None:
        raise OperationError("this ticket is not valid; only an approved call of this kernel has one")
    work.run()


class ShellLane:
    """The way for approved code of outside calls into the kernel's main thread.

    Args:
        shell: the shell of IPython, in a kernel.

    Raises:
        OperationError: the shell does not run in a kernel.
    """

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
            "code": _CODE.format(ticket=ticket), "silent": True, "store_history": False, "user_expressions": {},
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
