"""The other side of this cell: a kernel's front end, a terminal, or nobody. It is probed, never guessed."""

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
    """Observations of the front end that runs the current cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._kernel: Any = getattr(shell, "kernel", None)
        self._was_live = False
        self._was_live = self.takes_input  # of the cell that loads the extension

    @property
    def has_kernel(self) -> bool:
        """True if a Jupyter kernel runs this, so that displays and widgets go somewhere."""
        return self._kernel is not None

    @property
    def takes_input(self) -> bool:
        """True if `input()` reaches a person. nbclient and papermill say no."""
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
        """True if a runner without a person executes this: a kernel whose cells say that they take no input.

        A kernel that ever ran a cell which took input is somebody's own, whatever extensions run in it beside.
        """
        if self._kernel is None or self.takes_input or self._was_live:
            return False
        request = self._request()
        is_cell = request.get("header", {}).get("msg_type") == "execute_request"
        return is_cell and request.get("content", {}).get("allow_stdin") is False

    @property
    def is_unattended(self) -> bool:
        """True if nobody can be asked, now or later: a headless kernel, or an IPython without a terminal."""
        return self.is_headless if self.has_kernel else not self.takes_input

    @property
    def in_callback(self) -> bool:
        """True if this runs for a widget's message, where waiting for another message would never end."""
        return str(self._request().get("header", {}).get("msg_type", "")).startswith("comm_")

    @property
    def cell_id(self) -> str:
        """The id of the cell that runs, where the front end tells it: JupyterLab and VS Code do."""
        told = self._request().get("metadata", {}).get("cellId")
        return told if isinstance(told, str) else ""

    @property
    def can_click(self) -> bool:
        """True if a panel that this puts up may have somebody before it."""
        return self.has_kernel and (self.takes_input or self.in_callback)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the kernel's main thread; None where none is known."""
        return getattr(getattr(self._kernel, "io_loop", None), "asyncio_loop", None)

    @interrupts.whole_context
    def interruptible(self) -> Iterator[None]:
        """Let the stop button end what keeps the main thread from its event loop, in a cell with an `await`, too.

        While such a cell runs, an interrupt has the loop cancel the cell's task, and the loop never gets to that. What
        is raised is CancelledError all the same: a KeyboardInterrupt that comes out of a task ends the kernel.
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
            cancelled.__dict__.update(error.__dict__)  # how it is to be shown
            raise interrupts.as_order(cancelled) from None
        finally:
            interrupts.handle_with(before)

    def _request(self) -> dict[str, Any]:
        """Return the message that the kernel is working on."""
        if self._kernel is None:
            return {}
        try:
            request: dict[str, Any] = self._kernel.get_parent() or {}
        except Exception:  # noqa: BLE001 # whatever a kernel does here: then nothing is known
            return {}
        return request
