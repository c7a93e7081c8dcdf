"""A `RequestView` as HTML: the row with the question, the full request, and the record of a saved notebook.

A record is one folded line, a `<details>` element without a script. It includes its styles. `review.view` explains
how to add a piece to the body.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import PendingStatus, counted, exact_time, one_line
from tract_jupyter.notebook.panels.code import code_html, findings_html, is_listed
from tract_jupyter.notebook.panels.effects import effects_html
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.diff import side_by_side, texts_side_by_side, two_columns
from tract_jupyter.notebook.views.html import Html, element, fragment, pieces_html, table, time_html
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.review import (
    CHOICES,
    SHORT_FINGERPRINT,
    CodeBlock,
    CodeOutput,
    EffectsPiece,
    Paragraph,
    TextChoice,
    ValueComparison,
    ValueTable,
    bound_pieces,
    how_to_decide,
    record_text,
    shown_choice,
    shown_rows,
    view_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from tract_jupyter.review import BodyPiece, DisplayedPiece, RequestView, ShownValue, Ticket

RECORD_STYLES = ("panels/record.css", "panels/effects.css")
"""The style sheets of records. The styles of all outputs are separate."""
_LINE = 240
_FEW_PIECES = 8  # a value with more pieces gets a box


def record(ticket: Ticket) -> dict[str, str]:
    """Return the record as a mime bundle for IPython."""
    return {"text/html": record_html(ticket), "text/plain": record_text(ticket)}


def record_html(ticket: Ticket) -> str:
    """Return a self-contained line that unfolds to the request and its decision."""
    return str(output_html(element("div", row_html(ticket), class_="list alone"), *RECORD_STYLES))


def row_html(ticket: Ticket, *, brief: bool = False) -> Html:
    """Return the record as a row of a list. The list needs `RECORD_STYLES`.

    Args:
        ticket: the request.
        brief: leave out findings and outcome, for a long list. All that an approval binds to stays.
    """
    view = view_request(ticket)
    title = view.request.title
    full = fragment(_bound_html(view), _foot_html(view)) if brief else full_html(view)
    how = element("code", how_to_decide(view.request.pending_id))
    hint = element("p", how, " decides it without buttons", class_="dim") if view.is_open else ""
    body = fragment(element("p", element("b", title)), full, hint)
    attributes = {"data_testid": "tract-record", "data_status": view.status.value, "aria_label": title}
    return element(
        "details",
        element("summary", element("i", class_="chev"), _line_html(view)),
        element("div", Html(_KEYS.sub("", body)), class_="body"),  # a record takes no decisions
        class_="row",
        **attributes,
    )


_KEYS = re.compile(r' data-line="[^"]*"')


# --- the row that asks


def headline_html(view: RequestView) -> Html:
    """Return the question in a few words, the icon of the place where its code runs, and the requesting agent."""
    words, name, title = view.headline
    named = [f"{words} ", element("code", name)] if name else [words]
    return fragment(element("b", *named, title=title or None), place_html(view.place), _asker_html(view))


def risk_html(view: RequestView) -> Html:
    """Return the worst finding as a chip and a sentence with buttons for line numbers; or the summary."""
    level, count, about, where = view.risk
    chip = element("span", count, class_=f"chip {level.value if level else 'none'}") if count else ""
    if level is None or view.request.effects is not None:
        return fragment(chip, element("span", about, class_="cut dim"))
    lines = [
        element("button", part, type="button", class_="plain jump", aria_label=f"line {part}")
        if part.isdigit()
        else part
        for part in re.split(r"(\d+)", where)
    ]
    sentence = [f"{about} (", *lines, ")"] if about else ["in ", *lines]
    return fragment(chip, element("span", *sentence, class_="cut dim"))


_PLACES: Final = {"kernel": "runs in your kernel", "sandbox": "runs in the sandbox"}


def place_html(place: str) -> Html:
    """Return the icon of the place where code runs; empty without code."""
    words = _PLACES.get(place)
    return (
        element("i", class_=f"i i-{place}", role="img", aria_label=words, title=words) if words else Html("")
    )


def _asker_html(view: RequestView) -> Html:
    if not view.asker:
        return Html("")
    return element("span", "asked by ", element("b", view.asker), class_="dim asker")


def value_css(text: str) -> str:
    """Return the CSS class of a value: strings, numbers or constants of Python; empty for others."""
    if text in {"True", "False", "None"}:
        return "k"
    return "s" if _QUOTED.match(text) else "m" if _NUMBER.match(text) else ""


_QUOTED = re.compile(r"b?['\"]")
_NUMBER = re.compile(r"-?\d")


# --- the line of a record

_LOOKS = {
    PendingStatus.PENDING: ("wait", "waiting"),
    PendingStatus.APPROVED: ("done", "done"),
    PendingStatus.REJECTED: ("no", "rejected"),
    PendingStatus.FAILED: ("no", "failed"),
    PendingStatus.EXPIRED: ("idle", "expired"),
    PendingStatus.PASSED_THROUGH: ("idle", "passed through"),
}
"""The icon of each state, and its word for screen readers."""


def _line_html(view: RequestView) -> Html:
    outcome, (icon, word) = view.outcome, _LOOKS[view.status]
    name = element("code", outcome.name) if outcome.is_code else outcome.name
    what = [f"{outcome.verb} ", name] if outcome.verb else [name]
    if outcome.values:
        reason = element("code", _values_html(outcome.values), class_="cut")
    else:
        reason = element("span", outcome.reason, class_="cut dim")
    badges = [element("span", f"{outcome.changed} changed", class_="badge") if outcome.changed else ""]
    badges += (
        [element("span", "waiting", class_="badge wait")] if view.status is PendingStatus.PENDING else []
    )
    clock = _clock(outcome.at)
    if outcome.by:
        who = [f"{outcome.by}, ", element("time", clock, title=exact_time(outcome.at))]
    else:
        at = {"datetime": outcome.at.isoformat(), "title": exact_time(outcome.at)}
        who = ["asked ", element("time", clock, **at)]
    parts = [element("i", class_=f"i i-{icon}"), element("span", word, class_="said"), element("b", *what)]
    return fragment(*parts, _asker_html(view), reason, *badges, element("small", *who))


def _values_html(values: Iterable[ShownValue]) -> Html:
    parts = []
    for name, text, _ in values:
        value = element("span", text, class_=value_css(text)) if value_css(text) else text
        parts.append(fragment(element("span", f"{name}=", class_="dim"), value) if name else text)
    return Html(", ").join(fragment(part) for part in parts)


def _clock(moment: datetime) -> str:
    """Return a time without the year. It stays correct in a saved page."""
    return f"{moment.astimezone():%d %b %H:%M}".removeprefix("0")


# --- the full request


def body_html(ticket: Ticket, *, why: bool = True) -> str:
    """Return the full request, without the line above it and the buttons. `why` includes the reason."""
    return str(full_html(view_request(ticket), why=why))


def full_html(view: RequestView, *, why: bool = True, asked_by: bool = True, effects: bool = True) -> Html:
    """Return the full request of a view. The calling code (`asked_by`) is not bound by an approval."""
    request = view.request
    body = [piece for piece in view.body if asked_by or not _is_caller(piece)]
    shown = [piece for piece in body if isinstance(piece.content, EffectsPiece)]
    body = [piece for piece in body if piece not in shown]
    leading = [*(shown if effects else ()), *(piece for piece in body if view.is_code and piece.value)]
    is_told = (view.is_code and view.is_open) or bool(shown)  # in the row, or by the effects
    summary = element("p", request.summary) if request.summary and not is_told else ""
    rest = [piece for piece in body if piece not in leading and not piece.is_aside]
    parts = [*_draw(view, leading), summary, *_draw(view, rest)]
    foot = _foot_html(view)
    if not view.is_open:
        return fragment(*parts, foot)
    reason = element("p", element("b", "Reason for asking:"), f" {view.why}", class_="why")
    findings = [findings_html(block) for block in request.code if not is_listed(block)]
    asides = sorted(
        (piece for piece in body if piece.is_aside), key=lambda one: isinstance(one.content, CodeBlock)
    )
    about = fragment(reason if why and view.why else "", *findings, *_draw(view, asides), foot)
    return fragment(*parts, rows.fold("About this request", about, icon=rows.icon("info"), data_part="about"))


def _is_caller(piece: BodyPiece) -> bool:
    return isinstance(piece.content, CodeBlock) and piece.content.binds == "nothing"


def _draw(view: RequestView, pieces: Iterable[BodyPiece]) -> list[Html]:
    return [_PIECES[type(piece.content)](piece.content, piece, view) for piece in pieces]


def _code_piece(block: CodeBlock, piece: BodyPiece, view: RequestView) -> Html:
    is_listed_apart = view.is_open and block.language != "text" and not piece.is_aside  # in the folded part
    return code_html(block, piece.value, listed=not is_listed_apart)


def _comparison_piece(piece: ValueComparison, *_: object) -> Html:
    lines = [(c.name, c.before, c.after) for c in piece.changes if not c.diff]
    heads = ("Name", "Before", "After")
    changed = table_html("Changed before approving", heads, lines, {1, 2}) if lines else None
    return fragment(changed, *(change_html(c.diff) for c in piece.changes if c.diff))


def _paragraph_piece(piece: Paragraph, *_: object) -> Html:
    if piece.kind == "remark":
        return element("p", piece.text, class_="note")
    return element("pre", piece.text, class_="note no" if piece.kind == "failure" else "note")


_PIECES: dict[type, Callable[[Any, BodyPiece, RequestView], Html]] = {
    EffectsPiece: lambda piece, _, view: effects_html(piece.effects, view.request.pending_id),
    CodeBlock: _code_piece,
    TextChoice: lambda choice, _, view: _choice_html(choice, view.request.pending_id),
    ValueTable: lambda values, _, view: _table_html(values, view.request.pending_id),
    ValueComparison: _comparison_piece,
    CodeOutput: lambda output, *_: fragment(rows.sub(output.title), rows.out(output.text)),
    Paragraph: _paragraph_piece,
}
"""The function that draws each kind of piece."""


def change_html(diff: str) -> Html:
    """Return a change that the user made before approving, in two columns."""
    return fragment(rows.sub("Changed before approving"), side_by_side(diff, "Asked", "Approved"))


def _bound_html(view: RequestView) -> Html:
    """Return only the content that an approval binds to, without findings."""
    parts: list[Html] = []
    for piece in bound_pieces(view.request):
        if not isinstance(piece.content, CodeBlock):
            parts += _draw(view, [piece])
        elif piece.content.binds != "nothing":
            parts.append(code_html(replace(piece.content, findings=())))
    return fragment(parts)


def _foot_html(view: RequestView) -> Html:
    """Return the decision, with the full fingerprint as a tooltip."""
    short = f"fingerprint {view.fingerprint[:SHORT_FINGERPRINT]}"
    pinned = element("span", short, title=view.fingerprint)
    if view.decided is None:
        return element("p", "An approval counts for exactly this (", pinned, ").", class_="dim")
    by, at, reason = view.decided
    reason_text = f": {reason}" if reason else ""
    return element("p", f"{by}, ", time_html(at), f"{reason_text} · ", pinned, class_="dim")


def _choice_html(choice: TextChoice, pending_id: str) -> Html:
    """Return both texts in two columns, followed by the decision about them."""
    texts = shown_choice(choice, pending_id)
    heads = [
        f"{side}{' leaves it out' if text is None else ''}"
        for side, text in zip(choice.sides, (choice.ours, choice.theirs), strict=True)
    ]
    sides = two_columns(heads[0], heads[1], texts_side_by_side(texts.ours, texts.theirs), "diff sides")
    decided = pieces_html(texts.decided) or choice.said
    other = Html("\n").join(pieces_html([line]) for line in texts.other)
    word = choice.decided if choice.decided in CHOICES else "" if choice.decided is None else "other"
    return element(
        "div",
        rows.sub(choice.title),
        sides,
        element("p", element("span", decided, class_="dim"), class_="taken"),
        element("pre", other, class_="out") if texts.other else "",
        class_="choice",
        role="group",
        aria_label=choice.title,
        data_decided=word,
    )


def _table_html(values: ValueTable, pending_id: str) -> Html:
    """Return all values. Long values scroll; explanatory tables and default values are folded."""
    changed = [row for row in values.rows if not row.is_default]
    defaults = tuple(replace(row, is_default=False) for row in values.rows if row.is_default)
    if defaults:
        names = one_line(", ".join(row.name for row in defaults), _LINE)
        title = (
            f"{counted(len(defaults), 'value')} at {'their' if len(defaults) > 1 else 'its'} default: {names}"
        )
        folded = _table_html(
            replace(values, title="", rows=defaults, binds="nothing", summary=""), pending_id
        )
        visible = changed or values.summary
        rest = _table_html(replace(values, rows=tuple(changed)), pending_id) if visible else ""
        return fragment(rest, rows.fold(title, folded, data_part=f"{values.title} defaults"))
    lines = shown_rows(values, pending_id)
    name, value, meaning = values.heads
    cells = {name: "name", "Type": "type", value: "value", meaning: "description"}
    heads = [head for head, part in cells.items() if any(getattr(row, part) for row in lines)]
    body = [[_cell_html(getattr(row, cells[head])) for head in heads] for row in lines]
    code = {heads.index(head) for head in ("Type", value) if head in heads}
    if values.summary:
        about = fragment(rows.sub(values.title), element("p", values.summary))
        if not lines:
            return about
        table = table_html("", heads, body, code)
        return fragment(about, rows.fold(f"All of it ({len(lines)})", table, data_part=values.title))
    if values.binds != "nothing" or sum(len(row.value) for row in lines) <= _FEW_PIECES:
        return table_html(values.title, heads, body, code)
    return rows.fold(values.title, table_html("", heads, body, code), data_part=values.title)


def _cell_html(pieces: tuple[DisplayedPiece, ...]) -> Html:
    text = pieces_html(pieces)
    if len(pieces) <= _FEW_PIECES:
        return text
    label = f"{sum(len(piece.text) for piece in pieces):,} characters"
    return element("span", text, class_="long", tabindex="0", role="region", aria_label=label)


def table_html(title: str, heads: Iterable[str], lines: Iterable[Iterable[str]], code: set[int]) -> Html:
    """Return a table below a heading, with names in its first column. The columns `code` use the code font."""
    cells = (
        [element("code", text) if place in code else text for place, text in enumerate(line)]
        for line in lines
    )
    return fragment(rows.sub(title) if title else None, table(cells, heads, has_names=True))
