"""Text made for a terminal, as text; and long text, bounded."""

from __future__ import annotations

import re
from typing import Final

# ECMA-48: control sequences, strings such as titles and links (ended by BEL or ST), and two-character escapes
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def without_escapes(text: str) -> str:
    """The text without colours, links and movements of the cursor; no escape character is left."""
    return _ESCAPES.sub("", text).replace("\x1b", "") if "\x1b" in text else text


def as_seen(text: str) -> str:
    """What a terminal shows in the end: of a line written again and again, as a progress bar is, the last state."""
    text = without_escapes(text).replace("\r\n", "\n")
    return "\n".join(_last_state(line) for line in text.split("\n")) if "\r" in text else text


def bounded(text: str, limit: int) -> tuple[str, int]:
    """The text in at most `limit` characters, and how many were left out.

    Head and tail are kept, and a line between them says how much is missing. `limit` must leave room for that line.
    """
    if len(text) <= limit:
        return text, 0
    kept = limit - len(_gap(len(text)))
    tail = kept // 2
    left_out = len(text) - kept
    return f"{text[: kept - tail]}{_gap(left_out)}{text[len(text) - tail :]}", left_out


def _gap(count: int) -> str:
    return f"\n[... {count:,} characters left out ...]\n"


def _last_state(line: str) -> str:
    states = [state for state in line.split("\r") if state]
    return states[-1] if states else ""
