"""A run on the screen while it goes on: its events come from the coordinator's thread, and are drawn now and then."""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from IPython.display import display, update_display

from tract_jupyter.notebook.runs.run_view import RunView
from tract_jupyter.runs.terms import RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.notebook.runs.picture import Event
    from tract_jupyter.runs.model import Run

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
