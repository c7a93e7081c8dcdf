"""`%tract_propose`: a model writes an operation. The user activates it in a panel, or sends it back with a reason."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tract_jupyter.concurrency import BY_PERSON, StopSignal, Worker
from tract_jupyter.exceptions import OperationError, in_one_line
from tract_jupyter.llm import HOW_TO_CHOOSE
from tract_jupyter.models import PendingStatus, counted, one_line, printable
from tract_jupyter.notebook.output import CellOutput
from tract_jupyter.notebook.script_cell import QUEUED, shown_above
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, element, table
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.prompts import operation_template

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.notebook.options import ProposeOptions
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.notebook.views.html import Html, HtmlPart
    from tract_jupyter.operations import WritingAttempt, WrittenOperation

_LINE: Final = 200
_ERROR: Final = 600
STOPPED: Final = "stopped by the user"


def check_text(options: ProposeOptions) -> None:
    """Check that there is a text, unless a template is requested."""
    if not options.text and not options.template:
        raise _refusal(
            'describe the operation: %tract_propose "check that every citation survives". '
            "Or use --template to write one yourself"
        )


def _refusal(why: str) -> OperationError:
    return OperationError(f"{why}. Nothing was sent")


async def propose(notebook: NotebookSession, options: ProposeOptions) -> None:
    """Ask the model for an operation and show the progress; or insert the template."""
    if options.template:
        _insert_template(notebook, options.text)
        return
    tract = notebook.tract
    if options.model is None and tract.llm is None and not tract.cassette.is_replaying:
        raise _refusal(f"no language model is configured; {HOW_TO_CHOOSE}. --template needs no model")
    stop = StopSignal()
    view = _ProgressView(notebook, WritingProgress(options.text))

    def work() -> WrittenOperation:
        with nullcontext() if options.model is None else tract.models.lent(options.model):
            if not tract.cassette.is_replaying:
                tract.models.check()
            view.begin()
            return tract.operations.write(
                options.text, tries=options.tries, versions=options.versions, observer=view, stop=stop,
                triggered_by="%tract_propose",
            )  # fmt: skip

    written = await _finish(notebook, work, view, stop)
    if options.out:
        notebook.shell.user_ns[options.out] = written
    if not written.is_active and not stop.is_set():
        raise shown_above(OperationError(f"there is no operation: {one_line(written.note, _LINE)}"))


async def _finish(
    notebook: NotebookSession, work: Callable[[], WrittenOperation], view: _ProgressView, stop: StopSignal
) -> WrittenOperation:
    try:
        written = await _result(notebook, work, view, stop)
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        view.end(f"{STOPPED}; nothing was activated")
        in_one_line(error, QUEUED)
        raise
    except Exception as error:
        view.end(f"failed: {one_line(str(error), _ERROR)}")
        if view.is_up:
            shown_above(error)
        raise
    view.end(written.note, written)
    return written


async def _result(
    notebook: NotebookSession, work: Callable[[], WrittenOperation], view: _ProgressView, stop: StopSignal
) -> WrittenOperation:
    """Do the work, in a separate thread if the cell can await it."""
    if not notebook.front_end.has_kernel:  # prompts and Ctrl-C belong to the main thread
        return work()
    worker = Worker(work, "tract-propose")
    try:
        return await worker.wait(view.beat)
    except asyncio.CancelledError:
        stop.set(BY_PERSON)
        await worker.ended()
        if worker.result is not None and worker.result.is_active:  # it was activated just before
            return worker.result
        raise


def _insert_template(notebook: NotebookSession, text: str) -> None:
    """Put the template into the next cell or prompt; print it if there is none."""
    template = operation_template(text)
    front_end = notebook.front_end
    if front_end.takes_input:
        notebook.shell.set_next_input(template.rstrip("\n"))
    if not (front_end.takes_input and front_end.has_kernel):
        print(template, end="")  # noqa: T201 # to be copied


# --- how it goes


@dataclass
class WritingProgress(View):
    """The progress of writing an operation: a line that unfolds to the refused and rejected attempts.

    Attributes:
        text: the task.
        number: the number of the request; 0 before the first one.
        version: the version that the model writes or the user reads.
        state: `run` while the model writes, `wait` while the user reads; `done`, `no` or `stop` at the end.
        characters: the length of the reply so far.
        note: the outcome.
        name: the name of the operation, at the end.
        tokens: the tokens of all requests; None if unknown.
        attempts: the replies that were refused or rejected.
    """

    text: str
    number: int = 0
    version: int = 1
    state: str = "run"
    characters: int = 0
    note: str = ""
    name: str = ""
    tokens: int | None = None
    attempts: list[WritingAttempt] = field(default_factory=list)

    def to_html(self) -> Html:
        """Return the line."""
        what, note = self._line()
        cells = [rows.icon(self.state), rows.said(what), rows.cut(note)]
        refused = sum(attempt.version is None for attempt in self.attempts)
        rejected = len(self.attempts) - refused
        cells += [rows.badge(f"{refused} refused", "no")] if refused else []
        cells += [rows.badge(f"{rejected} rejected", "no")] if rejected else []
        cells.append(rows.number(self._figures()))
        inner = rows.row(cells, self._attempts_html()) if self.attempts else rows.line(*cells)
        named = {"data_testid": "tract-writing", "data_state": self.state}
        return output_html(element("div", inner, class_="list", **named))

    def _attempts_html(self) -> HtmlPart:
        attempts = table(map(self._attempt_cells, self.attempts), ("Request", "", "Reply to the model"))
        return element("p", self.text), attempts

    def to_text(self) -> str:
        """Return the same in plain text."""
        what, note = self._line()
        lines = [f"{what} {note} ({self._figures()})"]
        lines += [" · ".join(filter(None, self._attempt_cells(attempt))) for attempt in self.attempts]
        return printable("\n".join(lines))

    def _attempt_cells(self, attempt: WritingAttempt) -> tuple[str, str, str]:
        if attempt.version is None:
            return str(attempt.number), "refused", one_line(attempt.problem, 2 * _LINE)
        return str(attempt.number), f"version {attempt.version} rejected", one_line(attempt.reason, 2 * _LINE)

    def _line(self) -> tuple[str, str]:
        task = f"“{one_line(self.text, _LINE)}”"
        if self.state == "run":
            size = f": {self.characters:,} characters" if self.characters else ""
            return f"The model writes version {self.version}{size}", task
        if self.state == "wait":
            return f"Version {self.version} waits for you", task
        if self.state == "done":
            return f"{self.name} is active", f"%tract_fire {self.name} fires it"
        return "No operation", self.note

    def _figures(self) -> str:
        requests = counted(max(self.number, 1), "request")
        return requests if not self.tokens else f"{requests}, {self.tokens:,} tokens"


class _ProgressView:
    """Shows the progress in an output that is updated, or line by line in a terminal."""

    def __init__(self, notebook: NotebookSession, progress: WritingProgress) -> None:
        self._progress = progress
        self._has_kernel = notebook.front_end.has_kernel
        self._output = CellOutput()
        self._drawn = ""
        self.is_up = False

    # --- as `operations.WritingObserver`; called in the worker thread

    def asking(self, number: int, version: int) -> None:
        """Show the number of the request."""
        self._progress.number, self._progress.version = number, version
        self._progress.state, self._progress.characters = "run", 0
        self._print(f"Asking the model for version {version}, request {number} …")

    def writing(self, characters: int) -> None:
        """Show the length of the reply."""
        self._progress.characters = characters

    def refused(self, attempt: WritingAttempt) -> None:
        """Show the problem of an attempt."""
        self._progress.attempts.append(attempt)
        self._print(f"Refused before your review: {one_line(attempt.problem, _LINE)}")

    def shown(self, attempt: WritingAttempt) -> None:
        """Show that the user has to decide."""
        self._progress.state, self._progress.version = "wait", attempt.version or 1

    def decided(self, attempt: WritingAttempt) -> None:
        """Keep an attempt that the user did not approve."""
        if attempt.pending is not None and attempt.pending.status is not PendingStatus.APPROVED:
            self._progress.attempts.append(attempt)

    # ---

    def begin(self) -> None:
        """Display the progress."""
        self.is_up = True
        if self._has_kernel:
            self._drawn = self._progress.to_text()
            self._output.put(self._progress)

    def beat(self) -> None:
        """Update the display. Called in the thread of the cell."""
        text = self._progress.to_text()
        if self.is_up and self._has_kernel and text != self._drawn:
            self._drawn = text
            self._output.put(self._progress)

    def end(self, note: str, written: WrittenOperation | None = None) -> None:
        """Show the outcome."""
        if not self.is_up:
            return
        self._progress.note = note
        self._progress.state = "stop" if note.startswith(STOPPED) else "no"
        if written is not None:
            self._progress.tokens = written.tokens
            if written.is_active and written.spec is not None:
                self._progress.state, self._progress.name = "done", written.spec.name
        self.beat()
        self._print(self._progress.to_text().partition("\n")[0])

    def _print(self, text: str) -> None:
        if not self._has_kernel:
            sys.stdout.write(f"{printable(text)}\n")
            sys.stdout.flush()
