"""The effects of proposed code, shown at the cells after the diffs.

An edit changes only text, so the effects inform the user and are never kept. All new code of a request runs in order on
one contained copy of the kernel, in a thread. The decision about the request ends it.
"""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import TractError
from tract_jupyter.models import counted, one_line
from tract_jupyter.review import list_effects
from tract_jupyter.toolkit import CHAT, CallNotes, changed_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.notebook.cells.edits import Edit
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.rehearsal import Effects

DELAY: Final = 0.5
"""Seconds after the request. The page draws the diffs first."""
_LONGEST: Final = 300


class EditEffects:
    """The rehearsal of the newest request about edits.

    Args:
        notebook: the state of this kernel.
    """

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._stop = StopSignal()

    def begin(self, edits: Sequence[Edit], tell: Callable[[list[str]], None]) -> None:
        """Rehearse the new code soon, and tell the effects as lines. This ends an earlier rehearsal."""
        self.end()
        codes = [edit.new for edit in edits if edit.has_new_code]
        if not codes or self._notebook.tract.scripts.rehearsing.rehearser is None:
            return
        self._stop = StopSignal()
        context = contextvars.copy_context()
        timer = threading.Timer(DELAY, context.run, [self._rehearse, codes, self._stop, tell])
        self._stop.on_set(timer.cancel)
        timer.daemon = True
        timer.start()

    def end(self) -> None:
        """End the rehearsal. It tells nothing after this."""
        self._stop.set()

    def _rehearse(self, codes: list[str], stop: StopSignal, tell: Callable[[list[str]], None]) -> None:
        try:
            with changed_context(notes=CallNotes(stop=stop), effects=None, take_call=None):
                lines = self._lines(codes)
        except TractError as error:  # such as a magic, or a closed store
            lines = [f"Not rehearsed: {one_line(str(error), _LONGEST)}"]
        if not stop.is_set():
            tell(lines)

    def _lines(self, codes: list[str]) -> list[str]:
        self._notebook.lend_variables()
        scripts: Any = self._notebook.tract.scripts
        run = scripts.prepare("\n\n".join(codes), notebook_id="user", author=CHAT)
        rehearsed = scripts.rehearse_run(run)
        if rehearsed.rehearsal is None:
            return [f"Not rehearsed: {one_line(rehearsed.why_not, _LONGEST)}"] if rehearsed.why_not else []
        rehearsed.rehearsal.discard()
        return _as_lines(rehearsed.rehearsal.effects, len(codes))


def _as_lines(effects: Effects, cells: int) -> list[str]:
    shown = list_effects(effects)
    where = f"The new code of {counted(cells, 'cell')} on a copy of the kernel"
    rows = [f"{line.mark} {line.name}  {line.text}" for line in (*shown.lines, *shown.more)]
    headline = effects.headline.replace("`", "")  # the page shows plain text
    return [f"{where}: {one_line(headline, _LONGEST)}", *(one_line(row, _LONGEST) for row in rows)]
