"""A progress bar for work of more than a second, in the cell or on the terminal. It disappears at the end.

Without an observer, no bar appears. Packages report their work with `working` of `tract_jupyter.models`.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.models import Work
    from tract_jupyter.notebook.front_end import FrontEnd
    from tract_jupyter.notebook.views.html import Html

_AFTER = 1.0
_EVERY = 0.5
_CELLS = 24

_is_inner: contextvars.ContextVar[bool] = contextvars.ContextVar("is_inner", default=False)


class InCell:
    """An output of the cell. It ends empty, so a saved notebook has no trace of it."""

    def __init__(self) -> None:
        from tract_jupyter.notebook.output import CellOutput

        self._output = CellOutput()

    def draw(self, work: Work, seconds: float) -> None:
        """Show the bar, or update it."""
        bundle = {"text/html": str(progress_html(work, seconds)), "text/plain": progress_text(work, seconds)}
        self._output.put(bundle, raw=True)

    def clear(self) -> None:
        """Empty the output."""
        self._output.put({"text/html": "", "text/plain": ""}, raw=True)


class OnTerminal:
    """A line of the terminal on stderr. It is erased at the end."""

    def draw(self, work: Work, seconds: float) -> None:
        """Overwrite the line."""
        sys.stderr.write(f"\r\x1b[2K{progress_text(work, seconds)}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Erase the line."""
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


ProgressPlace: TypeAlias = InCell | OnTerminal


def progress_place(front_end: FrontEnd) -> ProgressPlace | None:
    """Return the place for a bar that a user can see now; None without a user."""
    if front_end.has_kernel:
        return None if front_end.is_headless else InCell()
    return on_terminal()


def on_terminal() -> ProgressPlace | None:
    """Return the terminal of stderr; None if stderr is not a terminal."""
    return OnTerminal() if sys.stderr is not None and sys.stderr.isatty() else None


class ProgressBars:
    """An observer that shows the work of this process. Nested work belongs to the outer work and is not shown.

    `after` and `every` are seconds.
    """

    def __init__(
        self, place: Callable[[], ProgressPlace | None], after: float = _AFTER, every: float = _EVERY
    ) -> None:
        self._place = place
        self._after = after
        self._every = every

    @contextmanager
    def __call__(self, work: Work) -> Iterator[None]:
        """Show a piece of work during a `with` block, after the first second."""
        place = None if _is_inner.get() else self._place()
        if place is None:
            yield
            return
        bar = _Bar(work, place, self._every)
        token = _is_inner.set(True)
        bar.draw_in(self._after)
        try:
            yield
        finally:
            _is_inner.reset(token)
            bar.end()


class _Bar:
    """A bar on display. Timers draw it, because the working thread may be busy with one long step."""

    def __init__(self, work: Work, place: ProgressPlace, every: float) -> None:
        self._work, self._place, self._every = work, place, every
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._context = contextvars.copy_context()  # its displays belong to the cell
        self._timer: threading.Timer | None = None
        self._is_drawn = self._has_ended = False

    def draw_in(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._draw)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
            if self._timer is not None:
                self._timer.cancel()
            if self._is_drawn:
                self._context.run(self._place.clear)

    def _draw(self) -> None:
        with self._lock:
            if self._has_ended:
                return
            self._is_drawn = True
            self._context.run(self._place.draw, self._work, time.monotonic() - self._began)
            self.draw_in(self._every)


def progress_text(work: Work, seconds: float) -> str:
    """Return a line, with a bar of characters if the amount of work is known."""
    elapsed = f"{seconds:.0f} s"
    if not work.total:
        return f"{work.what} … {elapsed}"
    filled = round(_CELLS * _share(work))
    return f"{work.what} [{'#' * filled}{'·' * (_CELLS - filled)}] {work.done:,} of {work.total:,}, {elapsed}"


def progress_html(work: Work, seconds: float) -> Html:
    """Return the same as HTML."""
    from tract_jupyter.notebook.views import rows
    from tract_jupyter.notebook.views.styles import styled

    cells = [rows.icon("run"), rows.said(work.what)]
    if work.total:
        share = _share(work)
        cells.append(rows.meter(share, f"{100 * share:.0f} % of {work.what}"))
        cells.append(rows.number(f"{work.done:,} of {work.total:,}"))
    cells.append(rows.number(f"{seconds:.0f} s"))
    return styled(rows.page(rows.line(*cells), label=work.what, name="tract-progress"))


def _share(work: Work) -> float:
    return min(work.done / work.total, 1.0) if work.total else 0.0
