"""SVG primitives of the drawn history.

For screen readers, a drawing is a list, and decoration is hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models import printable
from tract_jupyter.notebook.views.html import element, text_width

if TYPE_CHECKING:
    from tract_jupyter.notebook.views.html import Html, HtmlPart

BASELINE = 4
"""The distance from the middle of a line to its baseline in pixels."""


def figure(drawing: Html, label: str) -> Html:
    """Return a drawing in a region that scrolls."""
    return element("div", drawing, class_="tract-canvas", tabindex=0, role="region", aria_label=label)


def drawing(width: float, height: float, label: str, *content: HtmlPart) -> Html:
    """Return a drawing with a name for screen readers."""
    return element(
        "svg",
        content,
        role="list",
        aria_label=label,
        width=f"{width:g}",
        height=f"{height:g}",
        viewBox=f"0 0 {width:g} {height:g}",
        xmlns="http://www.w3.org/2000/svg",
    )


def item(*content: HtmlPart, spoken: str, hover: str) -> Html:
    """Return a group that is an item of the list: a sentence for screen readers, and a tooltip."""
    return element("g", element("title", hover), content, role="listitem", aria_label=spoken)


def unspoken(*content: HtmlPart, look: str = "") -> Html:
    """Return a group that is hidden from screen readers."""
    return element("g", content, aria_hidden="true", class_=look)


def text(x: float, middle: float, words: str, look: str = "") -> Html | None:
    """Return a line of text around a height; None if it is empty."""
    return element("text", words, class_=look, x=f"{x:g}", y=f"{middle + BASELINE:g}") if words else None


def box(x: float, y: float, width: float, height: float, look: str = "", *, radius: float = 0) -> Html:
    """Return a rectangle."""
    size = {"width": f"{width:g}", "height": f"{height:g}", "rx": f"{radius:g}" if radius else None}
    return element("rect", class_=look, x=f"{x:g}", y=f"{y:g}", **size)


def circle(x: float, y: float, radius: float, look: str = "") -> Html:
    """Return a circle."""
    return element("circle", class_=look, cx=f"{x:g}", cy=f"{y:g}", r=f"{radius:g}")


def path(commands: str, look: str = "") -> Html:
    """Return a path of SVG commands."""
    return element("path", class_=look, d=commands)


def short(name: str, limit: int) -> str:
    """Return the start of a name, of at most `limit` columns in a monospaced font."""
    name = " ".join(printable(name).split())
    if text_width(name) <= limit:
        return name
    while text_width(name) >= limit:
        name = name[: -max(1, (text_width(name) - limit) // 2)]
    return f"{name}…"
