"""Texts for a model whose tool call did not lead to a usable result."""

from __future__ import annotations

from typing import Final

UNDECIDED: Final = (
    "Do not repeat the call meanwhile: it would be asked about once more. Go on without it, or wait."
)
"""After why a call is not decided yet."""

NO_JSON: Final = (
    "{tool} was carried out, but what it returned cannot be shown: {reason}. Do not call it again for that; its author "
    "should return strings, numbers, booleans, None, lists and dicts"
)
TOO_LARGE: Final = (
    "{tool} was carried out, but its result takes {size:,} bytes of JSON, and at most {limit:,} are shown. If it can "
    "be asked for less, such as fewer rows or one part at a time, do so; do not repeat a call that changes something"
)
