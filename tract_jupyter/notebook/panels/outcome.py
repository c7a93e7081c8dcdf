"""What a person made of a request, in words: who decided what, what was changed first, what is not asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.review.decision import outcome_text
from tract_jupyter.review.grants import whom_in_words
from tract_jupyter.review.patterns import pattern_text
from tract_jupyter.review.request import show_value
from tract_jupyter.review.request_text import SHORT_FINGERPRINT

if TYPE_CHECKING:
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.ticket import Ticket

_MAX_PATTERN = 300
_HOW_LONG = {"session": "Not asked again in this session", "always": "Not asked again"}


class Change(NamedTuple):
    """A value that a person changed before approving, as it is shown."""

    name: str
    before: str
    after: str


def changed_values(ticket: Ticket) -> list[Change]:
    """What was changed with the approval; with several approvals, as one may fail, with each of them."""
    changes = []
    for request, decision in ticket.decided:
        before = {p.name: p.default for p in request.fields or ()}
        changes += [
            Change(name, show_value(before.get(name)), show_value(value))
            for name, value in (decision.arguments.get("edits") or {}).items()
        ]
    return changes


def standing_text(ticket: Ticket) -> str:
    """Which standing approval was given, empty if none was; with several approvals, as one may fail, the last one."""
    subject = ticket.request.subject
    given = [
        decision.arguments for _, decision in ticket.decided if decision.arguments.get("scope") in _HOW_LONG
    ]
    if subject is None or not given:
        return ""
    covered = pattern_text(given[-1].get("pattern") or {}, subject.values)
    covered = covered if len(covered) <= _MAX_PATTERN else f"{covered[:_MAX_PATTERN]}…"
    uses = given[-1].get("uses")
    often = "" if uses is None else f", for the next {uses}"
    whom = whom_in_words(subject.actor, given[-1].get("whom", "this"))
    ignored = f"; whatever {', '.join(subject.ignored)} is" if subject.ignored else ""
    return (
        f"{_HOW_LONG[given[-1]['scope']]}{often}: {covered}{ignored}; for {whom}. "
        "%tract grants lists and revokes it."
    )


def decided_text(decision: Decision) -> str:
    """Who decided what, over which channel, and when."""
    when = decision.decided_at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return f"{decision.action} by {decision.decided_by} ({decision.channel}), {when}"


def foot_text(ticket: Ticket) -> str:
    """The last line: the decision and its reason, and the fingerprint that it, or the request, is about."""
    decision = ticket.last_decision
    shown = ticket.request.fingerprint if decision is None else decision.fingerprint
    pinned = f"fingerprint {shown[:SHORT_FINGERPRINT]}"
    if decision is None:
        return pinned
    given = decision.reason or ticket.pending.rejection_reason or outcome_text(ticket.pending)
    return f"{decided_text(decision)}{f': {given}' if given else ''} · {pinned}"
