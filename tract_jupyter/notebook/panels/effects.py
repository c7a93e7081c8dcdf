"""The effects of a rehearsal as HTML: a sentence, one line for each effect, figures and output.

A line with details is a `<details>` element, so it also unfolds in a saved notebook.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from tract_jupyter.models import counted, printable
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.diff import side_by_side
from tract_jupyter.notebook.views.html import Html, cell, element, fragment, table
from tract_jupyter.notebook.views.sanitized import needs_scripts, sanitized_html
from tract_jupyter.notebook.views.streams import ansi_html
from tract_jupyter.review import DELETED, keyed_lines, list_effects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.notebook.views.html import Cell, HtmlPart
    from tract_jupyter.rehearsal import Effects, Output, RowChange, TableChange
    from tract_jupyter.review import DisplayedPiece, EffectLine

_LOOKS: Final = {"+": "add", "~": "chg", DELETED: "del", "!": "del", "?": "chg", ">": "call"}
_MOST_OUTPUT: Final = 20_000
_MOST_HTML: Final = 200_000
_MOST_IMAGE: Final = 3_000_000
_NAME: Final = re.compile(r"`([^`]*)`")


def effects_html(effects: Effects, pending_id: str) -> Html:
    """Return the effects. The keys of the lines tell if they were on display."""
    pairs = list(keyed_lines(effects, pending_id))
    shown = list_effects(effects)
    lines = [_line_html(line, piece) for line, piece in pairs[: len(shown.lines)]]
    more = [_line_html(line, piece) for line, piece in pairs[len(shown.lines) :]]
    if more:
        title = f"{counted(shown.total - len(shown.lines), 'more effect')}"
        lines.append(rows.fold(title, more, data_part="more effects"))
    listed = element("div", lines, class_="fx-list") if lines else None
    return element(
        "div",
        element("p", sentence_html(effects.headline), class_="sentence"),
        listed,
        *_outputs_html(effects),
        class_="effects",
        role="group",
        aria_label="Effects of the rehearsal",
    )


def sentence_html(text: str) -> Html:
    """Return a sentence with the names between backticks in the code font."""
    parts = _NAME.split(printable(text))
    return fragment(element("code", part) if at % 2 else part for at, part in enumerate(parts))


def _line_html(line: EffectLine, piece: DisplayedPiece) -> Html:
    look = _LOOKS[line.mark]
    details, name = _details_html(line), "Changes" if line.diff or line.is_file else "Rows"
    cells = (
        element("span", line.mark, class_=f"fx-mark {look}", aria_hidden="true"),
        element(
            "span",
            element("span", f"{line.word} ", class_="said"),
            line.name,
            class_="fx-name",
            data_line=piece.key or None,
        ),
        element("span", line.text, class_="fx-text"),
    )
    if details is None:
        return element("div", cells, class_="fx")
    unfold = element("span", element("i", class_="chev"), name, class_="fx-more")
    return element(
        "details", element("summary", cells, unfold), details, class_="fx", data_part=f"effect {line.name}"
    )


def _details_html(line: EffectLine) -> Html | None:
    if line.diff:
        return side_by_side(line.diff, "Before", "After")
    if line.table is None or not line.table.sample:
        return None
    return _sample_html(line.table)


def differences_html(differences: str | TableChange | None) -> Html | None:
    """Return a diff, or a sample of rows, in a part that unfolds; None if there is none."""
    if isinstance(differences, str):
        return rows.fold("Changes", side_by_side(differences, "Now", "After the undo"))
    if differences is None or not differences.sample:
        return None
    return rows.fold("Changes", _sample_html(differences))


def _sample_html(change: TableChange) -> Html:
    """Return a sample of the changed rows. A table of new rows only looks like any table."""
    is_new = all(row.kind == "added" for row in change.sample)
    heads: list[HtmlPart | Cell] = [cell("row", class_="num"), *change.columns]
    lines = [line for row in change.sample for line in _row_html(row, is_new=is_new)]
    cells = max((count for _, count in change.changed_cells), default=0)
    total = max(len(change.sample), change.added_rows + change.removed_rows + cells)
    of_all = counted(total, "row" if is_new else "changed row")
    note = rows.dim(f"{len(change.sample):,} of {of_all}") if total > len(change.sample) else None
    return element(
        "div",
        table(lines, heads, class_="t fx-rows"),
        note,
        class_="fx-sample",
        tabindex="0",
        role="region",
        aria_label="Sample of rows",
    )


def _row_html(row: RowChange, *, is_new: bool) -> Iterator[Html]:
    number = "" if row.row is None else f"{row.row:,}"
    for side, (cells, other) in {"del": (row.before, row.after), "add": (row.after, row.before)}.items():
        if not cells:
            continue
        mark = "" if is_new else f"{DELETED} " if side == "del" else "+ "
        tag = "del" if side == "del" else "ins"
        texts = [
            element("td", element(tag, text) if len(other) == len(cells) and other[at] != text else text)
            for at, text in enumerate(cells)
        ]
        yield element(
            "tr", element("td", f"{mark}{number}", class_="num"), texts, class_=None if is_new else side
        )


def _outputs_html(effects: Effects) -> Iterator[Html]:
    text = ""
    for output in effects.outputs:
        if output.kind in {"text", "error"} and not output.data:
            text += output.text
            continue
        if text.strip():
            yield _text_html(text)
        text = ""
        yield _rich_html(output)
    if text.strip():
        yield _text_html(text)


def _text_html(text: str) -> Html:
    more = f"\n… {len(text) - _MOST_OUTPUT:,} more characters" if len(text) > _MOST_OUTPUT else ""
    return element(
        "pre",
        ansi_html(text[:_MOST_OUTPUT].rstrip()),
        more,
        class_="out fx-out",
        tabindex="0",
        role="region",
        aria_label="Output of the rehearsal",
    )


def _rich_html(output: Output) -> Html:
    for mime in ("image/png", "image/jpeg"):
        image = output.data.get(mime)
        if isinstance(image, bytes) and len(image) <= _MOST_IMAGE:
            source = f"data:{mime};base64,{base64.b64encode(image).decode('ascii')}"
            return element("div", element("img", src=source, alt="Figure of the rehearsal"), class_="fx-fig")
    html = output.data.get("text/html")
    if isinstance(html, str) and len(html) <= _MOST_HTML and not needs_scripts(html):
        return element(
            "div",
            sanitized_html(html),
            class_="fx-html",
            tabindex="0",
            role="region",
            aria_label="Result of the rehearsal",
        )
    return _text_html(output.text)
