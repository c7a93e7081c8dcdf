"""Reading what somebody may have written into the store by hand: one bad row must not hide the others.

What cannot be read becomes empty. That is safe where a signature covers the value: it does not cover the empty one.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.storage.clock import from_text

UNREADABLE = datetime.fromtimestamp(0, UTC)
"""The time that stands for one that is none."""


def read_dict(text: Any) -> dict[str, Any]:
    """The JSON object in a text; empty if there is none."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def read_moment(text: Any) -> datetime:
    """The time in a text; 1970 if there is none."""
    try:
        moment = from_text(text)
    except StoreCorruptError:
        return UNREADABLE
    return moment if moment.tzinfo is not None else UNREADABLE
