"""How much the analysis takes on, told from the text alone, so that one text always gets the same verdict."""

from __future__ import annotations

import re

MAX_MARKS = 400_000
"""Marks of punctuation and line ends outside of strings: about 50,000 lines of ordinary code."""

_ORDINARY = bytes(
    {*range(128, 256), *b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ \t\r#"}
)
_STRINGS = re.compile(
    r"\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*+\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*+'''"
    r"|\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'",
    re.DOTALL,
)


class TooLongError(Exception):
    """The text, or what follows from it, is more than the analysis takes on."""


def check_length(text: str) -> None:
    """Refuse what would take longer than a person waits.

    Raises:
        TooLongError: There is too much of it.
    """
    # What takes time is syntax, and nearly every piece of syntax has a mark; a long string has none.
    if _marks(text) > MAX_MARKS and _marks(_STRINGS.sub("", text)) > MAX_MARKS:
        raise TooLongError(f"it is longer than the analysis takes on: {len(text):,} characters")


def _marks(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass").translate(None, _ORDINARY))
