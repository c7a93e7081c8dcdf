"""The client of the running cell: a front end of a kernel, a terminal, or none. It is probed, never guessed."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from tract_jupyter.storage import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell


class FrontEnd:
    """Observations of the client that runs the current cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._kernel: Any = getattr(shell, "kernel", None)
        self._was_live = False
        self._was_live = self.takes_input  # for the cell that loads the extension

    @property
    def has_kernel(self) -> bool:
        """True in a Jupyter kernel, which can display outputs and widgets."""
        return self._kernel is not None

    @property
    def takes_input(self) -> bool:
        """True if `input()` reaches a user. nbclient and papermill do not allow it."""
        if self._kernel is None:
            return sys.stdin is not None and sys.stdin.isatty()
        request = self._request()
        if request.get("header", {}).get("msg_type") != "execute_request":
            return False
        allowed = bool(request.get("content", {}).get("allow_stdin"))
        self._was_live = self._was_live or allowed
        return allowed

    @property
    def is_headless(self) -> bool:
        """True if a runner without a user executes this: a kernel whose cells take no input.

        A kernel that ever ran a cell with input belongs to a user, even if extensions also run cells in it.
        """
        if self._kernel is None or self.takes_input or self._was_live:
            return False
        request = self._request()
        is_cell = request.get("header", {}).get("msg_type") == "execute_request"
        return is_cell and request.get("content", {}).get("allow_stdin") is False

    @property
    def is_unattended(self) -> bool:
        """True if no user is available, now or later: a headless kernel, or IPython without a terminal."""
        return self.is_headless if self.has_kernel else not self.takes_input

    @property
    def in_callback(self) -> bool:
        """True if this handles a message of a widget. Waiting for another message would never end."""
        return str(self._request().get("header", {}).get("msg_type", "")).startswith("comm_")

    @property
    def cell_id(self) -> str:
        """The id of the running cell; empty if the front end does not report it. JupyterLab and VS Code do."""
        cell = self._request().get("metadata", {}).get("cellId")
        return cell if isinstance(cell, str) else ""

    @property
    def can_click(self) -> bool:
        """True if a user may see a panel that is displayed now."""
        return self.has_kernel and (self.takes_input or self.in_callback)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the kernel's main thread; None if it is unknown."""
        return getattr(getattr(self._kernel, "io_loop", None), "asyncio_loop", None)

    @interrupts.protected_context
    def interruptible(self) -> Iterator[None]:
        """Let the stop button end code that blocks the event loop, also in a cell with an `await`.

        In such a cell, an interrupt only cancels the cell's task, and the blocked loop never does it. This method
        raises CancelledError, because a KeyboardInterrupt from a task ends the kernel.
        """
        before = interrupts.handler()
        only_cancels = callable(before) and before is not signal.default_int_handler
        is_main = threading.current_thread() is threading.main_thread()
        if self._kernel is None or not only_cancels or not is_main:
            yield
            return
        interrupts.handle_with(signal.default_int_handler)
        try:
            yield
        except KeyboardInterrupt as error:
            cancelled = asyncio.CancelledError("interrupted")
            cancelled.__dict__.update(error.__dict__)  # keep its display hooks
            raise interrupts.as_order(cancelled) from None
        finally:
            interrupts.handle_with(before)

    def _request(self) -> dict[str, Any]:
        if self._kernel is None:
            return {}
        try:
            request: dict[str, Any] = self._kernel.get_parent() or {}
        except Exception:  # noqa: BLE001 # any error of the kernel means that nothing is known
            return {}
        return request


def honour_the_front_ends_subshell(comm: Any) -> None:
    """Let a click reach a kernel whose main thread is blocked.

    ipykernel 7.4 sends the messages of a comm to the shell that last published on it, which is the blocked one. None
    makes it use the subshell that the front end requested. The attribute is private. Without it, a panel does not
    report `ready`, and the prompt replaces it.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = None  # noqa: SLF001 # see above
