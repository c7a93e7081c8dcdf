"""Structural types for what crosses a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tract_jupyter.models.decision import Decision
    from tract_jupyter.models.request import ReviewRequest


class TokenCounter(Protocol):
    """Counts tokens. `name` tells how: `tiktoken:o200k_base`, `approximate`, ..."""

    name: str

    def count_text(self, text: str) -> int:
        """Return the number of tokens of `text`, special tokens read as plain text."""
        ...
