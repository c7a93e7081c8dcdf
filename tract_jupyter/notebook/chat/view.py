"""What a turn looks like: its blocks in order, and a foot that says what it is doing and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, Protocol

from tract_jupyter.notebook.views.html import element, fragment

if TYPE_CHECKING:
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.review import Ticket

Action = Literal["stop", "undo", "fork", "new", "ask"]
"""What can be done with a turn."""

ACTIONS: Final[dict[Action, str]] = {
    "stop": "Stop",
    "undo": "Undo this turn",
    "fork": "Fork from here",
    "new": "Start a new conversation",
    "ask": "Ask about each script again",
}
"""The words on the button of each action."""


@dataclass(frozen=True)
class TurnBlock:
    """A part of a turn's output, in order.

    Attributes:
        id: stable while it changes.
        html: made in the kernel; empty for a question that is open.
        ticket: a question: drawn live by the widget, and as its record in static HTML.
        kind: rows that follow each other stand in one list, `<div class="list">`; prose that follows stands in one
            `<div class="prose">`; all others stand alone.
    """

    id: str
    html: Html
    ticket: Ticket | None = None
    kind: Literal["prose", "row", "note", "question"] = "note"


def grouped_html(blocks: Iterable[TurnBlock]) -> Html:
    """Return blocks as HTML: rows that follow each other in one list, and so with prose."""
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
        html: what the turn is doing or how it ended, and what it took: `<span>`s.
        actions: what can be done with it now; buttons of a live page, absent in a saved one.
    """

    html: Html
    actions: tuple[Action, ...] = ()


class TurnView(Protocol):
    """A turn as it stands: a value."""

    @property
    def turn_id(self) -> str:
        """What names the turn: the hash of the commit with what the user said; empty until it is there."""
        ...

    @property
    def go_on(self) -> str:
        """What is typed to go on with it."""
        ...

    @property
    def is_over(self) -> bool:
        """True if nothing more comes by itself."""
        ...

    def blocks(self) -> list[TurnBlock]:
        """Return the parts, in order."""
        ...

    def foot(self) -> Foot:
        """Return the last line."""
        ...

    def html(self) -> str:
        """Return static HTML that stands alone: `<details>` rows, styles, no script."""
        ...

    def text(self) -> str:
        """Return the same as plain text."""
        ...


Act = Callable[[Action], "TurnView | None"]
"""Carries out what a button of the foot says, in the kernel's main thread; returns the turn as it stands then, None if
it is drawn by itself. Raises `TractError` with a sentence for the person."""


class TurnDisplay(Protocol):
    """Where a turn is on display. Called in any thread."""

    def put_up(self) -> None:
        """Display it for the first time, in the cell that runs."""
        ...

    def draw(self, view: TurnView, *, at_once: bool = False) -> None:
        """Show how the turn stands; not more often than a page can take, unless `at_once`."""
        ...

    def close(self, view: TurnView) -> None:
        """Show the end, as static HTML and plain text, never as `text/markdown`."""
        ...
