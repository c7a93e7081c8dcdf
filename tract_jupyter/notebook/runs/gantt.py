"""What ran when, and what of it side by side: a row for each operation that started, and for the main call."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models.text import printable
from tract_jupyter.notebook.excerpts import text_width
from tract_jupyter.notebook.runs.graph_svg import short, spoken
from tract_jupyter.notebook.runs.picture import GLYPHS, State
from tract_jupyter.notebook.runs.words import duration
from tract_jupyter.runs.terms import Hook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.notebook.runs.picture import Node, Picture

_ROW = 20
_HEAD = 24
_NAME = 26
_TEXT = 6.9
_BARS = 390
_LEAST = 3.0
_TIME = 60
_COMMIT = 66
_TICKS = 6
_MOMENT = 1e-6  # seconds that even what took no time is there


@dataclass(frozen=True)
class Bar:
    """A row: from when to when, in seconds since the first bar's start."""

    title: str
    state: State
    start: float
    end: float
    node: Node | None = None
    is_exact: bool = True

    @property
    def is_main(self) -> bool:
        """Whether it is the main call."""
        return self.node is None


@dataclass(frozen=True)
class Gantt:
    """The rows by their start, and how many seconds they take together."""

    bars: tuple[Bar, ...]
    seconds: float

    @property
    def most_at_once(self) -> int:
        """How many operations ran side by side at most. One that ends when another starts is not beside it."""
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
    """The rows of a run. What never started has none."""
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


def _of(node: Node, zero: float, at: float) -> Bar:
    start = node.span.start if node.span else zero
    end = node.span.end if node.span and node.span.end is not None else max(at, start)
    return Bar(node.title, node.state, start - zero, end - zero, node)


def _phase(bar: Bar) -> int:
    return 1 if bar.node is None else 0 if bar.node.hook is Hook.BEFORE else 2


def gantt_svg(chart: Gantt) -> str:
    """The drawing; everything escaped. Screen readers are told a list."""
    name_width = 34 + max(text_width(short(bar.title, _NAME)) for bar in chart.bars) * _TEXT
    width = name_width + _BARS + _TIME + _COMMIT
    height = _HEAD + _ROW * len(chart.bars) + 6
    rows = "".join(_row(bar, number, chart.seconds, name_width) for number, bar in enumerate(chart.bars))
    return (
        f'<svg role="list" aria-label="When each operation ran" width="{width:g}" height="{height}" '
        f'viewBox="0 0 {width:g} {height}" xmlns="http://www.w3.org/2000/svg">'
        f'<g aria-hidden="true">{_axis(chart.seconds, name_width, height)}'
        f'<text class="tract-dim tract-end" x="{name_width + _BARS + _TIME:g}" y="15">time</text>'
        f"{_commit_head(chart, width)}</g>{rows}</svg>"
    )


def _commit_head(chart: Gantt, width: float) -> str:
    if not any(bar.node and bar.node.committed for bar in chart.bars):
        return ""
    return f'<text class="tract-dim tract-end" x="{width - 4:g}" y="15">commit</text>'


def _axis(seconds: float, left: float, height: float) -> str:
    parts = []
    for tick in _ticks(seconds):
        x = left + _at(tick, seconds)
        parts.append(f'<path class="tract-tick" d="M{x:g} {_HEAD - 4}V{height - 6}"/>')
        parts.append(f'<text class="tract-dim tract-mid" x="{x:g}" y="15">{_tick_text(tick, seconds)}</text>')
    return "".join(parts)


def _ticks(seconds: float) -> Iterator[float]:
    """Round times, about six of them."""
    if seconds <= 0:
        yield 0.0
        return
    rough = seconds / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    number = 0
    while number * step <= seconds * 0.96:
        yield number * step
        number += 1


def _tick_text(tick: float, seconds: float) -> str:
    return "0" if not tick else f"{tick:.3g} s" if seconds >= 1 else f"{tick * 1000:.3g} ms"


def _at(moment: float, seconds: float) -> float:
    return _BARS * moment / seconds if seconds > 0 else 0.0


def _row(bar: Bar, number: int, seconds: float, left: float) -> str:
    y = _HEAD + number * _ROW
    middle, end = y + _ROW / 2 + 4, left + _BARS + _TIME
    x = left + min(_at(bar.start, seconds), _BARS - _LEAST)
    width = max(_at(bar.end - bar.start, seconds), _LEAST)
    time = "" if not bar.is_exact else duration((bar.end - bar.start) * 1000)
    commit = f"{bar.node.committed}" if bar.node and bar.node.committed else ""
    of_main = f" tract-main{'' if bar.is_exact else ' tract-about-then'}" if bar.is_main else ""
    said = html.escape(_said(bar))
    name = html.escape(short(bar.title, _NAME))
    return (
        f'<g role="listitem" class="tract-node tract-{bar.state}{of_main}" aria-label="{said}"><title>{said}</title>'
        f'<rect class="tract-row" x="0" y="{y}" width="{end + _COMMIT:g}" height="{_ROW}"/>'
        f'<text class="tract-glyph" x="6" y="{middle:g}">{GLYPHS[bar.state]}</text>'
        f'<text x="22" y="{middle:g}">{name}</text>'
        f'<rect class="tract-span" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="3"/>'
        f'<text class="tract-dim tract-end" x="{end:g}" y="{middle:g}">{time}</text>'
        f'<text class="tract-dim tract-end" x="{end + _COMMIT - 4:g}" y="{middle:g}">{commit}</text></g>'
    )


def _said(bar: Bar) -> str:
    times = f"from {duration(bar.start * 1000)} to {duration(bar.end * 1000)}"
    if bar.node is not None:
        return f"{spoken(bar.node)}, {times}"
    about = "" if bar.is_exact else "; with the commits around it: its own time is not known"
    return f"{printable(bar.title)}, {bar.state}, {times}{about}"


def gantt_text(bar: Bar, seconds: float, cells: int) -> str:
    """A bar of characters."""
    start = min(int(cells * bar.start / seconds), cells - 1) if seconds > 0 else 0
    length = max(1, round(cells * (bar.end - bar.start) / seconds)) if seconds > 0 else 1
    length = min(length, cells - start)
    return f"{' ' * start}{'━' * length}".ljust(cells)
