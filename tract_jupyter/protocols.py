"""Structural types for what crosses a layer."""

from __future__ import annotations

from typing import Protocol


class TokenCounter(Protocol):
    """Counts tokens. `name` tells how: `tiktoken:o200k_base`, `approximate`, ..."""

    name: str

    def count_text(self, text: str) -> int:
        """Return the number of tokens of `text`, special tokens read as plain text."""
        ...
