"""The graph in plain text, one line for each commit and one more where lines turn."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tract_jupyter.notebook.graph_rows import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.notebook.graph_layout import Edge, Layout
    from tract_jupyter.notebook.graph_rows import Row

GLYPHS = {
    Mark.PINNED: "◆",
    Mark.IMPORTANT: "▲",
    Mark.NORMAL: "●",
    Mark.SKIP: "○",
    Mark.CHANGE: "•",
    Mark.MERGE: "◎",
}
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOXES = " │││─╯╮┤─╰╭├─┴┬┼"  # at the sum of the directions


def graph_text(layout: Layout, rows: Sequence[Row]) -> str:
    """Lanes, marks and words. The first parent is below in the same lane or where that lane turns to."""
    begins: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in layout.edges:
        begins[edge.child].append(edge)
    lines: list[str] = []
    running: list[Edge] = []
    for number, row in enumerate(rows):
        running = [edge for edge in running if edge.parent != number]
        cells = _verticals(running, layout.width)
        graph = _draw(cells, {layout.columns[number]: GLYPHS[row.mark]})
        lines.append(f"{graph}{_words(row)}")
        running += begins[number]
        lines += _turns(running, number, layout.width)
    if layout.is_cut:
        lines.append(
            f"{_draw(_verticals(running, layout.width)).replace('│', '┆')}older commits are not shown"
        )
    return "\n".join(lines)


def _turns(running: Iterable[Edge], row: int, width: int) -> list[str]:
    """The lines between this row and the next: first what leaves this commit's column, then what reaches the next's."""
    leaving = [e for e in running if e.child == row and e.lane != e.child_column]
    arriving = [e for e in running if e.parent == row + 1 and e.lane != e.parent_column]
    drawn = []
    if leaving:
        cells = _verticals((e for e in running if e not in leaving), width)
        for edge in leaving:
            _turn(cells, edge.child_column, _UP, edge.lane, _DOWN)
        drawn.append(_draw(cells).rstrip())
    if arriving:
        cells = _verticals((e for e in running if e not in arriving), width)
        for edge in arriving:
            _turn(cells, edge.lane, _UP, edge.parent_column, _DOWN)
        drawn.append(_draw(cells).rstrip())
    return drawn


def _verticals(edges: Iterable[Edge], width: int) -> list[int]:
    cells = [0] * width
    for edge in edges:
        cells[edge.lane] = _UP | _DOWN
    return cells


def _turn(cells: list[int], start: int, out: int, end: int, into: int) -> None:
    """Draw a line that comes from above (`out` is up) in one column, and goes on below in another."""
    step, ahead, back = (1, _RIGHT, _LEFT) if end > start else (-1, _LEFT, _RIGHT)
    cells[start] |= out | ahead
    for column in range(start + step, end, step):
        cells[column] |= _LEFT | _RIGHT
    cells[end] |= into | back


def _draw(cells: Sequence[int], marks: dict[int, str] | None = None) -> str:
    marked = marks or {}
    return "".join(
        marked.get(column, _BOXES[cell]) + ("─" if cell & _RIGHT else " ")
        for column, cell in enumerate(cells)
    )


def _words(row: Row) -> str:
    labels = ", ".join(f"#{label.text}" if label.kind == "tag" else label.text for label in row.labels)
    parts = [row.short_hash, f"({labels})" if labels else "", f"{row.kind}:", row.message]
    return f"{' '.join(part for part in parts if part)} · {row.tokens} tokens · {row.time}"
