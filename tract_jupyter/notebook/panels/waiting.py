"""The line that says how many requests wait, on a live page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from tract_jupyter.notebook.panels.panel import ReviewWidget
from tract_jupyter.notebook.views.html import asset
from tract_jupyter.notebook.views.styles import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable


class WaitingButton(ReviewWidget):
    """A line with a button that leads to the first request on the page, or opens the inbox.

    Args:
        html: the line, safe.
        record: HTML and text for a page that is not live.
        open_inbox: is called if no request is on the page, in any thread.
    """

    _esm = "".join(map(asset, ("panels/common.js", "panels/rows.js", "panels/waiting.js")))
    _css = asset(LOOK)
    html = traitlets.Unicode("").tag(sync=True)

    def __init__(self, html: str, record: dict[str, str], open_inbox: Callable[[], None]) -> None:
        self._record = record
        self._open_inbox = open_inbox
        super().__init__(html=html)

    def take(self, content: dict[str, Any]) -> None:  # noqa: ARG002 # a click says no more
        """Open the inbox."""
        self._open_inbox()

    def fallback(self) -> dict[str, str]:
        """Return the line without the button."""
        return self._record

    def show(self, html: str, record: dict[str, str]) -> None:
        """Show another number of requests."""
        self._record = record
        self.html = html
