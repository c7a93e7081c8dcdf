"""What `%%tract_script` does with a cell: run it in a worker thread, while the cell awaits and panels work."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.display import display

from tract_jupyter.exceptions import in_one_line
from tract_jupyter.notebook.script_view import LiveView, ResultView
from tract_jupyter.notebook.worker import Worker
from tract_jupyter.review.request import findings_text
from tract_jupyter.review.streams import current_keeper, real_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.notebook.session import Session
    from tract_jupyter.scripts.budget import Budget
    from tract_jupyter.scripts.result import OutputKind, ScriptResult
    from tract_jupyter.scripts.run import Run
    from tract_jupyter.scripts.runner import Backend

_REFRESHED_EVERY = 4  # heartbeats


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
    worker = Worker(lambda: _executed(session, run, fresh=options.fresh), "tract-script")
    view = LiveView(run)
    worker.start()
    try:
        result = await worker.wait(_Beats(view))
    except asyncio.CancelledError as error:
        in_one_line(error, "Interrupted: the script was stopped.")
        run.stopper.stop("interrupted")
        await worker.ended()
        if worker.result is not None:
            view.end(ResultView(worker.result, note))
        raise
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


class _Beats:
    """Refreshes a view every few heartbeats."""

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        if not self._count % _REFRESHED_EVERY:
            self._view.refresh()


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
        # what is asked, and what deciding displays, is no output of the script
        if message.get("msg_type") != "display_data" or current_keeper() is not run.capture:
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
