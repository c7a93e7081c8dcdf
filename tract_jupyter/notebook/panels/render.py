"""A request as HTML: the body of a live panel, and the record that stays in a saved notebook."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.models import printable
from tract_jupyter.notebook.panels.code import STATIC_STYLES, code_html
from tract_jupyter.notebook.views.html import (
    OWN_KEYS,
    escaped,
    exact_time,
    heading,
    pieces_html,
    style_tag,
    time_html,
)
from tract_jupyter.review import (
    SHORT_FINGERPRINT,
    bound_lines,
    how_to_decide,
    outcome_text,
    pattern_text,
    show_value,
    shown_rows,
    whom_in_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.review import Decision, DisplayedPiece, ReviewRequest, Ticket, ValueTable


def record_text(ticket: Ticket) -> str:
    """Return what was asked, all of it, and who decided what, when, on which fingerprint."""
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
    """Return the record as what IPython displays."""
    return {"text/html": record_html(ticket), "text/plain": record_text(ticket)}


_MAX_PATTERN = 300
_HOW_LONG = {"session": "Not asked again in this session", "always": "Not asked again"}


class ValueChange(NamedTuple):
    """A value that a person changed before approving, as it is shown."""

    name: str
    before: str
    after: str


def changed_values(ticket: Ticket) -> list[ValueChange]:
    """Return what was changed with the approval; with several approvals, as one may fail, with each of them."""
    changes = []
    for request, decision in ticket.decided:
        before = {p.name: p.default for p in request.fields or ()}
        changes += [
            ValueChange(name, show_value(before.get(name)), show_value(value))
            for name, value in (decision.arguments.get("edits") or {}).items()
        ]
    return changes


def standing_text(ticket: Ticket) -> str:
    """Return the standing approval that was given (the last one, if one failed before), empty if there is none."""
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
    """Return who decided what, over which channel, and when."""
    return f"{_by_whom(decision)}, {exact_time(decision.decided_at)}"


_DECIDED = {"approve": "approved", "reject": "rejected"}


def _by_whom(decision: Decision) -> str:
    done = _DECIDED.get(decision.action, f"{decision.action} chosen")
    return f"{done} by {decision.decided_by} ({decision.channel})"


def foot_text(ticket: Ticket) -> str:
    """Return the last line: the decision and its reason, and the fingerprint that it, or the request, is about."""
    decision = ticket.last_decision
    shown = ticket.request.fingerprint if decision is None else decision.fingerprint
    pinned = f"fingerprint {shown[:SHORT_FINGERPRINT]}"
    return pinned if decision is None else f"{decided_text(decision)}{_given(ticket, decision)} · {pinned}"


def foot_html(ticket: Ticket) -> str:
    """Return the same as HTML, with the whole fingerprint on hovering."""
    decision = ticket.last_decision
    shown = ticket.request.fingerprint if decision is None else decision.fingerprint
    pinned = f'<span title="{shown}">fingerprint {shown[:SHORT_FINGERPRINT]}</span>'
    if decision is None:
        return pinned
    given = escaped(_given(ticket, decision))
    return f"{escaped(_by_whom(decision))}, {time_html(decision.decided_at)}{given} · {pinned}"


def _given(ticket: Ticket, decision: Decision) -> str:
    """Return the reason of a decision, or what came of it, as the end of a sentence."""
    given = decision.reason or ticket.pending.rejection_reason or outcome_text(ticket.pending)
    return f": {given}" if given else ""


_RESULT_CHARACTERS = 2_000
_FEW_PIECES = 8  # of a value that needs no box of its own


def body_html(ticket: Ticket, *, why: bool = True, asked_by: bool = True) -> str:
    """Return everything between the heading and the buttons.

    Args:
        ticket: the request.
        why: with the reason why it is asked about, which may stand elsewhere.
        asked_by: with the code that asked, which binds nothing and may stand above.
    """
    request = ticket.request
    parts = [f"<p>{escaped(request.summary)}</p>" if request.summary else ""]
    if why and request.why and ticket.status.is_open:
        parts.append(_why_html(request))
    parts += [code_html(block) for block in request.code if asked_by or block.binds != "nothing"]
    parts += [_values_html(table, request.pending_id) for table in request.tables]
    changes = changed_values(ticket)
    if changes:
        rows = [(c.name, c.before, c.after) for c in changes]
        parts.append(table_html("Changed before approving", ("Name", "Before", "After"), rows, {1, 2}))
    parts.append(_result_html(ticket))
    if request.note:
        css = "tract-note" if ticket.status.is_open else "tract-note tract-plain"
        parts.append(f'<pre class="{css}">{escaped(request.note)}</pre>')
    standing = standing_text(ticket)
    parts.append(f'<p class="tract-standing">{escaped(standing)}</p>' if standing else "")
    parts.append(f'<p class="tract-foot">{foot_html(ticket)}</p>')
    return "".join(parts)


def bound_html(request: ReviewRequest) -> str:
    """Return what an approval of it binds to, without findings, for a record that lists several."""
    blocks = [replace(block, findings=()) for block in request.code if block.binds != "nothing"]
    values = [_values_html(table, request.pending_id) for table in request.tables]
    return "".join([*map(code_html, blocks), *values])


def record_html(ticket: Ticket) -> str:
    """Return a self-contained page part: what was asked, and who decided what, when, on which fingerprint."""
    title, status = ticket.request.title, ticket.status.value
    line = f"<code>{how_to_decide(ticket.request.pending_id)}</code>"
    how = (
        f'<p class="tract-foot">{line} decides it where there are no buttons</p>'
        if ticket.status.is_open
        else ""
    )
    return (
        f'{style_tag(*STATIC_STYLES)}<section class="tract-panel" data-testid="tract-record" '
        f'data-status="{status}" aria-label="{escaped(title)}"><header>{heading(title, 3)}'
        f'<span class="tract-badge">{status}</span></header>{body_html(ticket)}{how}</section>'
    )


def _why_html(request: ReviewRequest) -> str:
    return f'<p class="tract-why"><b>Why you are asked:</b> {escaped(request.why)}</p>'


def _result_html(ticket: Ticket) -> str:
    printed = _output_html("Printed", ticket.output) if ticket.output else ""
    result = ticket.pending.result
    is_made = isinstance(result, type)  # by an activation
    if result is None or is_made or ticket.status.is_open:
        return printed
    return printed + _output_html("Result", show_value(result, _RESULT_CHARACTERS))


def _output_html(title: str, text: str) -> str:
    return f'{heading(title, 4)}<pre class="tract-output">{html.escape(text)}</pre>'


def _values_html(table: ValueTable, pending_id: str) -> str:
    """Return all values; a long one scrolls. What only carrying it out needs is folded."""
    rows = shown_rows(table, pending_id)
    cells = {"Name": "name", "Type": "type", "Value": "value", "Meaning": "description"}
    heads = [head for head, part in cells.items() if any(getattr(row, part) for row in rows)]
    body = [[_cell_html(getattr(row, cells[head])) for head in heads] for row in rows]
    in_code = {heads.index(h) for h in ("Type", "Value") if h in heads}
    made = _table_html(table.title, heads, body, in_code)
    if table.binds != "nothing" or sum(len(row.value) for row in rows) <= _FEW_PIECES:
        return made
    return (
        f'<details data-part="{escaped(table.title)}"><summary {OWN_KEYS}>'
        f"{escaped(table.title)}</summary>{made}</details>"
    )


def _cell_html(pieces: tuple[DisplayedPiece, ...]) -> str:
    """Return a part of a row; where it is long, in a box of its own that scrolls."""
    if len(pieces) <= _FEW_PIECES:
        return pieces_html(pieces)
    size = sum(len(piece.text) for piece in pieces)
    label = f"{size:,} characters"
    return (
        f'<span class="tract-long" {OWN_KEYS} tabindex="0" role="region" aria-label="{label}">'
        f"{pieces_html(pieces)}</span>"
    )


def table_html(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]], code: Iterable[int]) -> str:
    """Return a table under a heading, everything escaped; the columns `code` are set in the code font."""
    return _table_html(title, heads, [list(map(escaped, row)) for row in rows], set(code))


def _table_html(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]], in_code: set[int]) -> str:
    """Return the same with cells that are HTML."""

    def row_html(row: Iterable[str]) -> str:
        first, *rest = row
        cells = (f"<code>{cell}</code>" if n in in_code else cell for n, cell in enumerate(rest, 1))
        return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'

    head = "".join(f'<th scope="col">{escaped(text)}</th>' for text in heads)
    return (
        f'{heading(title, 4) if title else ""}<div class="tract-scroll"><table class="tract-table">'
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(map(row_html, rows))}</tbody></table></div>"
    )
