"""Carrying recorded decisions out, where nobody can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.review.decision import Answer
from tract_jupyter.review.dispatch import dispatch

if TYPE_CHECKING:
    from tract_jupyter.review.recorded import Recorded
    from tract_jupyter.review.ticket import Ticket

CHANNEL = "recorded"


def replay(ticket: Ticket, recorded: Recorded) -> str:
    """Carry recorded decisions about a ticket out, round by round, until it is settled or none is left.

    Returns:
        Why it is not settled, and what to do; empty if it is.

    Raises:
        LockFileError: the recorded decisions cannot be read.
        TrustError: the signing secret cannot be read.
    """
    pending, note = ticket.pending, ""
    while pending.status.is_open:
        if ticket.request.fingerprint != pending.fingerprint:  # code changed it since it was shown
            ticket.new_round(note)
        entry = recorded.take(pending.identity)
        if entry is None:
            why = f"{note} {recorded.why_not(pending)}".strip()
            ticket.new_round(f"It stays open, since nobody can be asked here, and {why}.")
            return f". Recorded decisions: {why}. To record one, decide it in a live notebook, then '%tract record'"
        answer = Answer(entry.action, entry.arguments, ticket.round_id)
        note = dispatch(ticket, answer, CHANNEL, entry.decided_by)
        ticket.new_round(note)
    return ""
