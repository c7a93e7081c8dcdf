"""HTML elements, tables and style sheets that views and panels share."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeAlias
from unicodedata import east_asian_width

from markupsafe import Markup

from tract_jupyter.models import cut, exact_time, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.review import DisplayedPiece


class HasHtml(Protocol):
    """An object with an HTML form."""

    def __html__(self) -> str:
        """Return safe HTML."""


class Html(Markup):
    """Safe HTML. Text that is added to it, joined or formatted by it is escaped, with marks for hidden characters.

    Make it with `element`, `fragment` and `Html.escape`. `Html("...")` marks a literal of this package as safe. An
    f-string is never safe: it becomes plain text again, and `element` would show its markup.
    """

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> Self:
        """Return safe HTML unchanged, and any other value as escaped text."""
        if isinstance(s, cls):
            return s
        if hasattr(s, "__html__"):
            return cls(s.__html__())
        text = str(s)
        is_plain = text.isascii() and text.replace("\n", "").isprintable()
        return str.__new__(cls, html.escape(text if is_plain else printable(text)))


HtmlPart: TypeAlias = "str | HasHtml | Iterable[HtmlPart] | None"
"""The content of an element: safe HTML, an object with `__html__`, text to escape, None, or several of these."""


Attribute: TypeAlias = "str | float | bool | tuple[str, ...] | None"


def element(name: str, /, *content: HtmlPart, **attributes: Attribute) -> Html:
    """Return an element. Its plain text and attributes are escaped.

    A focusable element keeps its keys, see `OWN_KEYS`.

    Args:
        name: the name of the element, such as `span`.
        content: the content in order.
        attributes: `class_` becomes `class`, and `_` becomes `-`: `data_testid="x"`. True writes a name without a
            value. None, False and an empty class omit the attribute. Several classes may be a tuple.
    """
    parts = [_start(name, tuple(attributes.items()))]
    if name in _SHAPES or name in _EMPTY:
        return str.__new__(Html, parts[0])
    _add(parts, content)
    parts.append(f"</{name}>")
    return str.__new__(Html, "".join(parts))


def _start(name: str, attributes: tuple[tuple[str, Attribute], ...]) -> str:
    """Return the start tag of an element, or a complete empty element."""
    is_short = len(attributes) == 1 and attributes[0][0] == "class_"
    return _short_start(name, attributes) if is_short else _make_start(name, attributes)


def _make_start(name: str, attributes: tuple[tuple[str, Attribute], ...]) -> str:
    parts = [f"<{name}"]
    if name in _FOCUSED:
        parts.append(f" {OWN_KEYS}")
    for key, value in attributes:
        text = " ".join(filter(None, value)) if isinstance(value, tuple) else value
        if text is None or text is False or (key == "class_" and not text):
            continue
        if key == "tabindex" and name not in _FOCUSED:
            parts.append(f" {OWN_KEYS}")
        label = key.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if text is True else f' {label}="{Html.escape(text)}"')
    parts.append("/>" if name in _SHAPES else ">")
    return "".join(parts)


_short_start = lru_cache(maxsize=1_000)(_make_start)
"""A cached version, because most elements have only a class."""


def fragment(*content: HtmlPart) -> Html:
    """Return content without an element around it."""
    parts: list[str] = []
    _add(parts, content)
    return str.__new__(Html, "".join(parts))


def _add(parts: list[str], content: Iterable[HtmlPart]) -> None:
    for item in content:
        if type(item) is Html:
            parts.append(item)
        elif isinstance(item, str) or hasattr(item, "__html__"):
            parts.append(Html.escape(item))
        elif item is not None:
            _add(parts, item)


_EMPTY: Final = frozenset({"br", "hr", "img", "input", "wbr"})
_SHAPES: Final = frozenset({"circle", "path", "rect"})
_FOCUSED: Final = frozenset({"summary", "button"})

OWN_KEYS = 'data-lm-suppress-shortcuts="true"'
"""An attribute of each focusable element. Without it, "d d" there deletes the cell in JupyterLab.

JupyterLab's commands look only at the focused element, so an attribute of a parent has no effect.
"""


NO_FORMULAS = "mathjax_ignore tex2jax_ignore"
"""Classes of the root of each output. They keep front ends and exported pages from rendering formulas.

A formula may be a link with a hidden address, and dollar signs are prices.
"""


def root_html(*content: HtmlPart, look: str = "tract", tag: str = "div", **attributes: Attribute) -> Html:
    """Return the root element of an output. Every output has one around all its content.

    `look` has the classes that its style sheet uses.
    """
    attributes_added = {"data-lm-suppress-shortcuts": "true"}
    return element(tag, *content, class_=f"{look} {NO_FORMULAS}", **attributes_added, **attributes)


def pieces_html(pieces: Iterable[DisplayedPiece]) -> Html:
    """Return a text in pieces. Pieces that an approval depends on have a key that tells if they were on display."""
    return fragment(
        element("span", piece.text, data_line=piece.key) if piece.key else piece.text for piece in pieces
    )


def heading(text: str, about: str = "") -> Html:
    """Return a heading with a note behind it. JupyterLab would add a link to a real `h3`."""
    note = [" ", element("span", about, class_="tract-about")] if about else []
    return element("div", text, note, class_="tract-title", role="heading", aria_level=3)


def title(text: str, level: int) -> Html:
    """Return the heading of an output, or of a table in it."""
    return element("div", text, class_="title", role="heading", aria_level=level)


def text_width(text: str) -> int:
    """Return the number of columns of a text in a monospaced font."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


@cache
def asset(path: str) -> str:
    """Return a style sheet or script of this package, such as `panels/record.css`. Each file is read once."""
    return files("tract_jupyter.notebook").joinpath(path).read_text(encoding="utf-8")


@cache
def style_tag(*paths: str) -> Html:
    """Return style sheets of this package as one element."""
    return element("style", Html("".join(map(asset, paths))))


class Cell(NamedTuple):
    """A cell of a table with attributes, as of `element`."""

    content: HtmlPart
    attributes: Mapping[str, Attribute]


def cell(content: HtmlPart, **attributes: Attribute) -> Cell:
    """Return a cell of a table with attributes."""
    return Cell(content, attributes)


def table(
    rows: Iterable[Iterable[HtmlPart | Cell]],
    heads: Iterable[HtmlPart | Cell] = (),
    *,
    has_names: bool = False,
    class_: str = "t",
) -> Html:
    """Return a table.

    Args:
        rows: the cells of each row. A row of safe HTML is used unchanged.
        heads: the heads of the columns; empty for no head row.
        has_names: the first cell of each row is its name.
        class_: the class of the table.
    """
    head = (
        element("thead", element("tr", (_cell("th", item, scope="col") for item in heads))) if heads else ""
    )
    return element("table", head, element("tbody", (_row(item, has_names) for item in rows)), class_=class_)


def _row(cells: Iterable[HtmlPart | Cell], has_names: bool) -> Html:  # noqa: FBT001
    if isinstance(cells, Html):
        return cells
    remaining = iter(cells)
    first = _cell("th", next(remaining, None), scope="row") if has_names else ""
    return element("tr", first, (_cell("td", item) for item in remaining))


def _cell(tag: str, content: HtmlPart | Cell, **attributes: Attribute) -> Html:
    if isinstance(content, Cell):
        return element(tag, content.content, **content.attributes, **attributes)
    return element(tag, content, **attributes)


_WHOLE = 24  # the longest name without a line break
_WORD = 16  # the longest word without a line break


@dataclass(frozen=True)
class Grid:
    """A table of plain text. The columns in `code` use the code font, the columns in `right` are flush right.

    In plain text, cells have at most `width` characters.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    code: frozenset[str] = frozenset()
    right: frozenset[str] = frozenset()
    width: int = 80

    def to_html(self) -> Html:
        """Return the table as HTML."""
        heads = [cell(head, class_="num" if head in self.right else "") for head in self.heads]
        rows = (map(self._cell, self.heads, row) for row in self.rows)
        return fragment(title(self.title, 4) if self.title else "", table(rows, heads))

    def to_text(self) -> str:
        """Return the table with aligned columns."""
        rows = [self.heads, *(tuple(cut(text, self.width) for text in row) for row in self.rows)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.heads))]
        lines = [
            "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([*([self.title] if self.title else []), *lines])

    def _cell(self, head: str, text: str) -> Cell:
        css = "num" if head in self.right else ""
        if head in self.code and text:
            return cell(element("code", text, class_="whole" if len(text) <= _WHOLE else ""), class_=css)
        is_short = all(len(word) <= _WORD for word in text.split())
        return cell(text, class_=css or ("words" if is_short else ""))


class View(ABC):
    """The output of a cell, as HTML or as text. IPython requests both by `_repr_mimebundle_`."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": str(self.to_html()), "text/plain": self.to_text()}

    @abstractmethod
    def to_html(self) -> str:
        """Return self-contained HTML."""

    @abstractmethod
    def to_text(self) -> str:
        """Return the same in plain text."""


@dataclass(frozen=True)
class GridView(View):
    """A view with a title, lines and tables. Most commands use it."""

    title: str
    lines: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = field(default_factory=tuple)

    def to_html(self) -> str:
        """Return the view as HTML."""
        from tract_jupyter.notebook.views.styles import output_html  # it reads style sheets with `asset`

        lines = (element("p", line) for line in self.lines)
        grids = (grid.to_html() for grid in self.grids if grid.rows)
        return output_html((title(self.title, 3), lines, grids))

    def to_text(self) -> str:
        """Return the view in plain text."""
        texts = [self.title, *self.lines, *(grid.to_text() for grid in self.grids if grid.rows)]
        return printable("\n".join(texts))


def join_names(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return a list of names in one line, shortened to `most` names: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago a time was, in words; its date after a week and for the future."""
    seconds = (now - moment).total_seconds()
    if -_MINUTE < seconds < _MINUTE:
        return "just now"
    if 0 < seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min ago"
    if 0 < seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h ago"
    if 0 < seconds < 7 * _DAY:
        days = int(seconds // _DAY)
        return f"{days} day{'s' * (days != 1)} ago"
    return moment.astimezone().strftime("%Y-%m-%d")


def time_html(moment: datetime) -> Html:
    """Return an exact time. A live panel makes it relative, with the exact time as a tooltip."""
    exact = exact_time(moment)
    return element("time", exact, datetime=moment.isoformat(), title=exact)
