"""The interface for showing a turn: blocks and a footer with state and cost; and the displays without widgets.

These displays show static HTML at the end, or print text as it arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from IPython.display import display

from tract_jupyter.notebook.views.html import element, fragment

if TYPE_CHECKING:
    from tract_jupyter.notebook.agents.tree import DrawnTree
    from tract_jupyter.notebook.chat.turn import DrawnTurn
    from tract_jupyter.notebook.chat.undo import UndoPage
    from tract_jupyter.notebook.chat.widget import LiveTurn
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.review import Ticket

Action: TypeAlias = str
"""An action on a turn: a name of `ACTIONS`. With `:` and a number, it belongs to an item of the plan of an undo."""

ACTIONS: Final[dict[Action, str]] = {
    "stop": "Stop",
    "undo": "Undo this turn",
    "fork": "Fork from here",
    "cells": "Insert as cells",
    "new": "Start a new conversation",
    "ask": "Ask about each script again",
    "undo_all": "Undo all of this",
    "undo_chat": "Only the conversation",
    "undo_again": "Try again",
    "redo_all": "Redo all of this",
    "cancel": "Cancel",
    "force": "Restore anyway",
    "keep": "Keep it as it is",
}
"""The label on the button of each action."""


def label_of(action: Action) -> str:
    """Return the label of a button; empty if there is no such action."""
    return ACTIONS.get(action.partition(":")[0], "")


@dataclass(frozen=True)
class TurnBlock:
    """A part of a turn's output, in order.

    Attributes:
        id: stays the same while the block changes.
        html: made in the kernel; empty for an open request.
        ticket: the request of the block. The widget draws it live; static HTML has its record.
        kind: adjacent rows are in one `<div class="list">`, adjacent prose is in one
            `<div class="prose">`; other blocks have no group.
    """

    id: str
    html: Html
    ticket: Ticket | None = None
    kind: Literal["prose", "row", "note", "question"] = "note"


def grouped_html(blocks: Iterable[TurnBlock]) -> Html:
    """Return blocks as HTML, with adjacent rows in one list and adjacent prose in one element."""
    groups = groupby(blocks, lambda block: block.kind)
    return fragment(
        element("div", html, class_=_GROUPS[kind]) if kind in _GROUPS else html
        for kind, html in ((kind, [block.html for block in group]) for kind, group in groups)
    )


_GROUPS: Final = {"row": "list", "prose": "prose"}


@dataclass(frozen=True)
class Foot:
    """The last line of a turn.

    Attributes:
        html: the state of the turn, its time, tokens and cost, as `<span>` elements.
        actions: the available actions. A live page has buttons for them; a saved page has none.
    """

    html: Html
    actions: tuple[Action, ...] = ()


TurnView: TypeAlias = "DrawnTurn | DrawnTree | UndoPage"
"""The state of a turn, of the agents or of an undo, with its blocks and its last line."""

Act = Callable[[Action], "TurnView | None"]
"""Performs the action of a button in the kernel's main thread. Returns the new state of the turn; None if the turn
redraws itself. Raises `TractError` with a message for the user."""


TurnDisplay: TypeAlias = "StaticDisplay | TextDisplay | LiveTurn"
"""A display of a turn. `put_up` shows it in the running cell, `draw` its current state, and `close` its final state as
static HTML and plain text, never as `text/markdown`. Any thread may call them."""


# --- displays without widgets


class StaticDisplay:
    """A turn as one static output. Such outputs cannot be replaced, so only the final state is drawn."""

    ready = False
    """The user cannot click here."""

    def __init__(self) -> None:
        self._is_closed = False

    def put_up(self) -> None:
        """Do nothing. `close` displays the turn."""

    def draw(self, view: TurnView, *, at_once: bool = False) -> None:
        """Do nothing. `close` displays the turn."""

    def close(self, view: TurnView) -> None:
        """Draw the final state."""
        if not self._is_closed:
            self._is_closed = True
            display(view)


class TextDisplay:
    """A turn in a terminal. Each text is printed once.

    Only the thread of the cell may call it.
    """

    ready = False

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        """Printed characters of each part."""
        self._done: set[str] = set()
        self._is_in_line = False
        self._closed = False

    def put_up(self) -> None:
        """Do nothing. `draw` prints the text."""

    def draw(self, view: TurnView, *, at_once: bool = False) -> None:  # noqa: ARG002 # each piece is printed
        """Print new text."""
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
        """Print the rest, and the footer."""
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
