"""The operations of a run as one SVG: a band for each hook, the main call between, a line for each dependency."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.models.text import printable
from tract_jupyter.notebook.excerpts import text_width
from tract_jupyter.notebook.runs.layout import Band, Place, lay_out
from tract_jupyter.notebook.runs.picture import GLYPHS, State
from tract_jupyter.notebook.runs.words import duration
from tract_jupyter.runs.terms import Hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.notebook.runs.picture import Node, Picture

# Pixels. Nothing can measure text without a script, so widths of text are upper estimates for common fonts.
_TEXT = 6.9
_TIME = 56
_NAME = 22
_HEAD = 24
_PAD = 12
_BETWEEN = 16
_MAIN = 104
_SMALLEST = 0.7  # of its size; what does not fit even so is scrolled
_MOST_NAMED = 60
_HEADS = {Hook.BEFORE: "before the main call", Hook.AFTER: "after the main call"}


class _Size(NamedTuple):
    """Of a node, and how far apart they stand."""

    width: float
    height: float
    across: float
    down: float
    is_named: bool

    @classmethod
    def of(cls, nodes: Sequence[Node], *, timed: bool) -> _Size:
        """Small squares where there are too many for names."""
        if len(nodes) > _MOST_NAMED:
            return cls(18, 18, 44, 23, is_named=False)
        widest = max((text_width(short(node.title, _NAME)) for node in nodes), default=4)
        width = round(36 + widest * _TEXT + (_TIME if timed else 0))
        return cls(width, 26, width + 44, 35, is_named=True)


def graph_svg(picture: Picture) -> str:
    """The drawing of a run; everything escaped. Screen readers are told a list of operations."""
    size = _Size.of(picture.nodes, timed=True)
    return _drawing(lay_out(picture.nodes), size, "Operations of the run", picture.main)


def profile_svg(nodes: Sequence[Node]) -> str:
    """The same of operations that are not in a run."""
    return _drawing(lay_out(nodes), _Size.of(nodes, timed=False), "Operations of the profile", None)


def short(text: str, limit: int) -> str:
    """The beginning of a name, of at most so many columns of a font of fixed width."""
    name = " ".join(printable(text).split())
    if text_width(name) <= limit:
        return name
    while text_width(name) >= limit:
        name = name[: -max(1, (text_width(name) - limit) // 2)]
    return f"{name}…"


def _drawing(bands: tuple[Band, ...], size: _Size, label: str, main: State | None) -> str:
    rows = max((band.rows for band in bands), default=1)
    height = _HEAD + 2 * _PAD + (rows - 1) * size.down + max(size.height, 26)
    parts, x = [], 0.0
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
    return (
        f'<svg role="list" aria-label="{html.escape(label)}" width="{end:g}" height="{height:g}" '
        f'style="min-width:{_SMALLEST * end:g}px" viewBox="0 0 {end:g} {height:g}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _band_width(band: Band, size: _Size) -> float:
    return max(
        2 * _PAD + (band.columns - 1) * size.across + size.width, 2 * _PAD + len(_HEADS[band.hook]) * _TEXT
    )


def _band_svg(band: Band, size: _Size, x: float, width: float, height: float) -> str:
    left, top = x + _PAD, _HEAD + _PAD
    edges = "".join(_edge(one, other, size, left, top) for one, other in band.edges)
    nodes = "".join(_node(place, size, left, top) for place in band.places)
    many = "" if size.is_named else " tract-many"
    return (
        f'<rect class="tract-band" x="{x:g}" y="{_HEAD}" width="{width:g}" height="{height - _HEAD:g}" rx="6"/>'
        f'<text class="tract-dim" aria-hidden="true" x="{x + 2:g}" y="{_HEAD - 8}">{_HEADS[band.hook]}</text>'
        f'<g class="tract-edges{many}" aria-hidden="true">{edges}</g>{nodes}'
    )


def _main_svg(main: State | None, x: float, height: float) -> str:
    """The main call: all operations before it come together there."""
    state = main or State.PLANNED
    y = round(_HEAD + (height - _HEAD) / 2)
    said = "main call" if main is None else f"main call, {_main_word(state)}"
    glyph = "" if main is None else GLYPHS[state]
    arrows = "".join(
        f'<path class="tract-arrow" d="M{at:g} {y - 5}l6 5l-6 5"/>'
        for at in (x - _BETWEEN + 5, x + _MAIN + 5)
    )
    return (
        f'<g aria-hidden="true">{arrows}</g><g role="listitem" class="tract-node tract-main tract-{state}" '
        f'aria-label="{said}"><title>{said}</title><rect x="{x:g}" y="{y - 18}" width="{_MAIN}" height="36" rx="18"/>'
        f'<text class="tract-glyph" x="{x + 12:g}" y="{y + 4}">{glyph}</text>'
        f'<text x="{x + (28 if glyph else 22):g}" y="{y + 4}">main call</text></g>'
    )


def _main_word(state: State) -> str:
    return {State.SKIPPED: "not made", State.PLANNED: "not made yet"}.get(state, state.value)


def _node(place: Place, size: _Size, left: float, top: float) -> str:
    node = place.node
    x, y = left + place.column * size.across, top + place.row * size.down
    words = _words(node, size, x, y) if size.is_named else ""
    css = f"tract-node tract-{node.state}{' tract-required' if node.required else ''}"
    middle = y + size.height / 2 + 4
    glyph_x = x + (10 if size.is_named else 5)
    return (
        f'<g role="listitem" class="{css}" aria-label="{html.escape(spoken(node))}">'
        f"<title>{html.escape(hover(node))}</title>"
        f'<rect x="{x:g}" y="{y:g}" width="{size.width:g}" height="{size.height:g}" rx="{5 if size.is_named else 3}"/>'
        f'<text class="tract-glyph" x="{glyph_x:g}" y="{middle:g}">{GLYPHS[node.state]}</text>{words}</g>'
    )


def _words(node: Node, size: _Size, x: float, y: float) -> str:
    middle = y + size.height / 2 + 4
    name = html.escape(short(node.title, _NAME))
    told = node.note or (duration(node.milliseconds) if node.milliseconds else "")
    time = html.escape(short(told, 8))
    end = (
        f'<text class="tract-dim tract-end" x="{x + size.width - 8:g}" y="{middle:g}">{time}</text>'
        if time
        else ""
    )
    return f'<text x="{x + 25:g}" y="{middle:g}">{name}</text>{end}'


def _edge(one: Place, other: Place, size: _Size, left: float, top: float) -> str:
    x = left + one.column * size.across + size.width
    y = top + one.row * size.down + size.height / 2
    to_x = left + other.column * size.across
    to_y = top + other.row * size.down + size.height / 2
    bend = max(abs(to_x - x) / 2, 20)
    css = "" if one.node.state is State.DONE or not one.node.why else ' class="tract-broken"'
    return f'<path{css} d="M{x:g} {y:g}C{x + bend:g} {y:g} {to_x - bend:g} {to_y:g} {to_x:g} {to_y:g}"/>'


def spoken(node: Node) -> str:
    """A node as a sentence, for who hears it."""
    parts = [
        printable(node.title),
        node.state.value,
        "required" if node.required else "",
        duration(node.milliseconds) if node.milliseconds else "",
        f"committed as number {node.committed}" if node.committed else "",
        node.why,
    ]
    return ", ".join(part for part in parts if part)


def hover(node: Node) -> str:
    """What is told on hovering."""
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
