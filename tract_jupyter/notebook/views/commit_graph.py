"""The history as a graph of commits: its layout, its rows, and its drawing as SVG and as text.

Rows are numbered from the newest commit down, columns from the left. An edge leaves its child for a lane, runs down
in it, and turns to its parent just above the parent's row.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tract_jupyter.models import (
    CommitOperation,
    Priority,
    counted,
    more_characters,
    one_line,
    printable,
    show_tokens,
)
from tract_jupyter.notebook.views import svg
from tract_jupyter.notebook.views.html import (
    View,
    element,
    fragment,
    heading,
    join_names,
    root_html,
    style_tag,
    text_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.models import BranchInfo, CommitInfo
    from tract_jupyter.notebook.views.html import Attribute, Html


@dataclass(frozen=True, slots=True)
class Edge:
    """The line from a child to a parent.

    If `parent` is None, the parent is not shown, and the line continues to the bottom.
    """

    child: int
    parent: int | None
    child_column: int
    lane: int
    parent_column: int
    strand: str
    """The line of development of the edge."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of commits, the column of each, and all edges."""

    commits: tuple[CommitInfo, ...]
    columns: tuple[int, ...]
    edges: tuple[Edge, ...]
    strands: Mapping[str, str]
    """The branch that owns each commit in the drawing, or the newest commit of a line without a branch."""
    width: int
    """The number of columns."""

    @property
    def is_cut(self) -> bool:
        """True if some parents are not shown."""
        return any(edge.parent is None for edge in self.edges)


def lay_out(commits: Iterable[CommitInfo], branches: Sequence[BranchInfo]) -> Layout:
    """Place the commits: children above their parents, otherwise the newest first."""
    ordered = newest_first(commits)
    strands = strands_of(ordered, branches)
    lanes = _Lanes({info.commit_hash for info in ordered}, strands)
    first = next((b.commit_hash for b in _by_rank(branches) if b.commit_hash in lanes.shown), None)
    if first is not None:
        lanes.expect(first)  # the first branch keeps the leftmost lane, wherever its tip is
    columns = tuple(lanes.place(row, info) for row, info in enumerate(ordered))
    return Layout(tuple(ordered), columns, tuple(lanes.finish()), strands, max(lanes.width, 1))


def newest_first(commits: Iterable[CommitInfo]) -> list[CommitInfo]:
    """Return each commit once, children before their parents, otherwise the newest first."""
    known = {info.commit_hash: info for info in commits}
    children = dict.fromkeys(known, 0)
    for info in known.values():
        for parent in set(info.parents) & known.keys():
            children[parent] += 1
    order = {commit: number for number, commit in enumerate(known)}
    ready = [(-i.created_at.timestamp(), order[c], c) for c, i in known.items() if not children[c]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        info = known[heapq.heappop(ready)[2]]
        ordered.append(info)
        for parent in set(info.parents) & known.keys():
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-known[parent].created_at.timestamp(), order[parent], parent))
    return ordered


def strands_of(ordered: Sequence[CommitInfo], branches: Sequence[BranchInfo]) -> dict[str, str]:
    """Return the line of development of each commit.

    A branch owns the first parents of its tip, unless an earlier branch owns them.
    """
    known = {info.commit_hash: info for info in ordered}
    strands: dict[str, str] = {}
    tips = [(branch.commit_hash, branch.name) for branch in _by_rank(branches)]
    for tip, name in [*tips, *((info.commit_hash, info.commit_hash) for info in ordered)]:
        commit = tip
        while commit is not None and commit in known and commit not in strands:
            strands[commit] = name
            commit = known[commit].parent_hash
    return strands


def _by_rank(branches: Sequence[BranchInfo]) -> list[BranchInfo]:
    return sorted(branches, key=lambda branch: (branch.name != "main", branch.name))


@dataclass
class _Lanes:
    """The lanes of the graph from the newest row down, each with the commit at its end."""

    shown: set[str]
    strands: Mapping[str, str]
    _targets: list[str | None] = field(default_factory=list)
    _open: defaultdict[str, list[Edge]] = field(default_factory=lambda: defaultdict(list))
    """The lines that have not reached their parent yet."""
    _edges: list[Edge] = field(default_factory=list)

    @property
    def width(self) -> int:
        return len(self._targets)

    def expect(self, commit: str) -> int:
        """Reserve the first free lane for a commit."""
        lane = next((i for i, target in enumerate(self._targets) if target is None), self.width)
        self._targets[lane : lane + 1] = [commit]
        return lane

    def place(self, row: int, info: CommitInfo) -> int:
        """Put the commit into its lane, or into a new one, and return the column."""
        commit = info.commit_hash
        column = self._lane_to(commit)
        if column is None:
            column = self.expect(commit)
        lines = self._open.pop(commit, ())
        self._edges += [replace(line, parent=row, parent_column=column) for line in lines]
        self._targets = [None if target == commit else target for target in self._targets]
        for index, parent in enumerate(info.parents):
            lane = self._leave(column, parent, is_first=index == 0)
            strand = self.strands[commit] if index == 0 else self.strands.get(parent, self.strands[commit])
            self._open[parent].append(Edge(row, None, column, lane, lane, strand))
        return column

    def finish(self) -> list[Edge]:
        """Return all edges. The parents of lines that are still open are not shown."""
        return self._edges + [line for lines in self._open.values() for line in lines]

    def _leave(self, column: int, parent: str, *, is_first: bool) -> int:
        if is_first:
            self._targets[column] = parent
            return column
        lane = self._lane_to(parent)
        return self.expect(parent) if lane is None else lane

    def _lane_to(self, commit: str) -> int | None:
        return next((i for i, target in enumerate(self._targets) if target == commit), None)


_MESSAGE_LENGTH = 72
_KIND_LENGTH = 30
_LABEL_LENGTH = 40
_MOST_LABELS = 6
_CONTENT_LENGTH = 600
_ANNOTATIONS = {
    Priority.PINNED: "pin",
    Priority.IMPORTANT: "mark important",
    Priority.NORMAL: "back to normal",
    Priority.SKIP: "skip",
}


class GraphMark(StrEnum):
    """The shape of a commit's dot: the priority of a message, or a commit without a message."""

    PINNED = "pinned"
    IMPORTANT = "important"
    NORMAL = "normal"
    SKIP = "skip"
    CHANGE = "edit or annotation"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Label:
    """A name at a commit: `kind` is `current`, `branch`, `head` (detached), `tag` or `more`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class CommitRow:
    """The texts of one commit. They have no hidden characters, and are not escaped yet."""

    short_hash: str
    mark: GraphMark
    kind: str
    tokens: str
    time: str
    message: str
    labels: tuple[Label, ...]
    hover: str


def make_rows(
    commits: Sequence[CommitInfo],
    branches: Iterable[BranchInfo],
    head: str | None,
    contents: Mapping[str, str],
    roles: Mapping[str, str],
) -> list[CommitRow]:
    """Return one row for each commit, in the same order."""
    names = _names(branches, head)
    pattern = _time_pattern([info.created_at for info in commits])
    return [
        CommitRow(
            short_hash=info.short_hash,
            mark=_mark(info),
            kind=one_line(_kind(info, roles.get(info.commit_hash, "")), _KIND_LENGTH),
            tokens=show_tokens(info.token_count, info.token_counter),
            time=info.created_at.astimezone().strftime(pattern),
            message=one_line(info.message, _MESSAGE_LENGTH),
            labels=_labels(names.get(info.commit_hash, []), info.tags),
            hover=_hover(info, contents.get(info.commit_hash, "")),
        )
        for info in commits
    ]


def _names(branches: Iterable[BranchInfo], head: str | None) -> dict[str, list[Label]]:
    names: dict[str, list[Label]] = {}
    attached = None
    for branch in sorted(branches, key=lambda branch: (not branch.is_current, branch.name)):
        text = one_line(branch.name, _LABEL_LENGTH)
        label = Label("current", f"HEAD → {text}") if branch.is_current else Label("branch", text)
        attached = branch.commit_hash if branch.is_current else attached
        if branch.commit_hash is not None:
            names.setdefault(branch.commit_hash, []).append(label)
    if head is not None and head != attached:
        names.setdefault(head, []).insert(0, Label("head", "detached HEAD"))
    return names


def _labels(names: list[Label], tags: Sequence[str]) -> tuple[Label, ...]:
    labels = [*names, *(Label("tag", one_line(tag, _LABEL_LENGTH)) for tag in tags[: _MOST_LABELS + 1])]
    more = len(names) + len(tags) - _MOST_LABELS
    return tuple(labels) if more <= 0 else (*labels[:_MOST_LABELS], Label("more", f"{more} more"))


def _mark(info: CommitInfo) -> GraphMark:
    if info.operation is CommitOperation.MERGE:
        return GraphMark.MERGE
    return GraphMark(info.priority.value) if info.operation is CommitOperation.APPEND else GraphMark.CHANGE


def _kind(info: CommitInfo, role: str) -> str:
    target = (info.edit_target or "")[:8]
    if info.operation is CommitOperation.EDIT:
        return f"edit of {target}"
    if info.operation is CommitOperation.ANNOTATE:
        return f"{_ANNOTATIONS[info.priority]} {target}"
    if info.operation is CommitOperation.MERGE:
        return "merge"
    if info.metadata.get("tool_call_id"):
        failed = "failed " if info.metadata.get("is_error") else ""
        return f"{failed}result of {info.metadata.get('name') or 'a tool'}"
    speaker = role if role and info.content_type == "dialogue" else info.content_type
    called = _called(info.metadata.get("tool_calls"))
    return f"{speaker} calls {called}" if called else speaker


def _called(calls: Any) -> str:
    items = calls if isinstance(calls, list | tuple) else ()
    return ", ".join(str(call["name"]) for call in items if isinstance(call, dict) and call.get("name"))


def _time_pattern(times: Sequence[datetime]) -> str:
    days = {moment.astimezone().date() for moment in times}
    if len(days) <= 1:
        return "%H:%M:%S"
    return "%m-%d %H:%M" if len({day.year for day in days}) == 1 else "%Y-%m-%d %H:%M"


def _hover(info: CommitInfo, content: str) -> str:
    when = info.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    parts = [info.priority.value] if info.operation is CommitOperation.APPEND else []
    parts += [f"{show_tokens(info.token_count, info.token_counter)} tokens", when]
    lines = [info.commit_hash, " · ".join(parts)]
    if info.tags:
        lines.append(f"tags: {one_line(', '.join(info.tags), _CONTENT_LENGTH)}")
    if info.context_messages:
        total = show_tokens(info.context_tokens, info.token_counter)
        lines.append(f"the context up to here: {counted(info.context_messages, 'message')}, {total} tokens")
    if content:
        lines += [
            "",
            printable(content, _CONTENT_LENGTH) + more_characters(content, _CONTENT_LENGTH),
        ]
    return "\n".join(lines)


GLYPHS = {
    GraphMark.PINNED: "◆",
    GraphMark.IMPORTANT: "▲",
    GraphMark.NORMAL: "●",
    GraphMark.SKIP: "○",
    GraphMark.CHANGE: "•",
    GraphMark.MERGE: "◎",
}
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOXES = " │││─╯╮┤─╰╭├─┴┬┼"  # at the sum of the directions


def graph_text(layout: Layout, rows: Sequence[CommitRow]) -> str:
    """Draw lanes, marks and texts as text. The first parent is below in the same lane, or at the turn of the lane."""
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


def _turns(running: Sequence[Edge], row: int, width: int) -> list[str]:
    leaving = [(e, e.child_column, e.lane) for e in running if e.child == row and e.lane != e.child_column]
    arriving = [
        (e, e.lane, e.parent_column) for e in running if e.parent == row + 1 and e.lane != e.parent_column
    ]
    turns = []
    for turning in filter(None, (leaving, arriving)):
        straight = set(running) - {edge for edge, _, _ in turning}
        cells = _verticals(straight, width)
        for _, start, end in turning:
            _turn(cells, start, _UP, end, _DOWN)
        turns.append(_draw(cells).rstrip())
    return turns


def _verticals(edges: Iterable[Edge], width: int) -> list[int]:
    cells = [0] * width
    for edge in edges:
        cells[edge.lane] = _UP | _DOWN
    return cells


def _turn(cells: list[int], start: int, out: int, end: int, into: int) -> None:
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


def _words(row: CommitRow) -> str:
    labels = ", ".join(f"#{label.text}" if label.kind == "tag" else label.text for label in row.labels)
    parts = [row.short_hash, f"({labels})" if labels else "", f"{row.kind}:", row.message]
    return f"{' '.join(part for part in parts if part)} · {row.tokens} tokens · {row.time}"


# Pixels. Text cannot be measured without a script, so widths are upper estimates for common fonts.
ROW = 22
_LANE = 15
_MARGIN = 12
_GAP = 14
_CODE = 7.0
_TEXT = 6.6
_COLOURS = 8  # as many as graph.css names


def graph_svg(layout: Layout, rows: Sequence[CommitRow], label: str) -> Html:
    """Return the drawing. For screen readers, it is a list of commits."""
    columns = _Columns(layout, rows)
    colours = _colours(layout)
    height = ROW * (len(rows) + 1 + layout.is_cut)
    lines = (_edge(edge, len(rows), colours) for edge in layout.edges)
    items = (
        _item(row, number, layout.columns[number], colours[layout.strands[info.commit_hash]], columns)
        for number, (row, info) in enumerate(zip(rows, layout.commits, strict=True))
    )
    cut = svg.text(columns.code, _middle(len(rows)), "older commits are not shown", "tract-dim")
    content = [
        columns.heads(),
        svg.unspoken(lines, look="tract-lines"),
        items,
        cut if layout.is_cut else None,
    ]
    return svg.drawing(round(columns.end), height, label, content)


class _Columns:
    """The columns of texts. Their positions depend on the longest texts."""

    def __init__(self, layout: Layout, rows: Sequence[CommitRow]) -> None:
        self.code = 2 * _MARGIN + _LANE * (layout.width - 1) + 8
        self.time = self.code + 8 * _CODE + _GAP
        self.tokens = (  # the right end, because they are flush right
            self.time + _widest((r.time for r in rows), 4) + _GAP + _widest((r.tokens for r in rows), 6)
        )
        self.kind = self.tokens + _GAP
        self.message = self.kind + _widest((r.kind for r in rows), 4) + _GAP
        ends = [sum(_label_width(label) + 5 for label in row.labels) + _width(row.message) for row in rows]
        self.end = self.message + max([90.0, *ends])
        self.end += _MARGIN

    def heads(self) -> Html:
        """Return the heads of the columns. Screen readers get the names in each row."""
        places = ((self.code, "", "commit"), (self.time, "", "time"), (self.tokens, "tract-right", "tokens"),
                  (self.kind, "", "kind"), (self.message, "", "message"))  # fmt: skip
        return svg.unspoken(
            svg.text(x, _middle(-1), word, f"tract-dim {css}".strip()) for x, css, word in places
        )


def _item(row: CommitRow, number: int, column: int, colour: int, at: _Columns) -> Html:
    y = _middle(number)
    labels, x = _drawn_labels(row.labels, at.message, y)
    dim = "tract-dim" if row.mark is GraphMark.SKIP else ""
    parts = (
        svg.box(0, y - ROW // 2, round(at.end), ROW, "tract-row"),
        dot(row.mark, _x(column), y, f"tract-c{colour}"),
        svg.text(at.code, y, row.short_hash, "tract-code"),
        svg.text(at.time, y, row.time, "tract-dim"),
        svg.text(at.tokens, y, row.tokens, "tract-right"),
        svg.text(at.kind, y, row.kind, dim or "tract-kind"),
        labels,
        svg.text(x, y, row.message, dim),
    )
    return svg.item(parts, spoken=_spoken(row), hover=row.hover)


def _spoken(row: CommitRow) -> str:
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


def dot(mark: GraphMark, x: float, y: float, css: str) -> Html:
    """Return the mark of a commit around a point."""
    css = f"tract-dot {css}"
    if mark is GraphMark.PINNED:
        return svg.path(f"M{x} {y - 6}l6 6l-6 6l-6-6z", css)
    if mark is GraphMark.IMPORTANT:
        return svg.path(f"M{x} {y - 6}l6 10.5h-12z", css)
    if mark is GraphMark.SKIP:
        return svg.circle(x, y, 4, f"{css} tract-hollow")
    if mark is GraphMark.MERGE:
        return svg.circle(x, y, 5.5, f"{css} tract-hollow") + svg.circle(x, y, 2.5, css)
    return svg.circle(x, y, 4.5 if mark is GraphMark.NORMAL else 2.5, css)


def _edge(edge: Edge, rows: int, colours: dict[str, int]) -> Html:
    """Return a path from the child through its lane to the parent; dashed at the end if the parent is not shown."""
    css = f"tract-c{colours[edge.strand]}"
    x, y, lane = _x(edge.child_column), _middle(edge.child), _x(edge.lane)
    parent = rows if edge.parent is None else edge.parent
    if parent == edge.child + 1 and edge.parent is not None:
        return svg.path(f"M{x} {y}{_curve(x, y, _x(edge.parent_column))}", css)
    path = f"M{x} {y}"
    if lane != x:
        path += _curve(x, y, lane)
    if edge.parent is None:
        below = _middle(rows)
        start = min(below, _middle(edge.child) + (ROW if lane != x else 0))
        last = max(start, below - ROW)
        return svg.path(f"{path}V{last}", css) + svg.path(f"M{lane} {last}V{below}", f"{css} tract-cut")
    path += f"V{_middle(parent - 1)}"
    return svg.path(f"{path}{_curve(lane, _middle(parent - 1), _x(edge.parent_column))}", css)


def _curve(x: float, y: float, to: float) -> str:
    if x == to:
        return f"V{y + ROW}"
    return f"C{x} {y + ROW * 0.7:g} {to} {y + ROW * 0.3:g} {to} {y + ROW}"


def _drawn_labels(labels: Iterable[Label], x: float, y: float) -> tuple[list[Html], float]:
    items = []
    for label in labels:
        width = _label_width(label)
        place = {"x": f"{x + 7:g}", "y": f"{y + svg.BASELINE:g}", "textLength": f"{width - 14:g}"}
        items.append(
            element(
                "g",
                svg.box(x, y - 8, width, 16, radius=3 if label.kind == "tag" else 8),
                element("text", _label_text(label), **place, lengthAdjust="spacingAndGlyphs"),
                class_=f"tract-label tract-{label.kind}",
            )
        )
        x += width + 5
    return items, x


def _label_text(label: Label) -> str:
    return f"#{label.text}" if label.kind == "tag" else label.text


def _label_width(label: Label) -> float:
    return round(6.7 * text_width(_label_text(label)) + 14, 1)


def _colours(layout: Layout) -> dict[str, int]:
    colours: dict[str, int] = {}
    for strand in sorted(set(layout.strands.values()), key=lambda name: (name != "main", name)):
        wanted = 0 if strand == "main" else crc32(strand.encode(errors="replace")) % _COLOURS
        free = (c for c in range(wanted, wanted + _COLOURS) if c % _COLOURS not in colours.values())
        colours[strand] = next(free, wanted) % _COLOURS
    return colours


def _widest(texts: Iterable[str], at_least: int) -> float:
    return max([at_least * _TEXT, *map(_width, texts)])


def _width(text: str) -> float:
    return text_width(text) * _TEXT


def _x(column: int) -> int:
    return _MARGIN + 4 + _LANE * column


def _middle(row: int) -> int:
    return ROW * (row + 1) + ROW // 2


_NAMED = 8


@dataclass(frozen=True)
class Graph(View):
    """A drawn history."""

    layout: Layout
    rows: Sequence[CommitRow]
    summary: str
    notes: tuple[str, ...] = ()

    def to_html(self) -> Html:
        """Return the graph as self-contained HTML."""
        label = f"{self.summary}, newest first"
        drawing = svg.figure(graph_svg(self.layout, self.rows, label), "Graph of commits"), self._legend()
        notes = (element("p", note) for note in self.notes)
        title = heading("History", self.summary)
        page = root_html(title, drawing if self.rows else None, notes, look="tract-graph")
        return fragment(style_tag("views/graph.css"), page)

    def to_text(self) -> str:
        """Return lanes and texts, with a legend of the marks."""
        legend = "  ".join(f"{GLYPHS[mark]} {mark.value}" for mark in self._marks())
        graph = (graph_text(self.layout, self.rows), legend) if self.rows else ()
        return "\n".join([f"History: {self.summary}", *graph, *self.notes])

    def _marks(self) -> list[GraphMark]:
        used = {row.mark for row in self.rows}
        return [mark for mark in GraphMark if mark in used]

    def _legend(self) -> Html:
        size: dict[str, Attribute] = {"width": 14, "height": 14, "aria_hidden": "true"}
        entries = (
            element("span", element("svg", dot(mark, 7, 7, "tract-plain"), **size), mark.value)
            for mark in self._marks()
        )
        return element(
            "p", entries, element("span", "Hover over a commit for its content"), class_="tract-legend"
        )


def graph(
    commits: Sequence[CommitInfo],
    branches: Sequence[BranchInfo],
    *,
    head: str | None,
    contents: Mapping[str, str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Graph:
    """Draw commits of any branches, given in any order.

    Args:
        commits: the commits to show. Edges to missing parents are cut. The priority of an annotation is the new one.
        branches: all branches for labels. If HEAD is detached, no branch is current.
        head: the current commit hash.
        contents: texts by commit hash, for tooltips.
        roles: the roles of dialogue by commit hash. The content type replaces a missing role.
    """
    layout = lay_out(commits, branches)
    rows = make_rows(layout.commits, branches, head, contents or {}, roles or {})
    hashes = {info.commit_hash for info in layout.commits}
    count = f"{len(rows):,} commit{'s' * (len(rows) != 1)} on {len(branches):,} branch{'es' * (len(branches) != 1)}"
    return Graph(layout, rows, count, _notes(hashes, branches, head))


def _notes(hashes: set[str], branches: Sequence[BranchInfo], head: str | None) -> tuple[str, ...]:
    if not hashes and head is None:
        return ("No commits yet.",)
    empty = [b.name for b in branches if b.commit_hash is None]
    hidden = [
        f"{b.name} ({b.commit_hash[:8]})" for b in branches if b.commit_hash and b.commit_hash not in hashes
    ]
    if head and head not in hashes and not any(b.commit_hash == head for b in branches):
        hidden.insert(0, f"HEAD ({head[:8]})")
    notes = [("Without commits", empty), ("Not among these commits", hidden)]
    return tuple(
        f"{what}: {join_names([one_line(name, 60) for name in names], _NAMED)}"
        for what, names in notes
        if names
    )
