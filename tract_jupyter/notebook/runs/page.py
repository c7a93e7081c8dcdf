"""The page of a run, and the parts that it shares with the pages of a prompt and a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.notebook.runs.pictures import GLYPHS, NodeState
from tract_jupyter.notebook.views.html import element, fragment, heading, root_html, style_tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.notebook.views.html import Attribute, Html, HtmlPart


def run_page(body: HtmlPart, label: str, name: str, **attributes: Attribute) -> Html:
    """Return a self-contained page. `label` is for screen readers, and `name` for tests."""
    named = {"data_testid": name, **attributes, "aria_label": label}
    page = root_html(body, look="tract-views tract-run", tag="section", **named)
    return fragment(style_tag("views/views.css", "views/runs.css"), page)


def head_html(title: str, word: str, look: str = "") -> Html:
    """Return a title with a word on a color."""
    return element("header", heading(title), element("span", word, class_=("tract-badge", look)))


def facts_html(facts: Iterable[tuple[str, HtmlPart]]) -> Html:
    """Return names with their values in a line."""
    items = (element("span", element("b", name), " ", value) for name, value in facts)
    return element("p", items, class_="tract-facts")


def section(title: str, about: str, body: HtmlPart, name: str | None, *, is_open: bool) -> Html:
    """Return a folding part of a page. A note follows its title."""
    note = [" ", element("span", about, class_="tract-about")] if about else []
    summary = element("summary", title, note)
    return element("details", summary, body, class_="tract-section", data_testid=name, open=is_open)


def mark(state: NodeState, glyph: str = "") -> Html:
    """Return the mark of a state. `glyph` replaces the usual sign."""
    return element("i", glyph or GLYPHS[state], class_=f"tract-mark tract-{state}")


def reason_html(sign: Html, what: str, why: str) -> Html:
    """Return an entry of a list of reasons."""
    return element("li", sign, element("b", what), f" {why}")


def reasons_html(items: HtmlPart, name: str) -> Html:
    """Return a list of reasons."""
    return element("ul", items, class_="tract-reasons", data_testid=name)
