"""Graphs of operations and timelines of runs: layout and drawing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.models import printable
from tract_jupyter.notebook.runs.pictures import GLYPHS, HOOK_WORDS, NodeState, commit_order, duration
from tract_jupyter.notebook.views import svg
from tract_jupyter.notebook.views.html import element, fragment, text_width
from tract_jupyter.runs import Hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.notebook.runs.pictures import OperationNode, Picture
    from tract_jupyter.notebook.views.html import Html, HtmlPart


ROWS = 14
"""The most nodes in a column. A level with more nodes gets several columns."""


@dataclass(frozen=True)
class NodePosition:
    """The column and row of a node within its hook, both from 0."""

    node: OperationNode
    column: int
    row: int


@dataclass(frozen=True)
class Band:
    """The operations of one hook, their columns and rows, and their dependencies."""

    hook: Hook
    places: tuple[NodePosition, ...]
    columns: int
    rows: int
    edges: tuple[tuple[NodePosition, NodePosition], ...]


def lay_out(nodes: Sequence[OperationNode]) -> tuple[Band, ...]:
    """Return a band for each hook with operations."""
    bands = (_band(hook, [node for node in nodes if node.hook is hook]) for hook in Hook)
    return tuple(band for band in bands if band.places)


def _band(hook: Hook, nodes: list[OperationNode]) -> Band:
    levels = _levels(nodes)
    places: dict[str, NodePosition] = {}
    column = 0
    for level in range(max(levels.values(), default=-1) + 1):
        ordered = sorted(
            (n for n in nodes if levels[n.id] == level), key=lambda n: (_wanted(n, places), n.order, n.id)
        )
        for number, node in enumerate(ordered):
            places[node.id] = NodePosition(node, column + number // ROWS, number % ROWS)
        column += -(-len(ordered) // ROWS)
    edges = [
        (places[dependency], place)
        for place in places.values()
        for dependency in place.node.depends_on
        if dependency in places
    ]
    rows = max((place.row for place in places.values()), default=-1) + 1
    return Band(hook, tuple(places.values()), column, rows, tuple(edges))


def _levels(nodes: list[OperationNode]) -> dict[str, int]:
    """Return the level of each operation, one above its highest dependency; 0 in a cycle, which never runs."""
    known = {node.id: node for node in nodes}
    levels = dict.fromkeys(known, 0)
    for key in commit_order(nodes):
        below = [levels[dependency] for dependency in known[key].depends_on if dependency in known]
        levels[key] = max(below, default=-1) + 1
    return levels


def _wanted(node: OperationNode, places: dict[str, NodePosition]) -> float:
    """Return the mean row of the dependencies. It keeps crossings of lines low."""
    rows = [places[dependency].row for dependency in node.depends_on if dependency in places]
    return sum(rows) / len(rows) if rows else 0.0


# Pixels. Text cannot be measured without a script, so widths are upper estimates for common fonts.
_TEXT = 6.9
_TIME = 56
_NAME = 22
_HEAD = 24
_PAD = 12
_BETWEEN = 16
_MAIN = 104
_SMALLEST = 0.7  # the smallest scale; below it, the drawing scrolls
NAMED_AT_MOST = 60
"""The most operations in a graph. There is no room for the names of more."""


class _Size(NamedTuple):
    """The size of a node, and the distance between nodes."""

    width: float
    height: float
    across: float
    down: float

    @classmethod
    def of(cls, nodes: Sequence[OperationNode], *, timed: bool) -> _Size:
        """Choose the size for the names of the nodes."""
        widest = max((text_width(svg.short(node.title, _NAME)) for node in nodes), default=4)
        width = round(36 + widest * _TEXT + (_TIME if timed else 0))
        return cls(width, 26, width + 44, 35)


def graph_svg(picture: Picture) -> Html:
    """Return the drawing of a run. For screen readers, it is a list of operations."""
    size = _Size.of(picture.nodes, timed=True)
    return _drawing(lay_out(picture.nodes), size, "Operations of the run", picture.main)


def profile_svg(nodes: Sequence[OperationNode]) -> Html:
    """Return the drawing of operations without a run."""
    return _drawing(lay_out(nodes), _Size.of(nodes, timed=False), "Operations of the profile", None)


def _drawing(bands: tuple[Band, ...], size: _Size, label: str, main: NodeState | None) -> Html:
    rows = max((band.rows for band in bands), default=1)
    height = _HEAD + 2 * _PAD + (rows - 1) * size.down + max(size.height, 26)
    parts: list[Html] = []
    x = 0.0
    by_hook = {band.hook: band for band in bands}
    for hook in Hook:
        if hook in by_hook:
            width = _band_width(by_hook[hook], size)
            parts.append(_band_svg(by_hook[hook], size, x, width, height))
            x += width + _BETWEEN
        if hook is Hook.BEFORE:
            parts.append(_main_svg(main, x, height))
            x += _MAIN + _BETWEEN
    end = x - _BETWEEN + 2  # a thick line is wider than its shape
    return svg.drawing(end, height, label, parts, least=_SMALLEST * end)


def _band_width(band: Band, size: _Size) -> float:
    return max(
        2 * _PAD + (band.columns - 1) * size.across + size.width,
        2 * _PAD + len(HOOK_WORDS[band.hook]) * _TEXT,
    )


def _band_svg(band: Band, size: _Size, x: float, width: float, height: float) -> Html:
    left, top = x + _PAD, _HEAD + _PAD
    return fragment(
        svg.box(x, _HEAD, width, height - _HEAD, "tract-band", radius=6),
        svg.unspoken(svg.text(x + 2, _HEAD - 12, HOOK_WORDS[band.hook], "tract-dim")),
        svg.unspoken(
            (_edge(source, target, size, left, top) for source, target in band.edges), look="tract-edges"
        ),
        (_node(place, size, left, top) for place in band.places),
    )


def _main_svg(main: NodeState | None, x: float, height: float) -> Html:
    """Return the node of the main call. All earlier operations lead to it."""
    state = main or NodeState.PLANNED
    y = round(_HEAD + (height - _HEAD) / 2)
    sentence = "main call" if main is None else f"main call, {main_word(state)}"
    glyph = "" if main is None else GLYPHS[state]
    arrows = [svg.arrow_head(at, y, "tract-arrow") for at in (x - _BETWEEN + 5, x + _MAIN + 5)]
    content = [
        svg.box(x, y - 18, _MAIN, 36, radius=18),
        svg.text(x + 12, y, glyph, "tract-glyph"),
        svg.text(x + (28 if glyph else 22), y, "main call"),
    ]
    look = f"tract-node tract-main tract-{state}"
    return fragment(svg.unspoken(arrows), svg.item(content, spoken=sentence, hover=sentence, look=look))


def main_word(state: NodeState) -> str:
    """Return the state of the main call in words."""
    return {NodeState.SKIPPED: "not made", NodeState.PLANNED: "not made yet"}.get(state, state.value)


def _node(place: NodePosition, size: _Size, left: float, top: float) -> Html:
    node = place.node
    x, y = left + place.column * size.across, top + place.row * size.down
    look = f"tract-node tract-{node.state}{' tract-required' if node.required else ''}"
    content = [
        svg.box(x, y, size.width, size.height, radius=5),
        svg.text(x + 10, y + size.height / 2, GLYPHS[node.state], "tract-glyph"),
        _words(node, size, x, y),
    ]
    return svg.item(content, spoken=spoken(node), hover=hover(node), look=look)


def _words(node: OperationNode, size: _Size, x: float, y: float) -> HtmlPart:
    middle = y + size.height / 2
    note = node.note or (duration(node.milliseconds) if node.milliseconds else "")
    time = svg.text(x + size.width - 8, middle, svg.short(note, 8), "tract-dim tract-end")
    return svg.text(x + 25, middle, svg.short(node.title, _NAME)), time


def _edge(source: NodePosition, target: NodePosition, size: _Size, left: float, top: float) -> Html:
    x = left + source.column * size.across + size.width
    y = top + source.row * size.down + size.height / 2
    to_x = left + target.column * size.across
    to_y = top + target.row * size.down + size.height / 2
    css = "" if source.node.state is NodeState.DONE or not source.node.why else "tract-broken"
    return svg.flowing(x, y, to_x, to_y, css)


def spoken(node: OperationNode) -> str:
    """Return a node as a sentence for screen readers."""
    parts = [
        printable(node.title),
        node.state.value,
        "required" if node.required else "",
        duration(node.milliseconds) if node.milliseconds else "",
        f"committed as number {node.committed}" if node.committed else "",
        node.why,
    ]
    return ", ".join(part for part in parts if part)


def hover(node: OperationNode) -> str:
    """Return the tooltip of a node."""
    lines = [
        printable(node.title),
        f"id: {printable(node.id)}" if node.name and node.name != node.id else "",
        f"{node.state}{', required' if node.required else ''}{f', kind {printable(node.kind)}' if node.kind else ''}",
        f"order {node.order:g}"
        + (f", after {printable(', '.join(node.depends_on[:20]))}" if node.depends_on else ""),
        f"took {duration(node.milliseconds)}" if node.milliseconds else "",
        f"attempts: {node.attempts}" if node.attempts > 1 else "",
        f"committed as number {node.committed}" if node.committed else "",
        node.note,
        node.why,
    ]
    return "\n".join(line for line in lines if line)


_MOMENT = 1e-6  # seconds, so operations without duration also count


@dataclass(frozen=True)
class Bar:
    """A row of a timeline, with start and end in seconds since the first start. The main call has no `node`."""

    title: str
    state: NodeState
    start: float
    end: float
    node: OperationNode | None = None
    is_exact: bool = True


@dataclass(frozen=True)
class Gantt:
    """The rows by their start, and the total time in seconds."""

    bars: tuple[Bar, ...]
    seconds: float

    def of(self, node: OperationNode | None) -> Bar | None:
        """Return the row of an operation, or of the main call if it is None; None if it never started."""
        return self._by_node.get(id(node))

    @cached_property
    def _by_node(self) -> dict[int, Bar]:
        return {id(bar.node): bar for bar in self.bars}

    @property
    def most_at_once(self) -> int:
        """The most operations at the same time. Operations that only touch do not overlap."""
        turns = sorted(
            turn
            for bar in self.bars
            if bar.node
            for turn in ((bar.start, 1), (max(bar.end, bar.start + _MOMENT), -1))
        )
        running = most = 0
        for _, step in turns:
            running += step
            most = max(most, running)
        return most


def gantt(picture: Picture) -> Gantt:
    """Return the timeline of a run. Operations that never started have no row."""
    started = [node for node in picture.nodes if node.span]
    spans = [node.span for node in started if node.span]
    spans += [picture.main_span] if picture.main_span else []
    if not spans:
        return Gantt((), 0.0)
    zero = min(span.start for span in spans)
    bars = [_of(node, zero, picture.at) for node in started]
    if picture.main_span:
        span = picture.main_span
        end = picture.at if span.end is None else span.end
        bars.append(Bar("main call", picture.main, span.start - zero, end - zero, is_exact=span.exact))
    bars.sort(key=lambda bar: (_phase(bar), bar.start, bar.end, bar.title))
    return Gantt(tuple(bars), max(bar.end for bar in bars))


def _of(node: OperationNode, zero: float, at: float) -> Bar:
    start = node.span.start if node.span else zero
    end = node.span.end if node.span and node.span.end is not None else max(at, start)
    return Bar(node.title, node.state, start - zero, end - zero, node)


def _phase(bar: Bar) -> int:
    return 1 if bar.node is None else 0 if bar.node.hook is Hook.BEFORE else 2


def gantt_html(bar: Bar, seconds: float) -> Html:
    """Return a bar of the main color of its state. For screen readers, it is a sentence."""
    share = 100 / seconds if seconds > 0 else 0.0
    start, width = min(bar.start * share, 98.0), max((bar.end - bar.start) * share, 2.0)
    sentence = f"from {duration(bar.start * 1000)} to {duration(bar.end * 1000)}"
    if not bar.is_exact:
        sentence += "; with the commits around it: its own time is not known"
    drawn = element("i", style=f"margin-left:{start:.1f}%;width:{min(width, 100 - start):.1f}%")
    look = ("tract-when", f"tract-{bar.state}", "" if bar.is_exact else "tract-about-then")
    return element("span", drawn, class_=look, role="img", aria_label=sentence, title=sentence)


def gantt_text(bar: Bar, seconds: float, cells: int) -> str:
    """Return a bar of characters."""
    start = min(int(cells * bar.start / seconds), cells - 1) if seconds > 0 else 0
    length = max(1, round(cells * (bar.end - bar.start) / seconds)) if seconds > 0 else 1
    length = min(length, cells - start)
    return f"{' ' * start}{'━' * length}".ljust(cells)
