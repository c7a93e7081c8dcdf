"""The button in the line that says how many requests wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from tract_jupyter.notebook.panels.panel import ReviewWidget
from tract_jupyter.notebook.views.html import asset

if TYPE_CHECKING:
    from collections.abc import Callable


class WaitingButton(ReviewWidget):
    """Makes the number in a static line a button: it leads to the first request on the page, or opens the inbox.

    The widget has no display, so a saved notebook has only the static line.

    Args:
        line: names the line.
        open_inbox: is called if no request is on the page, in any thread.
    """

    _esm = asset("panels/waiting.js")
    line = traitlets.Unicode("").tag(sync=True)

    def __init__(self, line: str, open_inbox: Callable[[], None]) -> None:
        self._open_inbox = open_inbox
        super().__init__(line=line)

    def take(self, content: dict[str, Any]) -> None:  # noqa: ARG002 # a click says no more
        """Open the inbox."""
        self._open_inbox()
