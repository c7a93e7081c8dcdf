"""Lists of rows, each a line that may unfold: how the views of `tract.css` show things. Everything given is HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.notebook.views.html import OWN_KEYS, escaped, root_html

if TYPE_CHECKING:
    from collections.abc import Iterable

CHEVRON = '<i class="chev"></i>'


def page(body: str, label: str, name: str) -> str:
    """Return the root of a view; `label` is told to who hears it, `name` is what tests look for."""
    return root_html(body, tag="section", attributes=f'data-testid="{name}" aria-label="{escaped(label)}"')


def rows(lines: Iterable[str]) -> str:
    """Return lines and rows one below the other, in a frame."""
    return f'<div class="list">{"".join(lines)}</div>'


def line(*cells: str) -> str:
    """Return a line that does not unfold."""
    return f'<div class="line">{"".join(cells)}</div>'


def row(cells: Iterable[str], body: str, *, is_open: bool = False) -> str:
    """Return a line that unfolds to a body, also in a saved notebook."""
    opened = " open" if is_open else ""
    return (
        f'<details class="row"{opened}><summary {OWN_KEYS}>{CHEVRON}{"".join(cells)}</summary>'
        f'<div class="body">{body}</div></details>'
    )


def said(text: str) -> str:
    """Return the words that a line begins with, escaped."""
    return f'<span class="said-b">{escaped(text)}</span>'


def named(text: str) -> str:
    """Return a name in the code font, escaped."""
    return f'<span class="name">{escaped(text)}</span>'


def cut(text: str) -> str:
    """Return the words of a line that give way where there is no room, escaped."""
    return f'<span class="cut dim">{escaped(text)}</span>'


def number(text: str, more: str = "") -> str:
    """Return a figure at the end of a line, escaped; `more` classes make columns of them."""
    return f'<span class="num{f" {more}" if more else ""}">{escaped(text)}</span>'


def badge(text: str, kind: str = "") -> str:
    """Return a word on a colour, escaped; `kind` is `ok`, `wait`, `no`, or empty."""
    return f'<span class="badge{f" {kind}" if kind else ""}">{escaped(text)}</span>'


def icon(kind: str) -> str:
    """Return an icon of `tract.css`, such as `wait`; the words beside it say the same."""
    return f'<i class="i i-{kind}"></i>'


def share_bar(share: float, label: str) -> str:
    """Return a bar of what is used up, full at a share of 1; from 0.85 on, and beyond 1, it warns."""
    return meter(share, label, " spent" if share >= _SPENT else "")


def meter(share: float, label: str, css: str = "") -> str:
    """Return a bar that is full at a share of 1."""
    width = 100 * min(max(share, 0.0), 1.0)
    said_as = escaped(label)
    return (
        f'<span class="bar{css}" role="img" aria-label="{said_as}"><i style="width:{width:.1f}%"></i></span>'
    )


_SPENT = 0.85


def table(heads: Iterable[str], cells: Iterable[Iterable[str]], *, code: frozenset[int] = frozenset()) -> str:
    """Return a table of plain texts; columns with a number in `code` are set in the code font."""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{f'<code>{escaped(cell)}</code>' if place in code and cell else escaped(cell)}</td>"
            for place, cell in enumerate(one)
        )
        + "</tr>"
        for one in cells
    )
    return f'<table class="t"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
