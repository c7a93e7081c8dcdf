"""The subcommands of `%tract` about runs."""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from IPython.display import display, update_display

from tract_jupyter.context.tokens import default_counter
from tract_jupyter.exceptions import OperationError, RunError
from tract_jupyter.models.text import one_line
from tract_jupyter.notebook.arguments import Command, limit, when
from tract_jupyter.notebook.channels import Worker
from tract_jupyter.notebook.runs.prompt import inspect_prompt
from tract_jupyter.notebook.runs.view import RunView
from tract_jupyter.notebook.views.html import Grid, View
from tract_jupyter.runs.engine import RunOptions
from tract_jupyter.runs.projection import project
from tract_jupyter.runs.reading import message_of
from tract_jupyter.runs.terms import OperationStatus, RunStatus, Trigger
from tract_jupyter.runs.workers import Abort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.models.config import ChatResponse
    from tract_jupyter.notebook.runs.picture import Event
    from tract_jupyter.notebook.runs.prompt import Inspection
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import Run
    from tract_jupyter.tract import Tract


@dataclass(frozen=True)
class CellOptions:
    """How a cell's run is to be made. None is what the tract says: its active profile, its model."""

    profile: str | None = None
    regenerate: bool = False
    model: str | None = None


def ask(
    tract: Tract, text: str, options: CellOptions, on_event: Callable[[RunEvent], object], abort: Abort
) -> ChatResponse:
    """Say something and have it answered; with an empty text, have the context answered as it stands.

    Raises:
        RunFailedError: the run failed or was aborted.
        UndecidedError: it waits for a person.
        RunError: there is no such profile, or it is not used; nothing is said then.
    """
    profiles = tract.profiles
    profile = profiles.active if options.profile is None else profiles.get(options.profile)
    given: dict[str, Any] = {"profile": profile, "on_event": on_event, "run": RunOptions(abort=abort)}
    given |= {} if options.model is None else {"model": options.model}
    if text:
        return tract.chat(text, **given)
    trigger = Trigger.REGENERATE if options.regenerate else Trigger.GENERATE
    return tract.generate(trigger=trigger, **given)


def view_of(tract: Tract, events: Sequence[RunEvent]) -> RunView:
    """A run of this tract with all that is known of it, and how to go on where it did not end."""
    run = project(events)
    said = ""
    if run.status is RunStatus.RUNNING and not tract.runs.is_going_on(run.run_id):
        said = (
            "It did not end, and nothing works on it: its process has ended. What was done is kept, and is not done "
            f"again: %tract run {run.run_id[:8]} --resume goes on with it."
        )
    return RunView(run, tuple(events), inspected(run, tract), said=said)


def inspected(run: Run, tract: Tract | None = None) -> Inspection:
    """The prompt of a run against the one without operations, with its tokens."""
    if tract is None:
        counter = default_counter()
        return inspect_prompt(run, counter.count_text, counter.name)
    count = tract.tokenizer.count_text
    return inspect_prompt(run, lambda text: tract.corrected(count(text)), tract.tokenizer.name)


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


_SECONDS = 0.3
_BEAT = 1.0
_END = "run.finished"
_ASKED = "A person has to decide; the run goes on with the answer."


class Later(Protocol):
    """Something that is to be done a little later."""

    def cancel(self) -> object:
        """Not to do it."""
        ...


class RunDisplay:
    """An observer of a run, `on_event=RunDisplay(project)`, that shows it in the output of the cell that made it.

    What it draws is at most so many seconds old, however events come: one that comes too soon after a drawing is drawn
    when its time has come. The last event of a run is drawn at once.

    Args:
        project: makes the run of its events so far.
        events: those that came before, of a run that goes on.
        seconds: the least time between two drawings.
        shows_all: False draws the end only, for a terminal, where every drawing stays.
        clock: gives seconds, from any beginning.
        now: gives the present, in seconds since the epoch.
        later: does something in so many seconds, in another thread.
    """

    def __init__(
        self,
        project: Callable[[Sequence[Any]], Run],
        events: Iterable[Event] = (),
        *,
        seconds: float = _SECONDS,
        shows_all: bool = True,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        later: Callable[[float, Callable[[], None]], Later] | None = None,
    ) -> None:
        self._project = project
        self._seconds = seconds
        self._shows_all = shows_all
        self._clock = clock
        self._now = now
        self._later = later or _on_a_timer
        self._events: list[Event] = list(events)
        self._lock = threading.RLock()
        self._waiting: Later | None = None
        self._drawn_at: float | None = None
        self._is_closed = False
        self._display_id = secrets.token_hex(16)

    @property
    def events(self) -> list[Any]:
        """All of the run's, so far."""
        with self._lock:
            return list(self._events)

    def __call__(self, event: Event) -> None:
        """Take note of an event, and draw it now or soon."""
        with self._lock:
            if self._is_closed:
                return
            self._events.append(event)
            if event.type == _END:
                self._draw()
            elif self._shows_all:
                self._draw_when_due()

    def refresh(self) -> None:
        """Draw what runs anew, so that its time goes on; for whoever waits for the run."""
        with self._lock:
            is_shown = self._drawn_at is not None and self._shows_all and not self._is_closed
            if is_shown and self._clock() - (self._drawn_at or 0.0) >= _BEAT:
                self._draw()

    def close(self, view: Any = None) -> None:
        """Draw the last state, or `view` instead, and nothing after it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._forget_waiting()
            if view is not None:
                self._put(view)
            elif self._events:
                self._draw()

    def _draw_when_due(self) -> None:
        if self._waiting is not None:
            return
        rest = 0.0 if self._drawn_at is None else self._drawn_at + self._seconds - self._clock()
        if rest <= 0:
            self._draw()
        else:
            self._waiting = self._later(rest, self._is_due)

    def _is_due(self) -> None:
        with self._lock:
            # one that was cancelled may have begun already
            if self._waiting is not None and not self._is_closed:
                self._draw()

    def _draw(self) -> None:
        self._forget_waiting()
        run = self._project(self._events)
        said = _ASKED if run.status is RunStatus.WAITING else ""
        self._put(RunView(run, tuple(self._events), now=self._now(), said=said))

    def _put(self, view: Any) -> None:
        if self._drawn_at is None:
            display(view, display_id=self._display_id)
        else:
            update_display(view, display_id=self._display_id)
        self._drawn_at = self._clock()

    def _forget_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _on_a_timer(seconds: float, action: Callable[[], None]) -> Later:
    # what it displays belongs to the cell
    timer = threading.Timer(seconds, contextvars.copy_context().run, (action,))
    timer.daemon = True
    timer.start()
    return timer


_NAME = 40
_REPLY = 60
_WAYS = ("--prompt", "--resume", "--replay")
_USAGE = "run [ID] [--prompt | --resume | --replay]"


def _runs(session: Session, words: list[str]) -> View:
    tract = session.tract
    rows = tuple(_run_row(tract, run) for run in tract.runs(limit("runs", words)))
    heads = ("Run", "Started", "Trigger", "Status", "Profile", "Done", "Time", "Reply")
    grid = Grid(heads, rows, code=frozenset({"Run"}), right=frozenset({"Done", "Time"}))
    told = "%tract run ID shows one of them." if rows else "None yet. %%tract_run makes one."
    return View("Runs", (told,), (grid,))


def _run_row(tract: Tract, run: Run) -> tuple[str, ...]:
    from tract_jupyter.notebook.runs.picture import duration
    from tract_jupyter.notebook.runs.view import standing

    is_open = run.status is RunStatus.RUNNING
    done = sum(one.status is OperationStatus.DONE for one in run.operations)
    took = (run.finished_at - run.started_at).total_seconds() if run.started_at and run.finished_at else None
    return (
        run.run_id[:8],
        when(run.started_at) if run.started_at else "",
        run.trigger.value,
        standing(run, is_interrupted=is_open and not tract.runs.is_going_on(run.run_id))
        + (f": {run.failed_type.value}" if run.failed_type else ""),
        one_line(run.profile or "", _NAME),
        f"{done:,} of {len(run.operations):,}" if run.operations else "",
        "" if took is None else duration(took * 1000),
        one_line(run.reply or "", _REPLY),
    )


def _run(session: Session, words: list[str]) -> Any:
    ways = [word for word in words if word in _WAYS]
    names = [word for word in words if word not in _WAYS]
    if len(ways) > 1 or len(names) > 1 or any(name.startswith("-") for name in names):
        raise OperationError(f"%tract {_USAGE} is how it is used; got run {' '.join(words)}")
    tract = session.tract
    run_id = names[0] if names else _newest(tract)
    if ways == ["--resume"]:
        return _resume(session, run_id)
    if ways == ["--replay"]:
        return _replay(tract, run_id)
    return _show(tract, run_id, only_prompt=bool(ways))


def _newest(tract: Tract) -> str:
    for run in tract.runs(1):
        return run.run_id
    raise OperationError("there are no runs yet; %%tract_run makes one")


def _show(tract: Tract, run_id: str, *, only_prompt: bool) -> Any:
    from tract_jupyter.notebook.runs.prompt import PromptView

    if only_prompt:
        return PromptView(inspected(tract.run(run_id), tract))
    return view_of(tract, tract.run_events(run_id))


def _resume(session: Session, run_id: str) -> None:
    from tract_jupyter.runs.projection import project

    tract = session.tract
    events = tract.run_events(run_id)
    display = RunDisplay(project, events, shows_all=session.front_end.has_kernel)
    try:
        tract.resume_run(run_id, on_event=display)
    finally:
        if len(display.events) > len(events):  # it was resumed, and not refused
            close(tract, display)


def _replay(tract: Tract, run_id: str) -> View:
    run = tract.replay_run(run_id)
    told = (
        "Nothing was executed, asked or written: what its operations and its main call gave was taken from the record, "
        "and planned, ordered and committed anew."
    )
    return View(
        f"Run {run.run_id[:8]}: the replay comes out the same",
        (told, f"Root hash: {run.root_hash or 'none'}"),
    )


def run_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers for a run's id."""
    if any(not word.startswith("-") for word in given):
        return []
    return [(run.run_id[:8], "run") for run in tract.runs()]


RUNS = {
    "runs": Command("runs [N]", "the newest runs: a model's call with the operations around it", _runs),
    "run": Command(
        _USAGE,
        "a run as a graph, the newest if left out; its prompt; go on with it; check it by a replay",
        _run,
        ("run", *_WAYS),
    ),
}
