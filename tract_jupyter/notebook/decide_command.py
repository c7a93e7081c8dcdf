"""`%tract decide`: look at what waits and decide it in a line of text, wherever a cell can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from IPython.display import display

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models.text import one_line
from tract_jupyter.models.type_text import type_text
from tract_jupyter.notebook.command import Command, when
from tract_jupyter.notebook.display import View
from tract_jupyter.notebook.panels.text import record
from tract_jupyter.review.prompt import read_line
from tract_jupyter.review.request_text import how_to_decide

if TYPE_CHECKING:
    from tract_jupyter.models.parameters import Parameter
    from tract_jupyter.notebook.channels import NotebookChannel
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.request import ReviewAction
    from tract_jupyter.review.ticket import Ticket
    from tract_jupyter.storage.pendings import StoredPending
    from tract_jupyter.tract import Tract

_USAGE = "decide [ID] [ACTION [values]]"
_MOST = 1_000
_TITLE = 60  # characters of it in a list
_SHORTEST = 4
"""Letters of an id that are enough, where no other one begins so."""


def _decide(session: Session, words: list[str]) -> View | None:
    """Show a request in full and ask about it, or take the answer that stands in the line."""
    (line,) = words or [""]
    tract = session.tract
    stored, rest = _found(tract, line.strip())
    if stored is None:
        return View("Nothing waits for a decision.")
    ticket = tract.reviewer.taken_up(_pending(tract, stored))
    channel = cast("NotebookChannel", tract.reviewer.channel)
    with channel.in_text(ticket):
        if rest and _take(session, ticket, rest):
            told = True
        else:
            channel.print_in_full(ticket)
            told = not rest and tract.reviewer.ask_by_typing(ticket)
    return _came_of_it(tract, ticket, told=told)


def _take(session: Session, ticket: Ticket, rest: str) -> bool:
    """Have the answer carried out. False if it would approve what was not shown in full yet.

    Raises:
        OperationError: it cannot be read, or came too late.
    """
    tract = session.tract
    answer = read_line(ticket, rest)
    action = ticket.request.action(answer.action)
    is_rejection = action is not None and action.style == "reject"
    if not is_rejection and not cast("NotebookChannel", tract.reviewer.channel).was_printed(ticket):
        return False
    # a runner types nothing: what stands in a cell that it runs is code
    if not tract.reviewer.answer(ticket, answer, "code" if session.front_end.is_headless else "command"):
        raise OperationError(
            "nothing was decided: somebody else decided first, or it changed since it was shown"
        )
    return True


def _came_of_it(tract: Tract, ticket: Ticket, *, told: bool) -> View | None:
    """How it stands now; where it is open, what to type next."""
    if not ticket.status.is_open:
        display(record(ticket), raw=True)
        waiting = tract.reviewer.ledger.count_waiting()
        return View(f"{waiting:,} more wait: %tract decide shows the oldest.") if waiting else None
    if told:
        return (
            None
            if not ticket.request.note
            else View(ticket.request.title, tuple(ticket.request.note.splitlines()))
        )
    line = how_to_decide(ticket.pending.pending_id)
    lines = tuple(f"{line} {_form(action)}" for action in ticket.request.actions)
    return View("Nothing is decided yet. Type one of these in a cell:", lines)


def _form(action: ReviewAction) -> str:
    parameters = list(action.parameters)
    if len(parameters) == 1 and action.style == "reject":
        return f"{action.name} {parameters[0].name.upper()}"
    return " ".join([action.name, *map(_placeholder, parameters)])


def _placeholder(parameter: Parameter) -> str:
    text = f"{parameter.name}={type_text(parameter.annotation)}"
    return text if parameter.required else f"[{text}]"


# --- which one


def _found(tract: Tract, line: str) -> tuple[StoredPending | None, str]:
    """What a line is about, and the rest of it: an id may be left out where one waits; without words, it is the oldest.

    Raises:
        OperationError: nothing, or more than one, begins so.
    """
    waiting = tract.inbox(_MOST)
    first, _, rest = line.partition(" ")
    if not first:
        return (waiting[0] if waiting else None), ""
    begun = [stored for stored in waiting if stored.pending_id.startswith(first.lower())]
    if len(begun) == 1 and len(first) >= _SHORTEST:
        return begun[0], rest.strip()
    if len(waiting) == 1 and not begun:
        return waiting[0], line
    raise OperationError(_which(first, waiting, [stored.pending_id[:8] for stored in begun]))


def _pending(tract: Tract, stored: StoredPending) -> Reviewable:
    """The very one that code has in its hands, if it was asked here."""
    return tract.reviewer.asked_here(stored.pending_id) or tract.operations.rebuild(stored)


def _which(first: str, waiting: list[StoredPending], begun: list[str]) -> str:
    what = f"{first!r} is the beginning of no request that waits"
    if begun:
        what = f"{first!r} is not enough: type {_SHORTEST} letters or more of {', '.join(begun)}"
    listed = "; ".join(f"{stored.pending_id[:8]} {one_line(stored.title, _TITLE)}" for stored in waiting[:10])
    return f"{what}. Waiting: {listed or 'nothing'}. %tract {_USAGE} is how it is used"


def waiting_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers after `%tract decide` and the words that are `given`: ids, then actions."""
    if not given:
        return [
            (stored.pending_id[:8], f"{one_line(stored.title, _TITLE)}, {when(stored.created_at)}")
            for stored in tract.inbox()
        ]
    stored, rest = _found(tract, " ".join(given))
    if stored is None or rest:
        return []
    request = _pending(
        tract, stored
    ).review_request()  # no ticket: to look at what could be typed asks nobody
    return [(action.name, "action") for action in request.actions]


DECIDE = Command(
    _USAGE,
    "decide what waits by typing, with a panel or without; the oldest if no ID is given",
    _decide,
    ("waiting",),
    whole_line=True,
)
