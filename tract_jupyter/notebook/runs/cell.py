"""What `%%tract_run` does with a cell: have it answered in a worker thread, and show the run while it goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, RunError
from tract_jupyter.notebook.runs.calls import ask, view_of
from tract_jupyter.notebook.runs.live import RunDisplay
from tract_jupyter.notebook.worker import Worker
from tract_jupyter.runs.abort import Abort
from tract_jupyter.runs.projection import project
from tract_jupyter.runs.safe_text import message_of

if TYPE_CHECKING:
    from tract_jupyter.models.generation import ChatResponse
    from tract_jupyter.notebook.runs.calls import CellOptions
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.tract import Tract


async def run_cell(session: Session, text: str, options: CellOptions, out: str = "") -> None:
    """Answer what the cell says, and show the run.

    Args:
        session: of the notebook.
        text: the cell; empty to have the context answered as it stands.
        options: of the run.
        out: a variable for the response.

    Raises:
        OperationError: the cell and its options do not go together.
        RunFailedError: the run failed or was aborted; it is on display. A `RunError` if it was stopped and goes on
            until a call comes back.
        UndecidedError: it waits for a person.
    """
    text = text.strip()
    if options.regenerate and text:
        raise OperationError(
            "--regenerate makes another reply to what was said last; leave the cell empty, or leave out --regenerate"
        )
    tract, abort = session.tract, Abort()
    display = RunDisplay(project, shows_all=session.front_end.has_kernel)
    worker = Worker(lambda: ask(tract, text, options, display, abort), "tract-run")
    worker.start()
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
    if out:
        session.shell.user_ns[out] = response


def close(tract: Tract, display: RunDisplay) -> None:
    """Show the run as it stands, and draw nothing more."""
    display.close(view_of(tract, display.events) if display.events else None)


def _stopped(tract: Tract, worker: Worker[ChatResponse], display: RunDisplay) -> RunError:
    """What to tell of a run that was told to stop. One that takes its time goes on to be shown until it ends."""
    if worker.is_running:
        return RunError(
            "the run was told to stop; the call that it waits for cannot be ended, so it ends when that comes back, "
            "and is shown above then"
        )
    close(tract, display)
    try:
        worker.outcome()
    except RunError as error:
        return error
    except Exception as error:  # noqa: BLE001 # that it was stopped says more
        return RunError(f"the run was stopped: {message_of(error)}")
    return RunError("the run was told to stop, and had come to its end")
