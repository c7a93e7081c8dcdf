"""Primitives of drawings: what histories, graphs of operations and time lines are made of, as SVG.

Each returns a piece of SVG in which everything is escaped. A drawing is a list to a screen reader, and what says
nothing there is hidden from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tract_jupyter.models import printable
from tract_jupyter.notebook.views.html import escaped, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator

BASELINE = 4
"""How far below the middle of a line its text stands, in pixels."""


def drawing(width: float, height: float, label: str, content: str, *, least: float = 0) -> str:
    """Return a drawing with a name for screen readers; narrower than `least` pixels it is scrolled, not scaled."""
    style = f' style="min-width:{least:g}px"' if least else ""
    return (
        f'<svg role="list" aria-label="{escaped(label)}" width="{width:g}" height="{height:g}"{style} '
        f'viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg">{content}</svg>'
    )


def item(content: str, spoken: str, hover: str, css: str = "") -> str:
    """Return a group that is an item of the list: a sentence for screen readers, a text on hovering."""
    return (
        f'<g role="listitem"{_class(css)} aria-label="{escaped(spoken)}"><title>{escaped(hover)}</title>'
        f"{content}</g>"
    )


def unspoken(content: str, css: str = "") -> str:
    """Return a group that screen readers leave out."""
    return f'<g aria-hidden="true"{_class(css)}>{content}</g>'


def text(x: float, middle: float, words: str, css: str = "") -> str:
    """Return a line of text around a height; nothing if it is empty."""
    return f'<text{_class(css)} x="{x:g}" y="{middle + BASELINE:g}">{escaped(words)}</text>' if words else ""


def box(x: float, y: float, width: float, height: float, css: str = "", *, radius: float = 0) -> str:
    """Return a rectangle."""
    rounded = f' rx="{radius:g}"' if radius else ""
    return f'<rect{_class(css)} x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{rounded}/>'


def circle(x: float, y: float, radius: float, css: str = "") -> str:
    """Return a circle."""
    return f'<circle{_class(css)} cx="{x:g}" cy="{y:g}" r="{radius:g}"/>'


def path(commands: str, css: str = "") -> str:
    """Return a path of SVG's own commands."""
    return f'<path{_class(css)} d="{commands}"/>'


def arrow_head(x: float, y: float, css: str = "") -> str:
    """Return the head of an arrow to the right, around a height."""
    return path(f"M{x:g} {y - 5:g}l6 5l-6 5", css)


def flowing(x: float, y: float, to_x: float, to_y: float, css: str = "") -> str:
    """Return a line from left to right that leaves and arrives level."""
    bend = max(abs(to_x - x) / 2, 20)
    return path(f"M{x:g} {y:g}C{x + bend:g} {y:g} {to_x - bend:g} {to_y:g} {to_x:g} {to_y:g}", css)


def short(name: str, limit: int) -> str:
    """Return the beginning of a name, of at most so many columns of a font of fixed width."""
    name = " ".join(printable(name).split())
    if text_width(name) <= limit:
        return name
    while text_width(name) >= limit:
        name = name[: -max(1, (text_width(name) - limit) // 2)]
    return f"{name}…"


def ticks(seconds: float, about: int) -> Iterator[float]:
    """Yield round times from 0 on, about so many."""
    if seconds <= 0:
        yield 0.0
        return
    rough = seconds / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    number = 0
    while number * step <= seconds * 0.96:
        yield number * step
        number += 1


def tick_text(moment: float, seconds: float) -> str:
    """Return what stands at a tick of a scale of so many seconds."""
    return "0" if not moment else f"{moment:.3g} s" if seconds >= 1 else f"{moment * 1000:.3g} ms"


def _class(css: str) -> str:
    return f' class="{css}"' if css else ""
