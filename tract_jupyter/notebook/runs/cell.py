"""What `%%tract_run` does with a cell: have it answered in a worker thread, and show the run while it goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, RunFailedError
from tract_jupyter.notebook.runs.calls import ask, inspected, project
from tract_jupyter.notebook.runs.live import RunDisplay
from tract_jupyter.notebook.runs.run_view import RunView
from tract_jupyter.notebook.worker import Worker

if TYPE_CHECKING:
    from tract_jupyter.notebook.runs.calls import RunOptions
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.runs.model import Run


async def run_cell(session: Session, text: str, options: RunOptions, out: str = "") -> None:
    """Answer what the cell says, and show the run.

    Args:
        session: of the notebook.
        text: the cell; empty to have the context answered as it stands.
        options: of the run.
        out: a variable for the response.

    Raises:
        OperationError: the cell and its options do not go together.
        RunFailedError: the run failed or was aborted; it is on display.
    """
    text = text.strip()
    if options.regenerate and text:
        raise OperationError(
            "--regenerate makes another reply to what was said last; leave the cell empty, or leave out --regenerate"
        )
    tract = session.tract
    display = RunDisplay(project, shows_all=session.front_end.has_kernel)
    worker = Worker(lambda: ask(tract, text, options, display), "tract-run")
    worker.start()
    try:
        response = await worker.wait(display.refresh)
    except RunFailedError as error:
        display.close(_final(error.run))
        raise
    except asyncio.CancelledError:
        await worker.ended()
        display.close()
        raise
    except BaseException:
        display.close()
        raise
    display.close(_final(response.run))
    if out:
        session.shell.user_ns[out] = response


def _final(run: Run | None) -> RunView | None:
    return None if run is None else RunView(run, inspection=inspected(run))
