"""Pieces of HTML that views and panels share."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from tract_jupyter.models.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.review.display import Piece

OWN_KEYS = 'data-lm-suppress-shortcuts="true"'
"""Stands on each element that can have the focus: elsewhere "d d" there deletes the cell in JupyterLab.

Its commands look at the element with the focus first, so that an attribute further out comes too late.
"""


def escaped(text: str) -> str:
    """A text of unknown origin as HTML; nothing of it is hidden or turned around."""
    return html.escape(printable(text))


def pieces_html(pieces: Iterable[Piece]) -> str:
    """A text in pieces; each that an approval depends on says by its key whether it was on display."""
    return "".join(
        f'<span data-line="{piece.key}">{escaped(piece.text)}</span>' if piece.key else escaped(piece.text)
        for piece in pieces
    )


def heading(text: str, level: int, about: str | Iterable[Piece] = "") -> str:
    """A heading with a note behind it, both escaped.

    JupyterLab adds an anchor link to every real `h3`, which
    would end up in its text.
    """
    name = "tract-title" if level == 3 else "tract-heading"  # noqa: PLR2004
    said = escaped(about) if isinstance(about, str) else pieces_html(about)
    more = f' <span class="tract-about">{said}</span>' if said else ""
    return f'<div class="{name}" role="heading" aria-level="{level}">{escaped(text)}{more}</div>'
