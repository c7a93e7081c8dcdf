"""The notebook's channel: a panel in the cell's output, and a prompt where panels do not work."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import secrets
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError
from IPython.display import display, update_display

from tract_jupyter.exceptions import StoreClosedError
from tract_jupyter.notebook.panels.render import record_html, record_text, request_text
from tract_jupyter.notebook.prompt import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.front_end import FrontEnd
    from tract_jupyter.notebook.panels.panel import Panel
    from tract_jupyter.review.decision import Answer
    from tract_jupyter.review.recorded import Recorded
    from tract_jupyter.review.ticket import Ticket

PROBE_SECONDS = 3.0
"""How long a panel's front end has to say that it is there, before a prompt takes its place."""

WATCH_SECONDS = 0.5
"""How often an idle kernel looks whether others decided what it shows."""

_logger = logging.getLogger(__name__)


class _Shown:
    """Where a ticket is on display, and in which circumstances it was put there."""

    def __init__(self, panel: Panel | None) -> None:
        self.panel = panel
        self.printed_round = ""
        """The round that stands on the terminal in full, and need not be printed again for the prompt."""
        self.display_id = secrets.token_hex(16)
        self.context = contextvars.copy_context()  # of the cell, so that later output belongs to it


class NotebookChannel:
    """Reaches the person at this notebook or terminal."""

    name = "notebook"

    def __init__(self, front_end: FrontEnd, recorded: Recorded | None = None) -> None:
        self._front_end = front_end
        self._recorded = recorded
        self._shown: dict[str, _Shown] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def can_reach(self) -> bool:
        """A person can answer if this cell takes input, and does not itself run for a click."""
        return self._front_end.takes_input and not self._front_end.in_callback

    def recorded(self) -> Recorded | None:
        """Those of the lock file, in headless runs; never where there is a person, or was."""
        return self._recorded if self._front_end.is_headless else None

    def show(self, ticket: Ticket) -> None:
        """Put the ticket on display, or bring what is on display up to date."""
        shown = self._shown.get(ticket.pending.pending_id)
        if shown is None:
            self._put_up(ticket)
            return
        if shown.panel is not None:
            shown.panel.refresh()
        if not ticket.status.is_open:
            # The saved notebook keeps the record. The live panel stays too, for a page that was reloaded.
            update_display(_record(ticket), raw=True, display_id=shown.display_id)

    def forget(self, ticket: Ticket) -> None:
        """Show the request in a new place the next time; the old panel stays as it is, and its clicks still count."""
        self._shown.pop(ticket.pending.pending_id, None)

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:
        """Whether the panel's script has run somewhere and reached this kernel, or still has time to."""
        shown = self._shown.get(ticket.pending.pending_id)
        if shown is None or shown.panel is None:
            return False
        return bool(shown.panel.ready) or waited < PROBE_SECONDS

    def prompt(self, ticket: Ticket, *, may_wait: bool = False) -> Answer | None:
        """Ask by `input()`."""
        if not self._front_end.takes_input:
            return None
        try:
            self._print_request(ticket)
            return ask(ticket, may_wait=may_wait)
        except (StdinNotImplementedError, EOFError):
            return None

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:
        """Run it in a fresh task of the kernel's loop, as if the cell that shows the panel went on."""
        shown = self._shown.get(ticket.pending.pending_id)
        if self._loop is None or self._loop.is_closed() or shown is None:
            run()
        else:
            self._loop.call_soon_threadsafe(self._start, run, shown.context.copy())

    def watch(self, look: Callable[[], bool]) -> bool:
        """Look from the kernel's own loop, between cells."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return False
        loop.call_later(WATCH_SECONDS, self._look, loop, look)
        return True

    def _look(self, loop: asyncio.AbstractEventLoop, look: Callable[[], bool]) -> None:
        try:
            go_on = look()
        except StoreClosedError:
            return
        except Exception:  # the store may be locked for once
            _logger.exception("the store could not be looked at")
            go_on = True
        if go_on:
            loop.call_later(WATCH_SECONDS, self._look, loop, look)

    def _start(self, run: Callable[[], None], context: contextvars.Context) -> None:
        task = asyncio.get_running_loop().create_task(_logged(run), context=context)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    def _print_request(self, ticket: Ticket) -> None:
        shown = self._shown.get(ticket.pending.pending_id)
        if shown is None or shown.printed_round != ticket.round_id:
            print(request_text(ticket))  # noqa: T201 # a terminal's display; a prompt's conversation
        if shown is not None:
            shown.printed_round = ticket.round_id

    def _put_up(self, ticket: Ticket) -> None:
        front_end = self._front_end
        if not front_end.has_kernel:
            self._shown[ticket.pending.pending_id] = _Shown(None)
            self._print_request(ticket)
            return
        panel = None
        if front_end.takes_input or front_end.in_callback:  # headless: a live panel would never be clicked
            from tract_jupyter.notebook.panels.panel import Panel

            panel = Panel(ticket)
            self._loop = _running_loop() or self._loop
        shown = self._shown[ticket.pending.pending_id] = _Shown(panel)
        content: Any = panel if panel is not None else _record(ticket)
        display(content, raw=panel is None, display_id=shown.display_id)


async def _logged(run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:
        _logger.exception("a decision could not be carried out")


def _record(ticket: Ticket) -> dict[str, str]:
    return {"text/html": record_html(ticket), "text/plain": record_text(ticket)}


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
