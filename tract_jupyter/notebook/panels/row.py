"""A question as a row of three lines: what and how risky, with what, the buttons and why you are asked.

What stands on display there counts as such: each value is in pieces with keys, as in the full request beneath.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tract_jupyter.analysis import RULES, RiskLevel
from tract_jupyter.models import counted
from tract_jupyter.notebook.panels.render import asked_code, asker_html, code_comment, place_html, row_html
from tract_jupyter.notebook.views.html import escaped, pieces_html
from tract_jupyter.review import by_rule, lines_text, shown_code, shown_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.review import DisplayedPiece, ReviewRequest, RuleFindings, Ticket

_LONGEST = 400  # characters of all values in a line; of what is longer only the beginning stands there
_BEGINNING = 60
_FEW_LINES = 15  # of code, which stand there in full where nothing else is asked


def row_view(ticket: Ticket) -> dict[str, Any]:
    """Return what a script draws of the three lines; all HTML in it is escaped.

    Returns:
        `headline_html`, `risk_html` (of the worst finding), `worst` (the level of that finding),
        `with_html`, `is_brief` (True if that line is a beginning only), `why` (the first sentence), `why_all`, `since`
        (when it was asked), `is_code` (True if it asks about code itself), `is_short` (about a few lines of it),
        `note`, `record_html` (of a decided one).
    """
    request = ticket.request
    worst = _worst(request)
    with_html, is_brief = values_line(request)
    return {
        "headline_html": headline_html(ticket),
        "risk_html": risk_html(request, worst),
        "worst": "" if worst is None else worst.level.value,
        "with_html": with_html,
        "is_brief": is_brief,
        "why": first_sentence(request.why),
        "why_all": request.why,
        "is_code": _asks_about_code(request),
        "is_short": _is_short(request),
        "since": ticket.pending.created_at.isoformat(),
        "note": request.note,
        "record_html": "" if ticket.status.is_open else row_html(ticket),
    }


def subject_name(ticket: Ticket) -> str:
    """Return the name of the operation or tool that it is about; empty if it has none."""
    request = ticket.request
    if request.subject is not None:
        return str(request.subject.name)
    last = request.title.rpartition(" ")[2]
    return last if ticket.pending.is_definition else ""


def headline_html(ticket: Ticket) -> str:
    """Return what is asked, in a few words, with the name of what it is about in the code font."""
    title, name = ticket.request.title, subject_name(ticket)
    place = place_html(ticket.pending.runs_in)
    if _asks_about_code(ticket.request):
        _, script = asked_code(ticket.request)
        said = code_comment(script.code) if script is not None else ""
        words = f"“{said}”" if said else title.removesuffix(" in the kernel, with your variables")
        return f'<b title="{escaped(title)}">{escaped(words)}</b>{place}{asker_html(ticket)}'
    subject = ticket.request.subject
    if subject is not None and subject.kind == "tool" and not title.endswith(name):
        name = title.rpartition(" ")[2]  # it says in words what its tool does, and to what
    if not name or not title.endswith(name):
        return f"<b>{escaped(title)}</b>{place}{asker_html(ticket)}"
    words = title.removesuffix(name).strip() or "Operation"
    words = words.removesuffix(" operation").replace("Call tool", "Run")
    return f"<b>{escaped(words)} <code>{escaped(name)}</code></b>{place}{asker_html(ticket)}"


def risk_html(request: ReviewRequest, worst: RuleFindings | None) -> str:
    """Return the worst finding as a chip and a sentence, or the summary. Code has its summary in the next line."""
    is_code = _asks_about_code(request)
    if worst is None:
        has_code = any(block.binds == "code" and block.language == "python" for block in request.code)
        chip = '<span class="chip none">no findings</span>' if has_code else ""
        said = "" if is_code else first_sentence(request.summary)
        return f'{chip}<span class="cut dim">{escaped(said)}</span>'
    found = [f for block in request.code for f in block.findings if f.level is worst.level]
    known = RULES.get(worst.code)
    said = (worst.worst.reason if known is None else known.manual().partition("\n")[0]).removesuffix(".")
    shown = found if is_code else [f for f in worst.findings if f.level is worst.level]
    jump = '<button type="button" class="plain jump" aria-label="line {0}">{0}</button>'
    where = re.sub(r"\d+", lambda line: jump.format(line[0]), lines_text(f.span.line for f in shown))
    chip = (
        f'<span class="chip {worst.level.value}">{counted(len(found), f"{worst.level.value} finding")}</span>'
    )
    return f'{chip}<span class="cut dim">{f"in {where}" if is_code else f"{escaped(said)} ({where})"}</span>'


def is_risky(request: ReviewRequest, level: RiskLevel = RiskLevel.MEDIUM) -> bool:
    """Return True if a finding is of that level or worse: from "overwrites a file" on, no button is filled."""
    worst = _worst(request)
    return worst is not None and worst.level >= level


def values_line(request: ReviewRequest) -> tuple[str, bool]:
    """Return the values in a line, and whether they are only the beginnings; what is chosen, or the summary, else."""
    if request.choices:
        return escaped(" · ".join(choice.title for choice in request.choices)), False
    tables = [table for table in request.tables if table.binds == "values"]
    kept = [replace(table, rows=tuple(r for r in table.rows if not r.is_default)) for table in tables]
    rows = [row for table in kept for row in shown_rows(table, request.pending_id)]
    if not rows and not default_names(request):
        return _without_values(request), False
    rows.sort(key=lambda row: _text(row.value) == "None")  # what was left out comes last
    size = sum(len(piece.text) for row in rows for piece in (*row.name, *row.value))
    is_brief = size > _LONGEST
    return " ".join(_value_html(row.name, row.value, is_brief=is_brief) for row in rows), is_brief


def default_names(request: ReviewRequest) -> list[str]:
    """Return the names of the values at their default, which stand folded."""
    return [
        row.name
        for table in request.tables
        if table.binds == "values"
        for row in table.rows
        if row.is_default
    ]


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, or what stands before its first semicolon."""
    first = re.split(r"(?<=[.;])\s", text.strip(), maxsplit=1)[0]
    return first.rstrip(".;")


# ---


def _worst(request: ReviewRequest) -> RuleFindings | None:
    rules = [rule for block in request.code for rule in by_rule(block.findings)]
    return max(rules, key=lambda rule: rule.level.rank, default=None)


def _asks_about_code(request: ReviewRequest) -> bool:
    _, script = asked_code(request)
    return script is not None and script.language != "text"


def _is_short(request: ReviewRequest) -> bool:
    _, script = asked_code(request)
    return script is not None and sum(len(line.pieces) for line in shown_code(script).lines) <= _FEW_LINES


def _without_values(request: ReviewRequest) -> str:
    _, script = asked_code(request)
    if script is not None:
        return escaped(first_sentence(request.summary))
    summaries = [first_sentence(table.summary) for table in reversed(request.tables) if table.summary]
    if summaries:  # what it can do, and then what it did when it was tried
        return escaped(" · ".join(summaries))
    lines = sum(block.code.count("\n") + 1 for block in request.code if block.binds == "code")
    said = counted(lines, "line") + " of code" if lines else ""
    about = first_sentence(request.summary) if _worst(request) is not None else ""
    return escaped(" · ".join(filter(None, (about, said))))


def _value_html(
    name_pieces: Iterable[DisplayedPiece], pieces: Iterable[DisplayedPiece], *, is_brief: bool
) -> str:
    """Return a value with its name; a short one can be changed there."""
    name, value = _text(name_pieces), _text(pieces)
    css = "s" if value[:1] in "'\"" or value[:2] in {"b'", 'b"'} else "m" if value[:1].isdigit() else ""
    if is_brief:
        shown = escaped(value if len(value) <= _BEGINNING else value[:_BEGINNING])
        more = f" … {len(value) - _BEGINNING:,} more characters" if len(value) > _BEGINNING else ""
        named = escaped(name)
    else:
        shown, named, more = pieces_html(pieces), pieces_html(name_pieces), ""
    return (
        f'<span class="value" data-name="{escaped(name)}"><code><span class="dim">{named}=</span>'
        f'<span class="{css}">{shown}</span>{more}</code></span>'
    )


def _text(pieces: Iterable[DisplayedPiece]) -> str:
    return "".join(piece.text for piece in pieces)
