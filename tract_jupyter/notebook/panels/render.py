"""A request as HTML and as text: the body of a live panel, and the record that stays in a saved notebook."""

from __future__ import annotations

import html
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tract_jupyter.notebook.markup import heading
from tract_jupyter.notebook.panels.code import code_html
from tract_jupyter.review.request import show_value

if TYPE_CHECKING:
    from tract_jupyter.review.request import ValueTable
    from tract_jupyter.review.ticket import Ticket

SHORT_FINGERPRINT = 16
_RESULT_CHARACTERS = 2_000


@cache
def asset(name: str) -> str:
    """The text of a file beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def body_html(ticket: Ticket) -> str:
    """Everything between the heading and the buttons."""
    request = ticket.request
    parts = [f"<p>{html.escape(request.summary)}</p>" if request.summary else ""]
    if request.why and ticket.status.is_open:
        parts.append(f'<p class="tract-why">{html.escape(request.why)}</p>')
    parts += [code_html(block) for block in request.code]
    parts += [_table_html(table) for table in request.tables]
    if ticket.output:
        parts.append(_output_html("Printed", ticket.output))
    if ticket.pending.result is not None and not ticket.status.is_open:
        parts.append(_output_html("Result", show_value(ticket.pending.result, _RESULT_CHARACTERS)))
    if request.note:
        parts.append(f'<pre class="tract-note">{html.escape(request.note)}</pre>')
    parts.append(f'<p class="tract-foot">{html.escape(_foot_text(ticket))}</p>')
    return "".join(parts)


def record_html(ticket: Ticket) -> str:
    """A self-contained page part: what was asked, and who decided what, when, on which fingerprint."""
    title, status = ticket.request.title, ticket.status.value
    return (
        f'<style>{asset("record.css")}</style><section class="tract-panel" data-testid="tract-record" '
        f'data-status="{status}" aria-label="{html.escape(title)}"><header>{heading(title, 3)}'
        f'<span class="tract-badge">{status}</span></header>{body_html(ticket)}</section>'
    )


def record_text(ticket: Ticket) -> str:
    """The same in plain text."""
    request = ticket.request
    lines = [f"[{ticket.status}] {request.title}", f"  {request.summary}" if request.summary else ""]
    for block in request.code:
        lines.append(f"  {block.title}: {len(block.code.splitlines())} lines")
        lines += [f"    line {f.span.line}: {f.level.value} {f.code} {f.reason}" for f in block.findings]
    lines += [f"  {row.name}: {row.value}" for table in request.tables for row in table.rows if row.value]
    if ticket.output:
        lines += ["  printed:", *(f"    {line}" for line in ticket.output.splitlines())]
    if request.note:
        lines += [f"  {line}" for line in request.note.splitlines()]
    lines.append(f"  {_foot_text(ticket)}")
    return "\n".join(line for line in lines if line)


def request_text(ticket: Ticket) -> str:
    """What a terminal shows, and a prompt before it asks: everything, code included."""
    request = ticket.request
    lines = [f"[{ticket.status}] {request.title}", request.summary, request.why]
    for block in request.code:
        lines += ["", block.title, f"      {block.header}" if block.header else ""]
        by_line: dict[int, list[str]] = {}
        for f in block.findings:
            by_line.setdefault(f.span.line, []).append(
                f"      ^ {f.level.value} {f.code}: {f.reason} {f.remedy}"
            )
        for number, text in enumerate(block.code.splitlines(), 1):
            lines += [f"{number:4}  {text}", *by_line.get(number, [])]
    lines += [f"  {row.name}: {row.type} = {row.value}" for table in request.tables for row in table.rows]
    lines += [request.note, f"fingerprint {request.fingerprint[:SHORT_FINGERPRINT]}"]
    return "\n".join(line for line in lines if line)


def _table_html(table: ValueTable) -> str:
    heads = ["Name", "Type", *(["Value"] if any(r.value for r in table.rows) else [])]
    heads += ["Meaning"] if any(r.description for r in table.rows) else []
    rows = []
    for row in table.rows:
        cells = [f"<code>{html.escape(row.type)}</code>"]
        cells += [f"<code>{html.escape(row.value)}</code>"] if "Value" in heads else []
        cells += [html.escape(row.description)] if "Meaning" in heads else []
        rows.append(
            f'<tr><th scope="row">{html.escape(row.name)}</th>{"".join(f"<td>{c}</td>" for c in cells)}</tr>'
        )
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    return (
        f'{heading(table.title, 4)}<table class="tract-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _foot_text(ticket: Ticket) -> str:
    decision = ticket.last_decision
    shown = ticket.request.fingerprint if decision is None else decision.fingerprint
    pinned = f"fingerprint {shown[:SHORT_FINGERPRINT]}"
    if decision is None:
        return pinned
    when = decision.decided_at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    given = decision.reason or ticket.pending.rejection_reason
    reason = f": {given}" if given else ""
    return f"{decision.action} by {decision.decided_by} ({decision.channel}), {when}{reason} · {pinned}"


def _output_html(title: str, text: str) -> str:
    return f'{heading(title, 4)}<pre class="tract-output">{html.escape(text)}</pre>'
