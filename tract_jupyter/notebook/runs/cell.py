"""The `%%tract_run` cell: make a run in a worker thread, and show it live."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import TYPE_CHECKING, Any

from tract_jupyter.concurrency import StopSignal, Worker
from tract_jupyter.exceptions import OperationError, RunError
from tract_jupyter.notebook.chat.cell import asked, check_model
from tract_jupyter.notebook.output import CellOutput, start_timer
from tract_jupyter.notebook.runs.prompt import inspected
from tract_jupyter.notebook.runs.view import RunView
from tract_jupyter.runs import RunOptions, RunStatus, RunTrigger, message_of, project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.notebook.options import RunCellOptions
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import RunEvent, RunResponse
    from tract_jupyter.tract import Tract


def ask(
    tract: Tract,
    text: str,
    options: RunCellOptions,
    on_event: Callable[[RunEvent], object],
    abort: StopSignal,
) -> RunResponse:
    """Send a message and get the reply. With an empty text, send the context without a new message.

    Raises:
        LLMConfigError: the model does not exist, or has no key. Nothing was committed.
        RunFailedError: the run failed or was aborted.
        UndecidedError: the run waits for the user.
        RunError: the profile does not exist, or is not active. Nothing was committed.
    """
    profiles = tract.profiles
    profile = profiles.active if options.profile is None else profiles.get(options.profile)
    arguments: dict[str, Any] = {"profile": profile, "on_event": on_event, "run": RunOptions(abort=abort)}
    with asked(tract, options.model) as named:
        if text:
            return tract.chat(text, **arguments, **named)
        trigger = RunTrigger.REGENERATE if options.regenerate else RunTrigger.GENERATE
        return tract.generate(trigger=trigger, **arguments, **named)


def view_of(tract: Tract, events: Sequence[RunEvent]) -> RunView:
    """Return the view of a run of this tract. An interrupted run has a hint how to resume it."""
    run = project(events)
    note = ""
    if run.root_hash is None and not tract.runs.is_active(run.run_id):
        run = tract.runs.get(run.run_id)  # its turn may have ended without it
    if run.status is RunStatus.RUNNING and not tract.runs.is_active(run.run_id):
        note = (
            "The run is unfinished, and its process has ended. "
            f"%tract run {run.run_id[:8]} --resume continues it and repeats no result."
        )
    return RunView(run, tuple(events), inspected(run, tract), said=note)


async def run_cell(notebook: NotebookSession, text: str, options: RunCellOptions) -> None:
    """Send the cell to the model, and show the run."""
    text = text.strip()
    if options.regenerate and text:
        raise OperationError(
            "--regenerate makes another reply to the last message; leave the cell empty, or leave out --regenerate"
        )
    tract, abort = notebook.tract, StopSignal()
    if not text and tract.head is None:
        raise OperationError(
            "the cell and the context are empty. Write a message below %%tract_run. Nothing was sent"
        )
    check_model(tract, options.model)
    display = RunDisplay(shows_all=notebook.front_end.has_kernel)
    worker = Worker(lambda: ask(tract, text, options, display, abort), "tract-run")
    try:
        response = await worker.wait(display.refresh)
    except asyncio.CancelledError:
        abort.set()
        await worker.ended()
        raise _stopped(tract, worker, display) from None
    except BaseException:
        close(tract, display)
        raise
    close(tract, display)
    if options.out:
        notebook.shell.user_ns[options.out] = response


def close(tract: Tract, display: RunDisplay) -> None:
    """Draw the final state of the run."""
    display.close(view_of(tract, display.events) if display.events else None)


def _stopped(tract: Tract, worker: Worker[RunResponse], display: RunDisplay) -> RunError:
    """Return the error of a stopped run. A run with a blocking call stays on display until it ends."""
    if worker.is_running:
        return RunError(
            "the run is stopping, but waits for a call that cannot be interrupted. The output above shows the end "
            "when the call returns"
        )
    close(tract, display)
    try:
        worker.outcome()
    except RunError as error:
        return error
    except Exception as error:  # noqa: BLE001 # the stop is the more useful message
        return RunError(f"the run was stopped: {message_of(error)}")
    return RunError("the run had already ended before it could stop")


_SECONDS = 0.3
_BEAT = 1.0
_END = "run.finished"
_ASKED = "A request needs a decision. The run continues afterwards."


class RunDisplay:
    """An observer of a run, `on_event=RunDisplay()`, that shows it in the output of its cell.

    It draws at most once per interval. An event that comes too early is drawn at the end of the interval, and the
    last event at once.
    """

    def __init__(self, events: Iterable[RunEvent] = (), *, shows_all: bool = True) -> None:
        self._shows_all = shows_all
        self._events: list[RunEvent] = list(events)
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._drawn_at: float | None = None
        self._is_closed = False
        self._output = CellOutput()

    @property
    def events(self) -> list[Any]:
        """All events of the run so far."""
        with self._lock:
            return list(self._events)

    def __call__(self, event: RunEvent) -> None:
        """Add an event, and draw it now or soon."""
        with self._lock:
            if self._is_closed:
                return
            self._events.append(event)
            if event.type == _END:
                self._draw()
            elif self._shows_all:
                self._draw_when_due()

    def refresh(self) -> None:
        """Redraw a running run, so its time advances. The waiting code calls this."""
        with self._lock:
            is_shown = self._drawn_at is not None and self._shows_all and not self._is_closed
            if is_shown and time.monotonic() - (self._drawn_at or 0.0) >= _BEAT:
                self._draw()

    def close(self, view: Any = None) -> None:
        """Draw the final state, or `view` instead, and ignore later events."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._cancel_timer()
            if view is not None:
                self._put(view)
            elif self._events:
                self._draw()

    def _draw_when_due(self) -> None:
        if self._timer is not None:
            return
        rest = 0.0 if self._drawn_at is None else self._drawn_at + _SECONDS - time.monotonic()
        if rest <= 0:
            self._draw()
            return
        context = contextvars.copy_context()  # its displays belong to the cell
        self._timer = start_timer(rest, context.run, self._is_due)

    def _is_due(self) -> None:
        with self._lock:
            # a cancelled timer may have started already
            if self._timer is not None and not self._is_closed:
                self._draw()

    def _draw(self) -> None:
        self._cancel_timer()
        run = project(self._events)
        note = _ASKED if run.status is RunStatus.WAITING else ""
        self._put(RunView(run, tuple(self._events), now=time.time(), said=note))

    def _put(self, view: Any) -> None:
        self._output.put(view)
        self._drawn_at = time.monotonic()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
