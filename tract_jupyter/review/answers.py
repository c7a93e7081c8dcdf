"""Carry out answers that came over a channel or were recorded, and report the results."""

from __future__ import annotations

import traceback
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import DecidedFirstError, TractError
from tract_jupyter.models import cut_middle
from tract_jupyter.review.decision import RECORDED, Answer, deciding
from tract_jupyter.review.streams import Stream, captured, real_stream
from tract_jupyter.storage import protected_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.review.channel import Ticket
    from tract_jupyter.review.lock import RecordedDecisions

_check: ContextVar[Callable[[], None] | None] = ContextVar("_check", default=None)


@protected_context
def checking(check: Callable[[], None]) -> Iterator[None]:
    """Call a check periodically in waits of this thread or task. The check raises to end the wait."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_wait() -> None:
    """Run the check of this thread or task, if there is one. It raises to end the wait."""
    check = _check.get()
    if check is not None:
        check()


_pauses: ContextVar[tuple[Callable[[], AbstractContextManager[object]], ...]] = ContextVar(
    "_pauses", default=()
)


@protected_context
def pausing(pause: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Enter `pause()` whenever this block waits for the user. Then the wait does not count.

    It also applies to blocks within this block, and to copies of its context.
    """
    token = _pauses.set((*_pauses.get(), pause))
    try:
        yield
    finally:
        _pauses.reset(token)


@contextmanager
def paused() -> Iterator[None]:
    """Wait for the user within this block."""
    with ExitStack() as stack:
        for pause in _pauses.get():
            stack.enter_context(pause())
        yield


_MAX_OUTPUT = 10_000


def dispatch(ticket: Ticket, answer: Answer, channel: str) -> str:
    """Call `carry_out`, capture the printed output for the record, and return the note for the next round."""
    with capturing(ticket):
        return carry_out(ticket, answer, channel)[0]


def carry_out(ticket: Ticket, answer: Answer, channel: str) -> tuple[str, Any]:
    """Carry out an answer that came over a channel.

    Return the note for the next round, and the return value of the action.
    """
    pending, rounds = ticket.pending, ticket.pending.rounds
    refused, ticket.refused = ticket.refused, 0
    try:
        with deciding(channel, answer.decided_by, shown=ticket.request.fingerprint):
            result = pending.execute_tool(answer.action, answer.arguments)
    except Exception as error:  # noqa: BLE001 # the author's code may raise anything; the panel shows it
        if isinstance(error, DecidedFirstError):
            return str(error), None
        if pending.rounds == rounds and isinstance(error, TractError):
            ticket.refused = refused + 1
            return f"Nothing was run: {error}", None
        return f"{_author_traceback(error)}\n{pending.note}".rstrip(), None
    return pending.note, result


class _Printed:
    """An output sink for the output of an action. Errors still go to the screen."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, kind: Stream, text: str) -> None:
        """Store standard output. Write errors to the real stream."""
        if kind == "stdout":
            self.parts.append(text)
        else:
            real_stream(kind).write(text)


@protected_context
def capturing(ticket: Ticket) -> Iterator[None]:
    """Capture printed output for the panel. In a front end, output of a click belongs to no cell."""
    printed = _Printed()
    try:
        with captured(printed):
            yield
    finally:
        if printed.parts:
            ticket.output = cut_middle("".join(printed.parts), _MAX_OUTPUT)


def _author_traceback(error: BaseException) -> str:
    """Format the exception with the author's own lines only."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<action:")]
    lines = [f"{f.filename}, line {f.lineno}: {f.line or ''}" for f in frames]
    return "\n".join([*lines, *(line.rstrip() for line in traceback.format_exception_only(error))])


def replay(ticket: Ticket, recorded: RecordedDecisions) -> str:
    """Carry out recorded decisions for a ticket, round by round, until it is settled or none is available.

    Returns:
        Why the ticket is not settled, with a remedy. Empty if it is settled.
    """
    pending, note = ticket.pending, ""
    while pending.status.is_open:
        if ticket.request.fingerprint != pending.fingerprint:  # code changed it since it was shown
            ticket.new_round(note)
        entry = recorded.take(pending.identity)
        if entry is None:
            why = f"{note} {recorded.why_not(pending)}".strip()
            ticket.new_round(f"It stays open, because no user is available here and {why}.")
            return f". Recorded decisions: {why}. To record one, decide it in a live notebook, then '%tract record'"
        answer = Answer(entry.action, entry.arguments, ticket.round_id, decided_by=entry.decided_by)
        note = dispatch(ticket, answer, RECORDED)
        ticket.new_round(note)
    return ""
