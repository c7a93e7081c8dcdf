"""A request as HTML: its full text beneath a question, and the record that stays in a saved notebook.

A record is one line that unfolds, a `<details>`, so that it needs no script. It carries the styles that it needs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import PendingStatus, counted, cut, one_line, printable, show_value
from tract_jupyter.notebook.panels.code import code_html, findings_html, is_listed, sub_html
from tract_jupyter.notebook.views.diff import side_by_side, texts_side_by_side, two_columns
from tract_jupyter.notebook.views.html import OWN_KEYS, escaped, exact_time, pieces_html, time_html
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.operations import ACCESS
from tract_jupyter.review import (
    CHOICES,
    SHORT_FINGERPRINT,
    approval_terms,
    bound_lines,
    how_to_decide,
    outcome_text,
    pattern_text,
    shown_choice,
    shown_rows,
    whom_in_words,
    worst_finding,
)
from tract_jupyter.scripts import ASKED_BECAUSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from tract_jupyter.review import (
        CodeBlock,
        Decision,
        DisplayedPiece,
        ReviewRequest,
        TextChoice,
        Ticket,
        ValueTable,
    )


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


_MAX_PATTERN = 301
_HOW_LONG = {"session": "Not asked again in this session", "always": "Not asked again"}


class ValueChange(NamedTuple):
    """A value that a person changed before approving, as it is shown."""

    name: str
    before: str
    after: str
    diff: str = ""


def changed_values(ticket: Ticket) -> list[ValueChange]:
    """Return what was changed with the approval; with several approvals, as one may fail, with each of them."""
    changes = []
    for request, decision in ticket.decided:
        before = {p.name: p.default for p in request.fields or ()}
        changes += [
            ValueChange(
                name, show_value(before.get(name)), show_value(value), text_diff(before.get(name), value)
            )
            for name, value in (
                approval_terms(decision.action, decision.arguments).get("edits") or {}
            ).items()
        ]
    return changes


def standing_text(ticket: Ticket) -> str:
    """Return the standing approval that was given (the last one, if one failed before), empty if there is none."""
    subject = ticket.request.subject
    made = [approval_terms(decision.action, decision.arguments) for _, decision in ticket.decided]
    given = [terms for terms in made if terms.get("scope") in _HOW_LONG]
    if subject is None or not given:
        return ""
    if subject.rule:
        return f"Switched on: {subject.rule}. %tract grants lists and revokes it."
    covered = pattern_text(given[-1].get("pattern") or {}, subject.values)
    covered = cut(covered, _MAX_PATTERN)
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
        return f"An approval counts for exactly this ({pinned})."
    given = escaped(_given(ticket, decision))
    return f"{escaped(_by_whom(decision))}, {time_html(decision.decided_at)}{given} · {pinned}"


def _given(ticket: Ticket, decision: Decision) -> str:
    """Return the reason of a decision, or what came of it, as the end of a sentence."""
    given = decision.reason or ticket.pending.rejection_reason or outcome_text(ticket.pending)
    return f": {given}" if given else ""


_RESULT_CHARACTERS = 2_000
_FEW_PIECES = 8  # of a value that needs no box of its own


def body_html(ticket: Ticket, *, why: bool = True, asked_by: bool = True) -> str:
    """Return the full text of a request: all that is not the line above it and the buttons.

    Args:
        ticket: the request.
        why: with the reason why it is asked about, which may stand elsewhere.
        asked_by: with the code that asked, which binds nothing and may stand above.
    """
    request = ticket.request
    named, script = asked_code(request)
    is_text = script is not None and script.language == "text"
    is_open = ticket.status.is_open
    parts = [code_html(script, named, listed=not is_open)] if script is not None and not is_text else []
    is_told = is_open and script is not None and not is_text  # in the row
    parts.append(f"<p>{escaped(request.summary)}</p>" if request.summary and not is_told else "")
    parts += [choice_html(choice, request.pending_id) for choice in request.choices]
    blocks = [block for block in request.code if block is not script]
    is_aside = (
        is_open and ticket.pending.is_definition
    )  # the line that asks explains a call, not a definition
    asking = [block for block in blocks if is_aside and block.binds == "nothing" and block.marked is not None]
    kept = [block for block in blocks if block not in asking and (asked_by or block.binds != "nothing")]
    parts += [code_html(block, listed=not is_open) for block in kept]
    parts += [code_html(script, named)] if script is not None and is_text else []
    # what a text stands for comes before the values that go with it
    tables = sorted(request.tables, key=lambda table: not table.summary) if is_text else request.tables
    about = [
        table for table in tables if is_open and table.title.startswith(ACCESS)
    ]  # the row says it in a sentence
    parts += [_values_html(table, request.pending_id) for table in tables if table not in about]
    parts.append(_changes_html(ticket))
    parts.append(_result_html(ticket))
    if request.note:
        css = "note no" if ticket.status.is_open else "note"
        parts.append(f'<pre class="{css}">{escaped(request.note)}</pre>')
    standing = standing_text(ticket)
    parts.append(f'<p class="note">{escaped(standing)}</p>' if standing else "")
    foot = f'<p class="dim">{foot_html(ticket)}</p>'
    if not is_open:
        return "".join([*parts, foot])
    reason = request.why.removeprefix(f"{ASKED_BECAUSE} ")
    said = [f'<p class="why"><b>Why you are asked:</b> {escaped(reason)}</p>' if why and reason else ""]
    said += [findings_html(block) for block in request.code if not is_listed(block)]
    said += [_values_html(table, request.pending_id) for table in about]
    said += [code_html(block) for block in asking if asked_by]
    return "".join([*parts, _folded("about", "About this request", "".join([*said, foot]), icon="info")])


def _changes_html(ticket: Ticket) -> str:
    """Return the values that were changed before approving; a text of several lines as its difference."""
    changes = changed_values(ticket)
    rows = [(c.name, c.before, c.after) for c in changes if not c.diff]
    table = table_html("Changed before approving", ("Name", "Before", "After"), rows, {1, 2}) if rows else ""
    return table + "".join(change_html(c.diff) for c in changes if c.diff)


def change_html(diff: str) -> str:
    """Return a difference that the user made before approving, side by side."""
    return f"{sub_html('Changed before approving')}{side_by_side(diff, 'Asked', 'Approved')}"


def text_diff(before: object, after: object) -> str:
    """Return the difference of two texts of which one has several lines; empty for other values."""
    if not (isinstance(before, str) and isinstance(after, str)) or "\n" not in before + after:
        return ""
    return "\n".join(unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=1))


def asked_code(request: ReviewRequest) -> tuple[str, CodeBlock | None]:
    """Return the code that is itself the value that is asked about, and may be changed, and the name of the value."""
    for parameter in request.fields or ():
        for block in request.code:
            if block.is_value(parameter.name, parameter.default):
                return parameter.name, block
    return "", None


def _is_code(block: CodeBlock | None) -> bool:
    return block is not None and block.language != "text"


def bound_html(request: ReviewRequest) -> str:
    """Return what an approval of it binds to, without findings, for a record that lists several."""
    blocks = [replace(block, findings=()) for block in request.code if block.binds != "nothing"]
    choices = [choice_html(choice, request.pending_id) for choice in request.choices]
    values = [_values_html(table, request.pending_id) for table in request.tables]
    return "".join([*choices, *map(code_html, blocks), *values])


def choice_html(choice: TextChoice, pending_id: str) -> str:
    """Return both texts side by side, with what is decided about them beneath."""
    shown = shown_choice(choice, pending_id)
    heads = [
        f"{side}{' leaves it out' if text is None else ''}"
        for side, text in zip(choice.sides, (choice.ours, choice.theirs), strict=True)
    ]
    sides = two_columns(heads[0], heads[1], texts_side_by_side(shown.ours, shown.theirs), "diff sides")
    said = pieces_html(shown.decided) or escaped(choice.said)
    other = "\n".join(pieces_html([line]) for line in shown.other)
    word = choice.decided if choice.decided in CHOICES else "" if choice.decided is None else "other"
    return (
        f'<div class="choice" role="group" aria-label="{escaped(choice.title)}" data-decided="{word}">'
        f'{sub_html(choice.title)}{sides}<p class="taken"><span class="dim">{said}</span></p>'
        f"{f'<pre class=out>{other}</pre>' if shown.other else ''}</div>"
    )


def record_html(ticket: Ticket) -> str:
    """Return a self-contained page part: a line that unfolds to what was asked, and who decided what, when, on what."""
    return output_html(f'<div class="list alone">{row_html(ticket)}</div>', *RECORD_STYLES)


RECORD_STYLES = ("panels/record.css",)
"""What records are styled with, beside the look of all outputs."""


def row_html(ticket: Ticket, *, brief: bool = False) -> str:
    """Return the same as a row, to stand among others in an element of the class `list`, where `RECORD_STYLES` hold.

    Args:
        ticket: the request.
        brief: without findings, where many stand together; what an approval binds to is there in any case.
    """
    request, status = ticket.request, ticket.status
    how = how_to_decide(request.pending_id)
    open_ = (
        f'<p class="dim"><code>{how}</code> decides it where there are no buttons</p>'
        if status.is_open
        else ""
    )
    full = f'{bound_html(request)}<p class="dim">{foot_html(ticket)}</p>' if brief else body_html(ticket)
    body = f"<p><b>{escaped(request.title)}</b></p>{full}{open_}"
    return details_row(
        f'data-testid="tract-record" data-status="{status.value}" aria-label="{escaped(request.title)}"',
        headline(ticket),
        _KEYS.sub("", body),  # nothing is decided on a record: what was on display is of no use to it
    )


def details_row(attributes: str, line: str, body: str) -> str:
    """Return a line that unfolds; all of it is HTML."""
    return (
        f'<details class="row" {attributes}><summary {OWN_KEYS}><i class="chev"></i>{line}</summary>'
        f'<div class="body">{body}</div></details>'
    )


_KEYS = re.compile(r' data-line="[^"]*"')


# --- the line of a record


class Look(NamedTuple):
    """How a state looks: its icon, and the word beside it for whoever sees none."""

    icon: str
    word: str


_LOOKS = {
    PendingStatus.PENDING: Look("wait", "waiting"),
    PendingStatus.APPROVED: Look("done", "done"),
    PendingStatus.REJECTED: Look("no", "rejected"),
    PendingStatus.FAILED: Look("no", "failed"),
    PendingStatus.EXPIRED: Look("idle", "expired"),
    PendingStatus.PASSED_THROUGH: Look("idle", "passed through"),
}
_DONE = {"Activate": "Activated", "Replace": "Replaced", "Run": "Ran", "Merge": "Merged", "Rebase": "Rebased",
         "Compress": "Compressed", "Create": "Created"}  # fmt: skip
"""The verbs of titles, as what has happened."""


def headline(ticket: Ticket) -> str:
    """Return what happened in a line: icon, what, with what, what was changed, who and when."""
    status = ticket.status
    look = _LOOKS[status]
    changed = len(changed_values(ticket))
    what = "code" if _is_code(_shown_code(ticket)[1]) else counted(changed, "value")
    badge = f'<span class="badge">{what} changed</span>' if changed else ""
    if status is PendingStatus.PENDING:
        badge += '<span class="badge wait">waiting</span>'
    return (
        f'<i class="i i-{look.icon}"></i><span class="said">{look.word}</span><b>{_what_html(ticket)}</b>'
        f"{asker_html(ticket)}{_brief_html(ticket)}{badge}<small>{_who_html(ticket)}</small>"
    )


def act(ticket: Ticket) -> tuple[str, str]:
    """Return what a request would do, as a verb and what it is done with: ("Run", "save_table").

    A title that is no verb and a name is the second of the two, behind an empty verb.
    """
    title, subject = ticket.request.title, ticket.request.subject
    first, _, rest = title.partition(" ")
    if ticket.pending.is_definition and first in {"Activate", "Replace"}:
        return first, rest.removeprefix("operation ")
    if subject is not None and title.endswith(subject.name) and subject.kind in {"operation", "tool"}:
        return "Run", subject.name
    return ("", title) if first not in _DONE else (first, rest)


def agents_in(actor: str) -> tuple[str, ...]:
    """Return the names of the agents in an actor, those above first; none for a person, or a model of theirs."""
    if not actor.startswith("agent:"):
        return ()
    parts = actor.removeprefix("agent:").split("/")
    return tuple(part.rpartition("@")[0] for part in parts if "@" in part)


def asker_words(actor: str) -> str:
    """Return who asks, where that is an agent: itself, and for whom; empty for anybody else."""
    names = [one_line(name, 60) for name in reversed(agents_in(actor))]
    return ", for ".join(names)


def asker_html(ticket: Ticket) -> str:
    """Return which agent asks, and for whom; empty where none does."""
    words = asker_words(ticket.pending.actor)
    return f'<span class="dim asker">asked by <b>{escaped(words)}</b></span>' if words else ""


def _what_html(ticket: Ticket) -> str:
    verb, name = act(ticket)
    status, decision = ticket.status, ticket.last_decision
    is_code = bool(verb) and " " not in name
    shown = f"<code>{escaped(name)}</code>" if is_code else escaped(name)
    if status is PendingStatus.APPROVED and decision is not None and not outcome_text(ticket.pending):
        done = _DONE.get(verb, "Approved:")
    elif status is PendingStatus.PENDING:
        done = verb
    else:
        done = {"failed": "Failed:", "expired": "Expired:", "passed_through": "Left undecided:"}.get(
            status.value, ""
        )
        done = done or ("Approved" if status is PendingStatus.APPROVED else "Rejected")
    return f"{done} {shown}".strip()


def _brief_html(ticket: Ticket) -> str:
    """Return what tells it from others of its kind, cut at the end of the line: reason, failure or values."""
    status, decision = ticket.status, ticket.last_decision
    reason = (decision.reason if decision is not None else "") or ticket.pending.rejection_reason
    if status is PendingStatus.REJECTED and reason:
        return f'<span class="cut dim">“{escaped(one_line(reason, _LINE))}”</span>'
    if status is PendingStatus.FAILED and ticket.pending.error:
        return f'<span class="cut dim">{escaped(one_line(ticket.pending.error, _LINE))}</span>'
    undone = outcome_text(ticket.pending)
    if undone and not ticket.status.is_open:
        return f'<span class="cut dim">{escaped(undone)}</span>'
    subject = ticket.request.subject
    if subject is not None and subject.values:
        return f'<code class="cut">{values_in_brief(subject.values)}</code>'
    named, script = _shown_code(ticket)
    if script is not None:
        edits = (
            {} if decision is None else approval_terms(decision.action, decision.arguments).get("edits") or {}
        )
        return f'<span class="cut dim">{escaped(code_in_brief(str(edits.get(named, script.code))))}</span>'
    lines = sum(block.code.count("\n") + 1 for block in ticket.request.code if block.binds != "nothing")
    worst = worst_finding(ticket.request.code)
    said = [
        counted(lines, "line") if lines else ticket.request.summary,
        f"worst finding: {worst}" if worst else "",
    ]
    return f'<span class="cut dim">{escaped(one_line(", ".join(filter(None, said)), _LINE))}</span>'


def _shown_code(ticket: Ticket) -> tuple[str, CodeBlock | None]:
    """Return the code that is asked about, or was when it was decided, as in `asked_code`."""
    return asked_code(ticket.decided[-1][0] if ticket.decided else ticket.request)


_SHORT, _LINE = 80, 240  # characters of a value, and of a line


def code_in_brief(code: str) -> str:
    """Return what code says that it does: its first comment, in quotation marks; else its only line, or how many."""
    comment = code_comment(code)
    if comment:
        return f"“{comment}”"
    lines = printable(code).rstrip().split("\n")
    filled = [line for line in map(str.strip, lines) if line]
    return one_line(filled[0], _LINE) if len(filled) == 1 else f"{counted(len(lines), 'line')} of code"


def code_comment(code: str) -> str:
    """Return the first comment of code on a line of its own: what its author says that it does."""
    lines = map(str.strip, printable(code).split("\n"))
    comments = (line.lstrip("#!% ") for line in lines if line.startswith("#") and not line.startswith("#!"))
    return one_line(next(filter(None, comments), ""), _LINE)


_PLACES: Final = {"kernel": "runs in your kernel", "sandbox": "runs in the sandbox"}


def place_html(place: str) -> str:
    """Return the icon of the place where code runs; nothing if there is no code."""
    if place not in _PLACES:
        return ""
    return f'<i class="i i-{place}" role="img" aria-label="{_PLACES[place]}" title="{_PLACES[place]}"></i>'


def values_in_brief(values: Mapping[str, Any]) -> str:
    """Return values as `name=value, …` in HTML; each is cut, and so is the line."""
    parts: list[str] = []
    size = 0
    for name, value in values.items():
        text = show_value(value, _SHORT)
        size += len(name) + len(text)
        if parts and size > _LINE:
            parts.append("…")
            break
        css = "s" if isinstance(value, str) else "m" if isinstance(value, int | float) else ""
        shown = f'<span class="{css}">{escaped(text)}</span>' if css else escaped(text)
        parts.append(f'<span class="dim">{escaped(name)}=</span>{shown}')
    return ", ".join(parts)


_IN_PERSON = frozenset({"panel", "prompt"})
_BY = {"grant": "standing approval", "timeout": "not answered in time", "recorded": "recorded decision"}


def _who_html(ticket: Ticket) -> str:
    """Return who decided and when, in short; the rest stands in the record."""
    decision = ticket.last_decision
    if decision is None or ticket.status is PendingStatus.PENDING:
        asked = ticket.pending.created_at
        return (
            f'asked <time datetime="{asked.isoformat()}" title="{exact_time(asked)}">{_clock(asked)}</time>'
        )
    by = _BY.get(decision.channel, decision.decided_by)
    how = "" if decision.channel in _IN_PERSON | _BY.keys() else f" ({decision.channel})"
    at = decision.decided_at
    exact = escaped(exact_time(at))
    return f'{escaped(by + how)}, <time title="{exact}">{_clock(at)}</time>'


def _clock(moment: datetime) -> str:
    """Return a time as it stays true in a saved page, without the year."""
    return f"{moment.astimezone():%d %b %H:%M}".removeprefix("0")


def _result_html(ticket: Ticket) -> str:
    printed = _output_html("Printed", ticket.output) if ticket.output else ""
    result = ticket.pending.result
    is_made = isinstance(result, type)  # by an activation
    if result is None or is_made or ticket.status.is_open:
        return printed
    return printed + _output_html("Result", show_value(result, _RESULT_CHARACTERS))


def _output_html(title: str, text: str) -> str:
    return f'{sub_html(title)}<pre class="out">{escaped(text)}</pre>'


def _values_html(table: ValueTable, pending_id: str) -> str:
    """Return all values; a long one scrolls. What only explains, or only carrying it out needs, is folded."""
    kept = [row for row in table.rows if not row.is_default]
    left = tuple(replace(row, is_default=False) for row in table.rows if row.is_default)
    if left:
        names = one_line(", ".join(row.name for row in left), _LINE)
        named = f"{counted(len(left), 'value')} at {'their' if len(left) > 1 else 'its'} default: {names}"
        folded = _values_html(replace(table, title="", rows=left, binds="nothing", summary=""), pending_id)
        rest = _values_html(replace(table, rows=tuple(kept)), pending_id) if kept or table.summary else ""
        return rest + _folded(f"{table.title} defaults", named, folded)
    rows = shown_rows(table, pending_id)
    name, value, meaning = table.heads
    cells = {name: "name", "Type": "type", value: "value", meaning: "description"}
    heads = [head for head, part in cells.items() if any(getattr(row, part) for row in rows)]
    body = [[_cell_html(getattr(row, cells[head])) for head in heads] for row in rows]
    in_code = {heads.index(h) for h in ("Type", value) if h in heads}
    if table.summary:
        said = f"{sub_html(table.title)}<p>{escaped(table.summary)}</p>"
        return said + (
            _folded(table.title, f"All of it ({len(rows)})", _table_html("", heads, body, in_code))
            if rows
            else ""
        )
    made = _table_html(table.title, heads, body, in_code)
    if table.binds != "nothing" or sum(len(row.value) for row in rows) <= _FEW_PIECES:
        return made
    return _folded(table.title, table.title, _table_html("", heads, body, in_code))


def _folded(part: str, title: str, inner: str, icon: str = "chev") -> str:
    css = "chev" if icon == "chev" else f"i i-{icon}"
    return (
        f'<details class="more" data-part="{escaped(part)}"><summary {OWN_KEYS}><i class="{css}"></i>{escaped(title)}'
        f"</summary>{inner}</details>"
    )


def _cell_html(pieces: tuple[DisplayedPiece, ...]) -> str:
    """Return a part of a row; where it is long, in a box of its own that scrolls."""
    if len(pieces) <= _FEW_PIECES:
        return pieces_html(pieces)
    size = sum(len(piece.text) for piece in pieces)
    label = f"{size:,} characters"
    return (
        f'<span class="long" {OWN_KEYS} tabindex="0" role="region" aria-label="{label}">'
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
        f'{sub_html(title) if title else ""}<table class="t"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(map(row_html, rows))}</tbody></table>"
    )
