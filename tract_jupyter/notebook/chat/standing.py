"""Finished turns on display. Their last lines change when another cell undoes or continues a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, TractError

if TYPE_CHECKING:
    from tract_jupyter.loop import PastTurn
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.chat.view import TurnDisplay
    from tract_jupyter.tract import Tract


class TurnsOnDisplay:
    """The finished turns of a notebook, with the actions that each one still offers."""

    def __init__(self) -> None:
        self._turns: dict[TurnDisplay, tuple[Tract, DrawnTurn]] = {}
        self._position: tuple[str | None, str | None] | None = None

    def add(self, tract: Tract, display: TurnDisplay, turn: DrawnTurn) -> None:
        """Keep a display up to date from now on, if it has buttons, or will have them when its page is ready."""
        if turn.turn_id and hasattr(display, "ready"):
            self._turns[display] = tract, turn
        self._position = None

    def said(self, display: TurnDisplay, turn: DrawnTurn) -> None:
        """Store the current view of a display."""
        if display in self._turns:
            self._turns[display] = self._turns[display][0], turn

    def tell(self, display: TurnDisplay, text: str) -> None:
        """Show a note in the footer of a finished turn. May be called in any thread."""
        if display in self._turns and _is_ready(display):
            tract, turn = self._turns[display]
            self._turns[display] = tract, replace(turn, said=text)
            display.close(self._turns[display][1])

    def refresh(self, _result: object = None) -> None:
        """Redraw the turns whose actions have changed."""
        try:
            self._refresh()
        except TractError:  # the next use of the store reports it; a finished cell must not fail
            return

    def _refresh(self) -> None:
        if not self._turns:
            return
        tract = next(iter(self._turns.values()))[0]
        position = tract.head, tract.current_branch
        if position == self._position:
            return
        self._position = position
        current = {turn.question: turn for turn in tract.loop.turns()}
        for display, (of, turn) in list(self._turns.items()):
            now = _standing(of, turn, current)
            if now != turn and _is_ready(display):
                self._turns[display] = of, now
                display.close(now)


def _is_ready(display: TurnDisplay) -> bool:
    return bool(getattr(display, "ready", False))


def _standing(tract: Tract, turn: DrawnTurn, current: dict[str, PastTurn]) -> DrawnTurn:
    """Return the turn with its current state on the current branch."""
    from tract_jupyter.notebook.chat.source import find_turn

    past = current.get(turn.turn_id)
    if past is not None:
        return replace(turn, is_undone=False, is_last=past.is_last)
    try:
        find_turn(tract, turn.turn_id)
    except OperationError:  # no branch has it
        return turn.undone()
    return replace(turn, is_undone=False, is_last=False)
