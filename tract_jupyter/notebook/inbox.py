"""The inbox in a front end with widgets: several waiting requests in one output, a page at a time."""

from __future__ import annotations

import contextvars
import secrets
from typing import TYPE_CHECKING, cast

from IPython.display import display, update_display

from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.command import when
from tract_jupyter.notebook.panels.batch import Batch, Row, Stuck

if TYPE_CHECKING:
    from tract_jupyter.notebook.channels import NotebookChannel
    from tract_jupyter.storage.pendings import StoredPending
    from tract_jupyter.tract import Tract

PAGE = 20


class Inbox:
    """One output that lists the waiting requests and takes the answers to them.

    Args:
        tract: whose.
        left: name, reason and command of stored things that are neither active nor in the inbox.
    """

    def __init__(self, tract: Tract, left: tuple[tuple[str, str, str], ...]) -> None:
        from tract_jupyter.notebook.panels.batch_panel import BatchPanel

        self._tract = tract
        self._channel = cast("NotebookChannel", tract.reviewer.channel)
        self._display_id = secrets.token_hex(16)
        self._context = contextvars.copy_context()  # of the cell, for what follows from a click
        self._last: StoredPending | None = None
        self._is_shown = False
        self._recorded = 0
        self.batch = Batch(tract.reviewer.ledger.count_waiting(), left)
        self._read_page()
        self._panel = BatchPanel(self.batch, self._turn_soon)

    def show(self) -> None:
        """Display the first page."""
        display(self._panel, display_id=self._display_id)
        self._is_shown = True

    @property
    def ready(self) -> bool:
        """Whether the panel's script has run somewhere."""
        return self._is_shown and bool(self._panel.ready)

    def refresh(self) -> None:
        """Show how things stand now; when all is decided, the record takes the panel's place."""
        if not self._is_shown:
            return
        self._panel.refresh()
        if self.batch.is_settled:
            record = {"text/html": self.batch.record_html(), "text/plain": self.batch.record_text()}
            update_display(record, raw=True, display_id=self._display_id)
        elif self.batch.is_quiet and self.batch.decided != self._recorded:
            self._recorded = self.batch.decided
            update_display(
                self._panel, display_id=self._display_id
            )  # a saved notebook keeps what stands beside it

    # ---

    def _turn_soon(self, by: int) -> None:
        self._channel.soon(lambda: self._turn(by), self._context)

    def _turn(self, by: int) -> None:
        wanted = self.batch.shown + by
        if wanted == len(self.batch.pages) and not self.batch.is_last:
            self._read_page()
        self.batch.shown = min(max(wanted, 0), len(self.batch.pages) - 1)
        self.refresh()

    def _read_page(self) -> None:
        ledger = self._tract.reviewer.ledger
        waiting = ledger.waiting(PAGE + 1, self._last)  # one more, to know whether there is a next page
        self.batch.is_last, page = len(waiting) <= PAGE, waiting[:PAGE]
        self._last = page[-1] if page else self._last
        rows = [row for row in map(self._row, page) if row is not None]
        if rows or not self.batch.pages:
            self.batch.pages.append(rows)

    def _row(self, stored: StoredPending) -> Row | None:
        try:
            with self._channel.gathering(self):
                ticket = self._tract.reviewer.show_again(self._tract.operations.rebuild(stored))
        except TractError as error:
            self.batch.stuck.append(stuck(stored, error))
            return None
        return Row(stored, ticket)


def stuck(stored: StoredPending, error: TractError) -> Stuck:
    """What waits and cannot be shown, with the reason."""
    return Stuck(stored.pending_id, stored.title, str(error), when(stored.created_at))
