"""How much a message matters."""

from __future__ import annotations

from enum import StrEnum


class Priority(StrEnum):
    """skip < normal < important < pinned.

    What is skipped is not compiled; what is pinned survives every compression word for word.
    """

    SKIP = "skip"
    NORMAL = "normal"
    IMPORTANT = "important"
    PINNED = "pinned"
