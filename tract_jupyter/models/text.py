"""Values as text. Whatever a value is, showing it raises nothing."""

from __future__ import annotations

from typing import Any

_BRIEF = 60


def safe_repr(value: Any) -> str:
    """The repr of anything: of an integer of a million digits or an object whose repr raises, what it is."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 # it may raise anything
        return f"<{type(value).__name__} that cannot be shown>"


def brief_repr(value: Any) -> str:
    """The repr, cut after 60 characters."""
    # a slice first: the repr of something huge is as huge
    text = safe_repr(value[: _BRIEF + 1] if isinstance(value, str | bytes | list) else value)
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"
