"""Pieces of HTML that views and panels share."""

from __future__ import annotations

import html

from tract_jupyter.models.text import printable


def escaped(text: str) -> str:
    """A text of unknown origin as HTML; nothing of it is hidden or turned around."""
    return html.escape(printable(text))


def heading(text: str, level: int, about: str = "") -> str:
    """A heading with a note behind it, both escaped.

    JupyterLab adds an anchor link to every real `h3`, which
    would end up in its text.
    """
    name = "tract-title" if level == 3 else "tract-heading"  # noqa: PLR2004
    more = f' <span class="tract-about">{escaped(about)}</span>' if about else ""
    return f'<div class="{name}" role="heading" aria-level="{level}">{escaped(text)}{more}</div>'
