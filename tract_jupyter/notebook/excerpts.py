"""Text of unknown origin and length, made fit to be shown in a line or a box."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from unicodedata import east_asian_width

from tract_jupyter.models.text import printable


def one_line(text: str, limit: int) -> str:
    """The beginning of the text as one line of at most `limit` characters."""
    start = " ".join(printable(text, 4 * limit).split())
    whole = len(start) <= limit and len(text) <= 4 * limit
    return start if whole else start[: limit - 1] + "…"


def cut_note(length: int, limit: int) -> str:
    """What to say behind a text that was cut after `limit` characters; nothing if it was not."""
    return f"… {length - limit:,} more characters" if length > limit else ""


def text_width(text: str) -> int:
    """How many columns the text takes in a font of fixed width."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


@cache
def style_tag(name: str) -> str:
    """The style sheet of that name beside this module, as an element."""
    return f"<style>{files(__package__).joinpath(name).read_text(encoding='utf-8')}</style>"
