"""Times as the store keeps them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache

from tract_jupyter.storage.columns import damaged


def to_text(moment: datetime) -> str:
    """Return a time as UTC, ISO 8601, always with microseconds, so that text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Read what `to_text` wrote.

    Raises:
        StoreCorruptError: it cannot be read as a time, or has no time zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise damaged(f"{text!r:.40} cannot be read as a time") from error
    if moment.tzinfo is None:
        raise damaged(f"{text!r:.40} has lost its time zone")
    return moment


def now_text() -> str:
    """Return the present, as the store keeps it."""
    seconds, microseconds = divmod(time.time_ns() // 1_000, 1_000_000)
    return f"{_second(seconds)}.{microseconds:06}+00:00"  # isoformat takes three times as long


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
