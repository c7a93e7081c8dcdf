"""The record of a request in plain text, for terminals and whatever shows no HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models.text import printable
from tract_jupyter.notebook.panels.outcome import changed_values, foot_text, standing_text
from tract_jupyter.notebook.panels.render import record_html
from tract_jupyter.review.request_text import bound_lines, how_to_decide

if TYPE_CHECKING:
    from tract_jupyter.review.ticket import Ticket


def record_text(ticket: Ticket) -> str:
    """What was asked, all of it, and who decided what, when, on which fingerprint."""
    request = ticket.request
    lines = [f"[{ticket.status}] {request.title}", f"  {request.summary}" if request.summary else ""]
    lines += [f"  {line}" for line in bound_lines(request)]
    lines += [f"  changed {c.name}: {c.before} → {c.after}" for c in changed_values(ticket)]
    if ticket.output:
        lines += ["  printed:", *(f"    {line}" for line in ticket.output.splitlines())]
    if request.note:
        lines += [f"  {line}" for line in request.note.splitlines()]
    lines += [f"  {line}" for line in (standing_text(ticket), foot_text(ticket)) if line]
    lines += (
        [f"  {how_to_decide(request.pending_id)} decides it, here or in another notebook on this store"]
        if ticket.status.is_open
        else []
    )
    return printable("\n".join(line for line in lines if line))


def record(ticket: Ticket) -> dict[str, str]:
    """The record as what IPython displays."""
    return {"text/html": record_html(ticket), "text/plain": record_text(ticket)}
