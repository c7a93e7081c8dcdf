"""What is on the other side of this cell: a kernel's front end, a terminal, or nobody. Probed, never guessed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class FrontEnd:
    """Observations of the front end that runs the current cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._kernel: Any = getattr(shell, "kernel", None)

    @property
    def has_kernel(self) -> bool:
        """Whether a Jupyter kernel runs this, so that displays and widgets go somewhere."""
        return self._kernel is not None

    @property
    def takes_input(self) -> bool:
        """Whether `input()` reaches a person. nbclient and papermill say no."""
        if self._kernel is None:
            return sys.stdin is not None and sys.stdin.isatty()
        request = self._request()
        if request.get("header", {}).get("msg_type") != "execute_request":
            return False
        return bool(request.get("content", {}).get("allow_stdin"))

    @property
    def in_callback(self) -> bool:
        """Whether this runs for a widget's message, where waiting for another message would never end."""
        return str(self._request().get("header", {}).get("msg_type", "")).startswith("comm_")

    def _request(self) -> dict[str, Any]:
        """The message that the kernel is working on."""
        if self._kernel is None:
            return {}
        try:
            request: dict[str, Any] = self._kernel.get_parent() or {}
        except Exception:  # noqa: BLE001 # whatever a kernel does here: then nothing is known
            return {}
        return request
