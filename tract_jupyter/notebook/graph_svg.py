"""The graph as one SVG element: lines, marks, and a row of words for each commit."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING
from zlib import crc32

from tract_jupyter.notebook.excerpts import text_width
from tract_jupyter.notebook.graph_rows import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.notebook.graph_layout import Edge, Layout
    from tract_jupyter.notebook.graph_rows import Label, Row

# Pixels. Nothing can measure text without a script, so widths of text are upper estimates for common fonts.
ROW = 22
_LANE = 15
_MARGIN = 12
_GAP = 14
_CODE = 7.0
_TEXT = 6.6
_COLOURS = 8  # as many as graph.css names


def graph_svg(layout: Layout, rows: Sequence[Row], label: str) -> str:
    """The drawing; everything escaped. Screen readers are told a list of commits."""
    columns = _Columns(layout, rows)
    colours = _colours(layout)
    height = ROW * (len(rows) + 1 + layout.is_cut)
    lines = "".join(_edge(edge, len(rows), colours) for edge in layout.edges)
    items = "".join(
        _item(row, number, layout.columns[number], colours[layout.strands[info.commit_hash]], columns)
        for number, (row, info) in enumerate(zip(rows, layout.commits, strict=True))
    )
    return (
        f'<svg role="list" aria-label="{html.escape(label)}" width="{columns.end:.0f}" height="{height}" '
        f'viewBox="0 0 {columns.end:.0f} {height}" xmlns="http://www.w3.org/2000/svg">'
        f'{columns.heads()}<g aria-hidden="true" class="tract-lines">{lines}</g>{items}'
        f"{_cut(columns, len(rows)) if layout.is_cut else ''}</svg>"
    )


class _Columns:
    """Where the words begin, by the longest of each kind."""

    def __init__(self, layout: Layout, rows: Sequence[Row]) -> None:
        self.code = 2 * _MARGIN + _LANE * (layout.width - 1) + 8
        self.time = self.code + 8 * _CODE + _GAP
        self.tokens = (  # these are flush right: where they end
            self.time + _widest((r.time for r in rows), 4) + _GAP + _widest((r.tokens for r in rows), 6)
        )
        self.kind = self.tokens + _GAP
        self.message = self.kind + _widest((r.kind for r in rows), 4) + _GAP
        self.end = max(
            [self.message + 90, *(self.message + _labels_width(r.labels) + _width(r.message) for r in rows)]
        )
        self.end += _MARGIN

    def heads(self) -> str:
        """The words above the columns; each row tells a screen reader what is what."""
        places = ((self.code, "", "commit"), (self.time, "", "time"), (self.tokens, "tract-right", "tokens"),
                  (self.kind, "", "kind"), (self.message, "", "message"))  # fmt: skip
        words = "".join(_text(x, _middle(-1), f"tract-dim {css}".strip(), word) for x, css, word in places)
        return f'<g aria-hidden="true">{words}</g>'


def _item(row: Row, number: int, column: int, colour: int, at: _Columns) -> str:
    y = _middle(number)
    labels, x = _labels(row.labels, at.message, y)
    dim = "tract-dim" if row.mark is Mark.SKIP else ""
    parts = (
        f"<title>{html.escape(row.hover)}</title>",
        f'<rect class="tract-row" x="0" y="{y - ROW // 2}" width="{at.end:.0f}" height="{ROW}"/>',
        dot(row.mark, _x(column), y, f"tract-c{colour}"),
        _text(at.code, y, "tract-code", row.short_hash),
        _text(at.time, y, "tract-dim", row.time),
        _text(at.tokens, y, "tract-right", row.tokens),
        _text(at.kind, y, dim or "tract-kind", row.kind),
        labels,
        _text(x, y, dim, row.message),
    )
    return f'<g role="listitem" aria-label="{html.escape(_spoken(row))}">{"".join(parts)}</g>'


def _spoken(row: Row) -> str:
    """The row as a sentence, for who hears it."""
    names = ", ".join(label.text for label in row.labels)
    parts = [
        f"{row.short_hash} {row.kind}",
        row.mark.value,
        f"{row.tokens} tokens",
        row.time,
        names,
        row.message,
    ]
    return ", ".join(part for part in parts if part)


def dot(mark: Mark, x: float, y: float, css: str) -> str:
    """The mark of a commit around a point."""
    css = f"tract-dot {css}"
    if mark is Mark.PINNED:
        return f'<path class="{css}" d="M{x} {y - 6}l6 6l-6 6l-6-6z"/>'
    if mark is Mark.IMPORTANT:
        return f'<path class="{css}" d="M{x} {y - 6}l6 10.5h-12z"/>'
    if mark is Mark.SKIP:
        return f'<circle class="{css} tract-hollow" cx="{x}" cy="{y}" r="4"/>'
    if mark is Mark.MERGE:
        ring = f'<circle class="{css} tract-hollow" cx="{x}" cy="{y}" r="5.5"/>'
        return f'{ring}<circle class="{css}" cx="{x}" cy="{y}" r="2.5"/>'
    return f'<circle class="{css}" cx="{x}" cy="{y}" r="{4.5 if mark is Mark.NORMAL else 2.5}"/>'


def _edge(edge: Edge, rows: int, colours: dict[str, int]) -> str:
    """A path from the child into its lane, down, and over to the parent; dashed at the end where it is cut."""
    css = f"tract-c{colours[edge.strand]}"
    x, y, lane = _x(edge.child_column), _middle(edge.child), _x(edge.lane)
    parent = rows if edge.parent is None else edge.parent
    if parent == edge.child + 1 and edge.parent is not None:
        return f'<path class="{css}" d="M{x} {y}{_curve(x, y, _x(edge.parent_column))}"/>'
    path = f"M{x} {y}"
    if lane != x:
        path += _curve(x, y, lane)
    if edge.parent is None:
        below = _middle(rows)
        start = min(below, _middle(edge.child) + (ROW if lane != x else 0))
        last = max(start, below - ROW)
        return f'<path class="{css}" d="{path}V{last}"/><path class="{css} tract-cut" d="M{lane} {last}V{below}"/>'
    path += f"V{_middle(parent - 1)}"
    return f'<path class="{css}" d="{path}{_curve(lane, _middle(parent - 1), _x(edge.parent_column))}"/>'


def _curve(x: float, y: float, to: float) -> str:
    """One row down and over to another column."""
    if x == to:
        return f"V{y + ROW}"
    return f"C{x} {y + ROW * 0.7:g} {to} {y + ROW * 0.3:g} {to} {y + ROW}"


def _labels(labels: Iterable[Label], x: float, y: float) -> tuple[str, float]:
    """The labels, and where they end."""
    drawn = []
    for label in labels:
        width = _label_width(label)
        drawn.append(
            f'<g class="tract-label tract-{label.kind}"><rect x="{x:g}" y="{y - 8}" width="{width:g}" height="16" '
            f'rx="{3 if label.kind == "tag" else 8}"/><text x="{x + 7:g}" y="{y + 4}" textLength="{width - 14:g}" '
            f'lengthAdjust="spacingAndGlyphs">{html.escape(_label_text(label))}</text></g>'
        )
        x += width + 5
    return "".join(drawn), x


def _label_text(label: Label) -> str:
    return f"#{label.text}" if label.kind == "tag" else label.text


def _label_width(label: Label) -> float:
    return round(6.7 * text_width(_label_text(label)) + 14, 1)


def _labels_width(labels: Iterable[Label]) -> float:
    return sum(_label_width(label) + 5 for label in labels)


def _colours(layout: Layout) -> dict[str, int]:
    """A colour for each line of development: by its name, so that it stays, or the next that is free."""
    colours: dict[str, int] = {}
    for strand in sorted(set(layout.strands.values()), key=lambda name: (name != "main", name)):
        wanted = 0 if strand == "main" else crc32(strand.encode(errors="replace")) % _COLOURS
        free = (c for c in range(wanted, wanted + _COLOURS) if c % _COLOURS not in colours.values())
        colours[strand] = next(free, wanted) % _COLOURS
    return colours


def _cut(at: _Columns, row: int) -> str:
    return _text(at.code, _middle(row), "tract-dim", "older commits are not shown")


def _text(x: float, y: float, css: str, text: str) -> str:
    name = f' class="{css}"' if css else ""
    return f'<text{name} x="{x:g}" y="{y + 4:g}">{html.escape(text)}</text>' if text else ""


def _widest(texts: Iterable[str], at_least: int) -> float:
    return max([at_least * _TEXT, *map(_width, texts)])


def _width(text: str) -> float:
    return text_width(text) * _TEXT


def _x(column: int) -> int:
    return _MARGIN + 4 + _LANE * column


def _middle(row: int) -> int:
    """The middle of a row; the first is below the heads."""
    return ROW * (row + 1) + ROW // 2
