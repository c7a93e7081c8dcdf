"""How much a message matters."""

from __future__ import annotations

from enum import StrEnum

from tract_jupyter.exceptions import ContentError


class Priority(StrEnum):
    """skip < normal < important < pinned.

    What is skipped is not compiled; what is pinned survives every compression word for word.
    """

    SKIP = "skip"
    NORMAL = "normal"
    IMPORTANT = "important"
    PINNED = "pinned"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ContentError(f"{value!r} is no priority; use {', '.join(cls)}")
