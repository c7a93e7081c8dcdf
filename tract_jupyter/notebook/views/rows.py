"""Lists of rows, the parts of all views with `tract.css`. A row is a line that may unfold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.models import more_characters, printable
from tract_jupyter.notebook.views.html import Html, element, fragment, root_html

if TYPE_CHECKING:
    from tract_jupyter.notebook.views.html import Attribute, HtmlPart

CHEVRON: Final = element("i", class_="chev")
_LONG: Final = 40
"""The characters of a title that always fit into a line."""


def page(*content: HtmlPart, label: str, name: str) -> Html:
    """Return the root of a view. `label` is for screen readers, and `name` for tests."""
    return root_html(*content, tag="section", data_testid=name, aria_label=label)


def rows(lines: HtmlPart) -> Html:
    """Return lines and rows in a frame."""
    return element("div", lines, class_="list")


def line(*cells: HtmlPart) -> Html:
    """Return a line that does not unfold."""
    return element("div", cells, class_="line")


def row(
    cells: HtmlPart,
    body: HtmlPart,
    *,
    is_open: bool = False,
    look: str = "",
    before: HtmlPart = None,
    **attributes: Attribute,
) -> Html:
    """Return a line that unfolds to a body, also in a saved notebook. `before` precedes the mark that unfolds it."""
    summary = element("summary", before, CHEVRON, cells)
    inner = element("div", body, class_="body")
    return element("details", summary, inner, class_=("row", look), open=is_open, **attributes)


def fold(
    name: HtmlPart, content: HtmlPart, *, look: str = "", icon: Html | None = None, **attributes: Attribute
) -> Html:
    """Return a part of a body that unfolds. See `row` for the arguments; `icon` replaces the mark."""
    summary = element("summary", icon or CHEVRON, name)
    return element("details", summary, content, class_=("more", look), **attributes)


def said(text: str) -> Html:
    """Return the first words of a line."""
    return element("span", text, class_="said-b")


def named(text: str) -> Html:
    """Return a name in the code font."""
    return element("span", text, class_="name")


def cut(text: str) -> Html:
    """Return text of a line that is cut if there is no room."""
    return element("span", text, class_="cut dim")


def dim(text: HtmlPart) -> Html:
    """Return a dim paragraph."""
    return element("p", text, class_="dim")


def number(text: HtmlPart, more: str = "", **attributes: Attribute) -> Html:
    """Return a number at the end of a line. The `more` classes align numbers in columns."""
    return element("span", text, class_=("num", more), **attributes)


def badge(text: str, kind: str = "") -> Html:
    """Return a word on a color; `kind` is `ok`, `wait`, `no`, or empty."""
    return element("span", text, class_=("badge", kind))


def icon(kind: str) -> Html:
    """Return an icon of `tract.css`, such as `wait`. The text next to it has the same meaning."""
    return element("i", class_=f"i i-{kind}")


def indent(depth: int) -> Html | None:
    """Return the indentation of a line; None at the top level."""
    return element("span", class_="in", style=f"width:{20 * depth}px") if depth else None


def share_bar(share: float, label: str) -> Html:
    """Return a bar of usage, full at a share of 1. It changes to a warning color from 0.85 on."""
    return meter(share, label, "spent" if share >= _SPENT else "")


def meter(share: float, label: str, look: str = "") -> Html:
    """Return a bar that is full at a share of 1."""
    width = 100 * min(max(share, 0.0), 1.0)
    filled = element("i", style=f"width:{width:.1f}%")
    return element("span", filled, class_=("bar", look), role="img", aria_label=label)


_SPENT = 0.85


def sub(text: str, about: HtmlPart = "") -> Html:
    """Return the heading of a part of a row, with a note. JupyterLab would add a link to a real heading."""
    note = [" ", element("small", about)] if about else []
    return element("div", text, note, class_="sub", role="heading", aria_level=4)


def out(text: str, limit: int | None = None) -> Html:
    """Return a text with its line breaks, cut after `limit` characters."""
    if limit is None or len(text) <= limit:
        return element("pre", text, class_="out")
    return fragment(element("pre", text[:limit], class_="out"), dim(more_characters(text, limit)))


def note(title: str, text: str, look: str = "", icon: str = "") -> Html:
    """Return a note between rows."""
    head = element(
        "p", element("i", class_=f"i {icon}") if icon else "", element("b", title), class_="note-head"
    )
    return element("div", head, element("p", text) if text else "", class_=("note", look))


# --- the row of a timeline

ICONS: Final = {
    "done": ("i-done", "done"),
    "running": ("i-run", "running"),
    "asked": ("i-wait", "waiting"),
    "idle": ("i-idle", "not begun"),
    "failed": ("i-no", "failed"),
    "refused": ("i-no", "rejected"),
    "not run": ("i-stop", "not run"),
    "stopped": ("i-stop", "stopped"),
}
"""The icon of each state, and its word."""
_MARKS: Final = {"i-done": "✓", "i-run": "…", "i-wait": "?", "i-idle": "·", "i-no": "✗", "i-stop": "■"}
_MINUTE: Final = 60


def seconds_text(seconds: float) -> str:
    """Return a time: `0.1 s`, `42 s`, `2:05 min`."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes:,}:{rest:02} min"


class Row(NamedTuple):
    """A step of a turn, a run or an agent: a line that unfolds, also as text.

    Attributes:
        state: a key of `ICONS`.
        what: the description of the step; empty for a plain call.
        name: the tool of a plain call.
        brief: the arguments in a line.
        brief_text: the same as text.
        badge: a word on a color.
        aside: text at the right, before tokens and time, such as the deciding user.
        aside_title: the tooltip of `aside`.
        took: the usage, shown if there is room.
        tokens: the tokens of the result.
        seconds: the duration; None if unknown.
        body: the unfolded content.
    """

    state: str
    what: str = ""
    name: str = ""
    brief: HtmlPart = ""
    brief_text: str = ""
    badge: str = ""
    aside: str = ""
    aside_title: str = ""
    took: str = ""
    tokens: str = ""
    seconds: float | None = None
    body: HtmlPart = ""

    def __html__(self) -> Html:
        """Return a line that unfolds."""
        look, word = ICONS[self.state]
        look_of_what = ("said-b", "long" if len(self.what) > _LONG else "")
        what = element("span", self.what, class_=look_of_what) if self.what else named(self.name)
        cells = (
            element("i", class_=f"i {look}"),
            element("span", word, class_="said"),
            what,
            element("code", self.brief, class_="cut"),
            badge(self.badge) if self.badge else "",
            number(self.aside, title=self.aside_title) if self.aside else "",
            number(self.took, "wide-only") if self.took else "",
            number(self.tokens, "tok wide-only") if self.tokens else "",
            "" if self.seconds is None else number(seconds_text(self.seconds), "sec"),
        )
        return row(cells, self.body)

    def text(self) -> str:
        """Return the row as a line of text."""
        look, word = ICONS[self.state]
        seconds = seconds_text(self.seconds) if self.seconds is not None else ""
        is_told = (
            self.state in {"done", "refused"}
            or word in self.what.lower()
            or self.what.startswith("Rehearsing")
        )
        asides = [self.badge or ("" if is_told else word), self.aside, self.took, self.tokens, seconds]
        title = " ".join(filter(None, [self.what or self.name, self.brief_text]))
        return printable(
            "  ".join(filter(None, [f"{_MARKS[look]} {title}", " · ".join(filter(None, asides))]))
        )
