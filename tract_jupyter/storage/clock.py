"""Times as the store keeps them."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(moment: datetime) -> str:
    """UTC, ISO 8601, always with microseconds, so that text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Read what `to_text` wrote."""
    return datetime.fromisoformat(text)


def now_text() -> str:
    """The present, as the store keeps it."""
    return to_text(datetime.now(UTC))
