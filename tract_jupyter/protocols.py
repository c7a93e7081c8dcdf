"""Structural types for what crosses a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import Message


class TokenCounter(Protocol):
    """Counts tokens. `name` tells how: `tiktoken:o200k_base`, `approximate`, ..."""

    name: str

    def count_text(self, text: str) -> int:
        """Return the number of tokens of `text`, special tokens read as plain text."""
        ...


class Summarizer(Protocol):
    """Writes the summary that takes the place of messages."""

    def __call__(
        self,
        messages: Sequence[Message],
        criteria: Sequence[dict[str, Any]],
        instructions: str | None,
        target_tokens: int | None,
    ) -> str:
        """Return the summary.

        Args:
            messages: what to sum up, in order.
            criteria: what must be kept of the important ones, each as `instructions`, `match_patterns`, `match_mode`.
            instructions: what whoever asked for the compression wants.
            target_tokens: how long the summary should be at most.
        """
        ...
