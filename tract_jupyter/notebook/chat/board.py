"""The display of a running turn, in a live page, a static output or a terminal, and the wait for its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, TypeVar

from tract_jupyter.concurrency import Worker
from tract_jupyter.exceptions import UndecidedError, in_one_line
from tract_jupyter.loop import CallAsked, CallBegan, ReplyStored, TurnBegan
from tract_jupyter.models import TurnOutcome
from tract_jupyter.notebook.chat.outputs import TurnOutputs
from tract_jupyter.notebook.chat.view import StaticDisplay, TextDisplay
from tract_jupyter.notebook.script_cell import QUEUED, shown_above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.notebook.channels import NotebookChannel
    from tract_jupyter.notebook.chat.log import TurnLog
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.chat.view import Act, TurnDisplay
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.review import Ticket

T = TypeVar("T")
_LEAST_SECONDS: Final = 0.05
"""Minimum time between two drawings."""
_BEAT: Final = 1.0
"""Seconds between drawings if no event arrives. The elapsed time advances."""
_LOOKS: Final = 10
_LOOK_SECONDS: Final = 0.02


class TurnBoard:
    """Shows a turn, with its requests in its rows: a `channels.SharedDisplay`.

    Attributes:
        has_beat: True while a caller runs `beat` regularly. Then `beat` draws decisions, and tool calls do not wait.
    """

    def __init__(self, log: TurnLog, display: TurnDisplay) -> None:
        self.log = log
        self.display = display
        self.has_beat = False
        self._lock = threading.RLock()
        self._is_up = False
        self._is_dirty = False
        self._is_closed = False
        self._drawn_at = 0.0
        self._dirty_at = 0.0
        self._context = contextvars.copy_context()

    @property
    def ready(self) -> bool:
        """True if the user can click in the display."""
        return bool(getattr(self.display, "ready", False))

    @property
    def is_up(self) -> bool:
        """True after the first drawing."""
        return self._is_up

    def add(self, ticket: Ticket) -> None:
        """Show a question."""
        self.log.show(ticket)
        self.draw(at_once=True)

    def refresh(self) -> None:
        """Show the current state of the requests soon."""
        self.log.refresh()
        self._draw_with_beat(at_once=True)

    def take(self, event: TurnEvent) -> None:
        """Add the next event of the turn, and show it now or soon."""
        self.log.add(event)
        has_no_text = isinstance(event, ReplyStored) and not event.text
        if has_no_text or isinstance(event, (CallAsked, CallBegan)):  # most calls end before the next drawing
            self._draw_with_beat()
        else:
            self.draw(at_once=isinstance(event, TurnBegan))

    def stir(self, *, at_once: bool = False) -> None:
        """Show soon the new work of an agent or a script of the turn."""
        with self._lock:
            if self._is_up and not self._is_closed:
                self.draw(at_once=at_once)

    def beat(self) -> None:
        """Draw pending changes. The caller that waits for the turn calls this regularly."""
        with self._lock:
            now = time.monotonic()
            is_due = self._is_dirty and now - self._dirty_at >= _LEAST_SECONDS
            if self._is_up and not self._is_closed and (is_due or now - self._drawn_at >= _BEAT):
                self.draw()

    def _draw_with_beat(self, *, at_once: bool = False) -> None:
        with self._lock:
            if self.has_beat and self._is_up and not self._is_closed:
                if not self._is_dirty:
                    self._is_dirty, self._dirty_at = True, time.monotonic()
            else:
                self.draw(at_once=at_once)

    def draw(self, *, at_once: bool = False) -> None:
        """Show the current state of the turn, at a limited rate."""
        with self._lock:
            if not at_once and time.monotonic() - self._drawn_at < _LEAST_SECONDS:
                self._is_dirty = True
                return
            if not self._is_up:
                self._is_up = True
                self._context.copy().run(self.display.put_up)
            self._is_dirty = False
            self._context.copy().run(self.display.draw, self.log.view(), at_once=at_once)
            self._drawn_at = time.monotonic()

    def close(self) -> DrawnTurn:
        """Show the final state."""
        with self._lock:
            view = self.log.view()
            if not self._is_up:  # a turn with an answer: no event has drawn it
                self._context.copy().run(self.display.put_up)
            self._is_up = self._is_closed = True
            self._context.copy().run(self.display.close, view)
            return view


async def ended(
    notebook: NotebookSession,
    work: Callable[[], T],
    board: TurnBoard,
    stop: Callable[[], object],
    what: str = "turn",
) -> T:
    """Wait for the end of a turn, and return its response.

    An interrupted cell fails, and the cells queued behind it do not run.

    Args:
        notebook: the state of this kernel.
        work: runs the turn, in a separate thread if there is a kernel.
        board: shows the turn.
        stop: stops the turn; called if the cell is interrupted.
        what: the user's word for the turn.

    Raises:
        CancelledError: the cell was interrupted; the turn was stopped, and its display says so.
        TractError: nothing was sent.
        Exception: the turn failed. Its display shows the error, and IPython only one line.
    """
    try:
        if not notebook.front_end.has_kernel:  # prompts and Ctrl-C belong to the main thread
            return work()
        worker = Worker(work, f"tract-{what}")
        board.has_beat = True
        try:
            return await worker.wait(board.beat)
        except asyncio.CancelledError as error:
            if board.log.view().waiting and await _is_shut_down(notebook):
                raise  # open requests stay open, and another kernel can resume the turn
            stop()
            await worker.ended()
            in_one_line(error, QUEUED)
            raise
        finally:
            board.has_beat = False
    except KeyboardInterrupt as error:
        in_one_line(error, QUEUED)
        raise
    except Exception as error:
        if board.log.has_ended:
            shown_above(error)
        stop()
        raise


def check_ended(outcome: TurnOutcome) -> None:
    """Raise an error for a turn that was stopped or that waits. Then the queued cells do not run.

    Raises:
        CancelledError: the turn was stopped.
        UndecidedError: calls wait for a decision, and no user is available here.
    """
    if outcome is TurnOutcome.STOPPED:
        error = asyncio.CancelledError()
        in_one_line(error, QUEUED)
        raise error
    if outcome is TurnOutcome.WAITING:
        why = "calls wait for a decision, and no user is available here. %tract inbox shows them"
        raise shown_above(UndecidedError(why), "Waits for decisions")


async def _is_shut_down(notebook: NotebookSession) -> bool:
    """Return True if the kernel shuts down. A restart interrupts the kernel first."""
    for _ in range(_LOOKS):
        if getattr(notebook.shell, "exit_now", False):
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


def display_for(notebook: NotebookSession, act: Act, log: TurnLog) -> TurnDisplay:
    """Return the display for a turn: a live page, static outputs or a terminal."""
    front_end = notebook.front_end
    if not front_end.has_kernel:
        return TextDisplay()
    if not front_end.can_click:
        return StaticDisplay()
    from tract_jupyter.notebook.chat.widget import LiveTurn

    channel: NotebookChannel = notebook.tract.reviewer.channel  # type: ignore[assignment] # a notebook's
    return LiveTurn(act, channel.soon, (log.show_again, log.turn.go_on))


@contextmanager
def showing_outputs(notebook: NotebookSession, board: TurnBoard) -> Iterator[None]:
    """Show the outputs of the scripts of a turn in its rows."""
    scripts = notebook.tract.scripts
    before = scripts.shown
    scripts.shown = TurnOutputs(
        notebook.shell, board.log.take_outputs, board.stir, has_widgets=notebook.front_end.can_click
    )
    try:
        yield
    finally:
        scripts.shown = before


def gathering(notebook: NotebookSession, board: TurnBoard) -> AbstractContextManager[None]:
    """Show requests in the rows of the turn if the user can click there."""
    if not notebook.front_end.can_click:
        return nullcontext()
    channel: NotebookChannel = notebook.tract.reviewer.channel  # type: ignore[assignment] # a notebook's
    return channel.gathering(board)
