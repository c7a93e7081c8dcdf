"""What `%%tract_script` does with a cell: run it in a worker thread, while the cell awaits and panels work."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.display import display

from tract_jupyter.notebook.script_view import LiveView, ResultView
from tract_jupyter.review.request import findings_text
from tract_jupyter.scripts.streams import real_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.notebook.session import Session
    from tract_jupyter.scripts.budget import Budget
    from tract_jupyter.scripts.result import OutputKind, ScriptResult
    from tract_jupyter.scripts.run import Run
    from tract_jupyter.scripts.runner import Backend

_HEARTBEAT_SECONDS = 0.05
_REFRESHED_EVERY = 4  # heartbeats
_PATIENCE_SECONDS = 2.0  # for a script that was stopped


@dataclass(frozen=True)
class ScriptOptions:
    """How a cell's script is to run."""

    backend: Backend
    notebook_id: str | None
    fresh: bool
    anew: bool
    budget: Budget
    out: str


async def run_cell(session: Session, code: str, options: ScriptOptions) -> None:
    """Run a cell's code as a script, and show what came of it.

    Raises:
        ScriptFailedError: it cannot be run; nothing of it ran.
        ScriptRaisedError: it failed, was stopped, or took too long.
    """
    scripts = session.tract.scripts
    if session.shell.user_ns is not scripts.notebooks.user_namespace:
        scripts.notebooks.user_namespace = session.shell.user_ns
    run = scripts.prepare(
        code,
        backend=options.backend,
        notebook_id=options.notebook_id,
        budget=options.budget,
        live=_to_screen,
        first_line=2,
        anew=options.anew,
    )
    note = _findings(session, code)
    worker = _Worker(lambda: _executed(session, run, fresh=options.fresh))
    view = LiveView(run)
    worker.start()
    try:
        await _awaited(worker, view)
    except asyncio.CancelledError:
        run.stopper.stop("interrupted")
        await _ended(worker)
        if worker.result is not None:
            view.end(ResultView(worker.result, note))
        raise
    result = worker.outcome()
    _show_rest(run)
    if result.value is not None:
        display(result.value)
    view.end(ResultView(result, note))
    if options.out:
        session.shell.user_ns[options.out] = result
    result.check()


def _findings(session: Session, code: str) -> str:
    """How much the analysis found, in a sentence; advice, and nothing waits for it."""
    tract = session.tract
    block = tract.operations.advice.code_block("script", code, tools=tract.executor.tools())
    found = findings_text([block])
    return f"{found} %%tract_check shows more." if found else ""


class _Worker:
    """A thread in the cell's context, so that what it displays belongs to the cell."""

    def __init__(self, work: Callable[[], ScriptResult]) -> None:
        self.result: ScriptResult | None = None
        self._error: BaseException | None = None
        self._work = work
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="tract-script", daemon=True
        )

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def outcome(self) -> ScriptResult:
        """The result, or the error that kept the script from running."""
        if self.result is None:
            raise self._error or RuntimeError("the script's thread ended without a result")
        return self.result

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001 # raised again where the cell waits
            self._error = error


async def _awaited(worker: _Worker, view: LiveView) -> None:
    beats = 0
    while worker.is_running:
        await asyncio.sleep(_HEARTBEAT_SECONDS)
        beats += 1
        if not beats % _REFRESHED_EVERY:
            view.refresh()


async def _ended(worker: _Worker) -> None:
    """Wait a little for a script that was told to stop; one that waits in C may go on for longer."""
    for _ in range(int(_PATIENCE_SECONDS / _HEARTBEAT_SECONDS)):
        if not worker.is_running:
            return
        await asyncio.sleep(_HEARTBEAT_SECONDS)


def _executed(session: Session, run: Run, *, fresh: bool) -> ScriptResult:
    with _displays_captured(session.shell, run):
        return session.tract.scripts.execute(run, fresh=fresh)


@contextmanager
def _displays_captured(shell: InteractiveShell, run: Run) -> Iterator[None]:
    """Have what the script's thread displays kept in the result too; beyond the bound it does not reach the screen."""
    publisher: Any = shell.display_pub
    if not hasattr(publisher, "register_hook"):  # at a terminal
        yield
        return

    def hook(message: dict[str, Any]) -> dict[str, Any] | None:
        content = message.get("content", {})
        # what is asked is no output of the script
        if message.get("msg_type") != "display_data" or run.meter.is_waiting:
            return message
        data = content.get("data", {})
        return message if run.capture.show("display", str(data.get("text/plain", "")), data) else None

    publisher.register_hook(hook)
    try:
        yield
    finally:
        publisher.unregister_hook(hook)


def _to_screen(kind: OutputKind, text: str) -> None:
    real_stream("stderr" if kind == "stderr" else "stdout").write(text)


def _show_rest(run: Run) -> None:
    """What was too much to be shown as it came: that there was more, and its end."""
    for output in run.capture.rest():
        _to_screen(output.kind, output.text)
