"""Displays of a turn without widgets: static HTML at its end, or text that is printed as it comes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from IPython.display import display

if TYPE_CHECKING:
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.chat.view import TurnView


class StaticDisplay:
    """A turn in one output as static HTML, where every drawing stays: only its end is drawn."""

    ready = False
    """Nobody can click here."""

    def __init__(self) -> None:
        self._is_closed = False

    def put_up(self) -> None:
        """Do nothing: the end displays it."""

    def draw(self, view: TurnView, *, at_once: bool = False) -> None:
        """Do nothing: the end displays it."""

    def close(self, view: TurnView) -> None:
        """Draw the end."""
        if not self._is_closed:
            self._is_closed = True
            display(bundle(view), raw=True)


def bundle(view: TurnView) -> dict[str, str]:
    """Return a turn as what IPython displays; never as Markdown, whose scripts would run in a live cell."""
    return {"text/html": str(view.html()), "text/plain": view.text()}


class TextDisplay:
    """A turn in a terminal: what is new is printed, and stays.

    Called in the thread of the cell alone.
    """

    ready = False

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        """How much of each part is printed, in characters."""
        self._done: set[str] = set()
        self._is_in_line = False
        self._closed = False

    def put_up(self) -> None:
        """Do nothing: what comes is printed."""

    def draw(self, view: TurnView, *, at_once: bool = False) -> None:  # noqa: ARG002 # each piece is printed
        """Print what is new."""
        turn: DrawnTurn = view  # type: ignore[assignment] # only ours are drawn here
        for part_id, text, is_over in turn.lines():
            if part_id in self._done:
                continue
            printed = self._said.get(part_id, 0)
            if not printed and text and self._is_in_line:
                self._write("\n")
            if len(text) > printed:
                self._write(text[printed:])
                self._said[part_id] = len(text)
            if is_over:
                self._done.add(part_id)
                if text:
                    self._write("\n")

    def close(self, view: TurnView) -> None:
        """Print the rest, and the foot."""
        if self._closed:
            return
        self._closed = True
        self.draw(view)
        turn: DrawnTurn = view  # type: ignore[assignment] # the same
        if self._is_in_line:
            self._write("\n")
        foot = turn.foot_text()
        if foot:
            self._write(f"[{foot}]\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_in_line = not text.endswith("\n")
