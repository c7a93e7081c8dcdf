"""What a person should notice in a text that tells a model what to do. It explains; it contains nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tract_jupyter.models import one_line
from tract_jupyter.review import ValueRow

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_QUOTE: Final = 80
_LONG: Final = 8_000
_FOUND: Final = (
    (
        "hidden characters",
        re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"),
        "They are not visible, or turn the direction of text: a model may read what you do not.",
    ),
    (
        "control characters",
        re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"),
        "A terminal may obey them.",
    ),
    (
        "about approval",
        re.compile(
            r"\b(?:approv\w+|permission\w*|without (?:asking|approval)|do(?: not|n't) ask|auto.?approve|consent)\b",
            re.IGNORECASE,
        ),
        "It speaks of who decides. That is you: nothing that it says changes what is asked.",
    ),
    (
        "about instructions",
        re.compile(
            r"\b(?:ignore|disregard|override|forget)\b[^.\n]{0,40}\b(?:instruction|rule|prompt|above|previous)\w*",
            re.IGNORECASE,
        ),
        "It tells a model to pass over what it was told.",
    ),
    (
        "secrets",
        re.compile(
            r"\b(?:passwords?|api.?keys?|credentials?|private keys?|access tokens?|secrets?|\.env|\.ssh|id_rsa)\b",
            re.IGNORECASE,
        ),
        "It speaks of secrets.",
    ),
    (
        "addresses",
        re.compile(r"\b(?:https?|ftp|file|wss?)://[^\s)>\"']+", re.IGNORECASE),
        "What it calls may be sent there.",
    ),
    (
        "markup",
        re.compile(r"<\s*(?:script|iframe|img|svg|object|embed)\b|!\[[^\]]*\]\(", re.IGNORECASE),
        "It is shown as text here.",
    ),
    ("encoded text", re.compile(r"\b[A-Za-z0-9+/]{120,}={0,2}"), "Long runs without spaces may hide text."),
)


def text_findings(text: str) -> tuple[ValueRow, ...]:
    """Return what should be noticed in a text: what it is, the first place, and why."""
    return tuple(_rows(text))


def _rows(text: str) -> Iterator[ValueRow]:
    for name, pattern, why in _FOUND:
        found = list(pattern.finditer(text))
        if not found:
            continue
        line = text.count("\n", 0, found[0].start()) + 1
        quote = found[0].group()
        shown = repr(quote) if len(quote) == 1 else one_line(quote, _LONGEST_QUOTE)
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        yield ValueRow(name, "", f"line {line}: {shown}{more}", why)
    if len(text) > _LONG:
        yield ValueRow(
            "length", "", f"{len(text):,} characters", "Read all of it: nothing is approved unread."
        )
