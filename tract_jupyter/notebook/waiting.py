"""The line below a cell with the number of open requests, and the command that shows them."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from IPython.display import display

from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.output import CellOutput

if TYPE_CHECKING:
    from tract_jupyter.notebook.panels.panel import WaitingButton
    from tract_jupyter.notebook.session import NotebookSession

_NOTHING = {"text/plain": "", "text/html": ""}


class WaitingLine:
    """Shows the number of open requests below the newest cell that used the tract.

    A notebook has at most one such line. It has none if the cell shows all open requests itself, or without a user.

    Attributes:
        is_used: True if the running cell has used the tract.
        is_told: True if the cell itself reports the number of requests.
        cell_text: the text of the user's cell, without cells that code runs within it.
    """

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._cell = 0
        self._output: CellOutput | None = None
        self._count = 0
        self._button: WaitingButton | None = None
        self.is_used = False
        self.is_told = False
        self.cell_text = ""
        self._outer: Any = None

    def begin(self, info: Any = None) -> None:
        """Prepare for a new cell."""
        if self._outer is None:
            self._outer, self.cell_text = info, getattr(info, "raw_cell", None) or ""
        self._cell = self._notebook.shell.execution_count
        self.is_used = self.is_told = False

    def end(self, result: Any = None) -> None:
        """Show the number of open requests after a cell."""
        if result is None or result.info is self._outer:
            self._outer, self.cell_text = None, ""
        if not self.is_used or not self._cell:
            return
        if self._output is not None:  # the line of an earlier cell
            self._output.put(_NOTHING, raw=True)
        if self._button is not None:
            self._button.close()
        self._output, self._count, self._button = None, 0, None
        front_end = self._notebook.front_end
        count = 0 if self.is_told or not front_end.takes_input else self._left_open()
        if not count:
            return
        if not front_end.has_kernel:
            print(_text(count))  # noqa: T201 # a terminal's display
            return
        self._output, self._count = CellOutput(), count
        self._output.put(_bundle(count, self._output.display_id), raw=True)
        if front_end.can_click:
            self._button = self._make_button(self._output.display_id)

    def refresh(self) -> None:
        """Update the line after a request was added or decided."""
        if self._output is None:
            return
        count = self._left_open()
        if count != self._count:
            self._count = count
            self._output.put(_bundle(count, self._output.display_id) if count else _NOTHING, raw=True)

    def _make_button(self, line_id: str) -> WaitingButton:
        from tract_jupyter.notebook.channels import NotebookChannel
        from tract_jupyter.notebook.commands import run_command
        from tract_jupyter.notebook.panels.panel import WaitingButton

        context, channel = contextvars.copy_context(), self._notebook.tract.reviewer.channel

        def open_inbox() -> None:
            view = run_command(self._notebook, "inbox")
            if view is not None:
                display(view)

        def soon() -> None:
            if isinstance(channel, NotebookChannel):
                channel.soon(open_inbox, context)

        return WaitingButton(line_id, soon)

    def _left_open(self) -> int:
        """Return the number of open requests that the cell does not show; 0 if the store cannot be read."""
        from tract_jupyter.notebook.channels import NotebookChannel

        reviewer = self._notebook.tract.reviewer
        channel = reviewer.channel
        displayed = channel.open_in(self._cell) if isinstance(channel, NotebookChannel) else 0
        try:
            return max(reviewer.ledger.count_waiting() - displayed, 0)
        except TractError:  # reported at the next use of the store; a finished cell does not fail
            return 0


def _text(count: int) -> str:
    return f"{count:,} waiting: %tract inbox shows {'it' if count == 1 else 'them'}."


def _bundle(count: int, line_id: str) -> dict[str, str]:
    from tract_jupyter.notebook.views import rows
    from tract_jupyter.notebook.views.html import element
    from tract_jupyter.notebook.views.styles import output_html

    which = "it" if count == 1 else "them"
    command = element("code", "%tract inbox")
    cells = (
        rows.icon("wait"),
        element("b", f"{count:,} waiting"),
        element("span", command, f" shows {which}", class_="dim"),
    )
    named = {"data_testid": "tract-waiting", "data_waiting": line_id}
    html = output_html(element("div", cells, class_="line", **named))
    return {"text/plain": _text(count), "text/html": str(html)}
