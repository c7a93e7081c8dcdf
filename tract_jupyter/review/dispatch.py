"""Carrying an answer out: check that it fits what was shown, store the decision, run it, store the outcome."""

from __future__ import annotations

import contextlib
import copy
import io
import traceback
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError, FingerprintError, TractError
from tract_jupyter.review.decision import Answer, Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.ticket import Ticket

_MAX_OUTPUT = 10_000


class Dispatcher:
    """Carries answers out, for whatever code waited for them.

    Args:
        ledger: where decisions and outcomes are stored.
        check_current: raises `FingerprintError` if a pending's operation was replaced or removed since.
    """

    def __init__(self, ledger: Ledger, check_current: Callable[[Any], None]) -> None:
        self._ledger = ledger
        self._check_current = check_current

    def dispatch(self, ticket: Ticket, answer: Answer, channel: str) -> str:
        """Carry an answer out and return what the next showing should say about it."""
        try:
            decision = self._checked(ticket, answer, channel)
            if not self._ledger.decide(ticket, decision):
                return self._lost(ticket)
        except TractError as error:
            return f"Nothing was run: {error}"
        ticket.last_decision = decision
        return self._run(ticket, decision)

    def _lost(self, ticket: Ticket) -> str:
        """Another process was faster; what it has settled is settled here too."""
        status = self._ledger.status(ticket.pending.pending_id)
        if status is not None and not status.is_open:
            ticket.pending.adopt(status)
        return "Somebody else decided this first."

    def _checked(self, ticket: Ticket, answer: Answer, channel: str) -> Decision:
        request, pending = ticket.request, ticket.pending
        action = request.action(answer.action)
        arguments = action.parameters.validate(answer.arguments) if action else {}
        if answer.action != "reject":  # what may no longer run can still be turned down
            self._check_current(pending)
            if pending.fingerprint != request.fingerprint:
                raise FingerprintError("it changed after it was shown; look at it again")
        return Decision(answer.action, arguments, channel, request.fingerprint)

    def _run(self, ticket: Ticket, decision: Decision) -> str:
        pending, printed = ticket.pending, io.StringIO()
        before = copy.deepcopy(pending.fields)
        note = ""
        try:
            with contextlib.redirect_stdout(printed):
                pending.execute_tool(decision.action, decision.arguments)
        except Exception as error:  # noqa: BLE001 # the author's code may raise anything; the panel shows it
            note = _author_traceback(error)
        finally:  # also if it was interrupted
            if not _can_be_pinned(pending):
                pending.fields = before
                note += "\nThe action put values into the fields that have no JSON form; they were put back."
                note = note.strip()
            ticket.output = _bounded(printed.getvalue())
            self._ledger.finish(pending, decision.action)
        return note


def _can_be_pinned(pending: Reviewable) -> bool:
    try:
        return bool(pending.fingerprint)
    except ContentError:
        return False


def _author_traceback(error: BaseException) -> str:
    """The exception with the author's own lines only."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<action:")]
    lines = [f"{f.filename}, line {f.lineno}: {f.line or ''}" for f in frames]
    return "\n".join([*lines, *(line.rstrip() for line in traceback.format_exception_only(error))])


def _bounded(text: str) -> str:
    if len(text) <= _MAX_OUTPUT:
        return text
    half = _MAX_OUTPUT // 2
    return f"{text[:half]}\n… {len(text) - _MAX_OUTPUT:,} characters left out …\n{text[-half:]}"
