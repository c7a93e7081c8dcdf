"""A request as HTML: the body of a live panel, and the record that stays in a saved notebook."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tract_jupyter.notebook.markup import OWN_KEYS, escaped, heading, pieces_html
from tract_jupyter.notebook.panels.code import code_html
from tract_jupyter.notebook.panels.outcome import changed_values, foot_text, standing_text
from tract_jupyter.review.display import shown_rows
from tract_jupyter.review.request import show_value
from tract_jupyter.review.request_text import how_to_decide

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.review.display import Piece
    from tract_jupyter.review.request import ReviewRequest, ValueTable
    from tract_jupyter.review.ticket import Ticket

_RESULT_CHARACTERS = 2_000
_FEW_PIECES = 8  # of a value that needs no box of its own


@cache
def asset(name: str) -> str:
    """The text of a file beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def static_css() -> str:
    """The styles of whatever shows code and needs no script."""
    return asset("record.css") + asset("code.css")


def body_html(ticket: Ticket, *, why: bool = True) -> str:
    """Everything between the heading and the buttons; without `why` where that stands elsewhere."""
    request = ticket.request
    parts = [f"<p>{escaped(request.summary)}</p>" if request.summary else ""]
    if why and request.why and ticket.status.is_open:
        parts.append(_why_html(request))
    parts += [code_html(block) for block in request.code]
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
    parts.append(f'<p class="tract-foot">{escaped(foot_text(ticket))}</p>')
    return "".join(parts)


def bound_html(request: ReviewRequest) -> str:
    """What an approval of it binds to, without findings and without what asked: for a record that lists several."""
    blocks = [replace(block, findings=()) for block in request.code if block.binds != "nothing"]
    values = [_values_html(table, request.pending_id) for table in request.tables]
    return "".join([*map(code_html, blocks), *values])


def record_html(ticket: Ticket) -> str:
    """A self-contained page part: what was asked, and who decided what, when, on which fingerprint."""
    title, status = ticket.request.title, ticket.status.value
    line = f"<code>{how_to_decide(ticket.request.pending_id)}</code>"
    how = (
        f'<p class="tract-foot">{line} decides it, where there are no buttons</p>'
        if ticket.status.is_open
        else ""
    )
    return (
        f'<style>{static_css()}</style><section class="tract-panel" data-testid="tract-record" '
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
    """All values; a long one scrolls. What only carrying it out needs is folded."""
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


def _cell_html(pieces: tuple[Piece, ...]) -> str:
    """A part of a row; where it is long, in a box of its own that scrolls."""
    if len(pieces) <= _FEW_PIECES:
        return pieces_html(pieces)
    size = sum(len(piece.text) for piece in pieces)
    label = f"{size:,} characters"
    return (
        f'<span class="tract-long" {OWN_KEYS} tabindex="0" role="region" aria-label="{label}">'
        f"{pieces_html(pieces)}</span>"
    )


def table_html(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]], code: Iterable[int]) -> str:
    """A table under a heading, everything escaped; the columns `code` are set in the code font."""
    return _table_html(title, heads, [list(map(escaped, row)) for row in rows], set(code))


def _table_html(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]], in_code: set[int]) -> str:
    """The same with cells that are HTML."""

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
