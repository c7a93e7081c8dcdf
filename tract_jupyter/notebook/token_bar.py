"""A bar of tokens: which roles take how much, of a budget where there is one."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models.commit import show_tokens

if TYPE_CHECKING:
    from tract_jupyter.models.context import CompiledContext

_CELLS = 40
_ORDER = ("system", "user", "assistant", "tool")
OTHER = "other"
_FORMAT = "format"
"""What a chat format and the tools add around the messages."""


@dataclass(frozen=True, slots=True)
class TokenBar:
    """Tokens by role. Shares are of the budget, or of the total where that is more or there is no budget."""

    segments: tuple[tuple[str, int], ...]
    total: int
    source: str
    max_tokens: int | None

    @property
    def in_messages(self) -> int:
        """The tokens of all messages together."""
        return sum(count for role, count in self.segments if role != _FORMAT)

    @property
    def over(self) -> int:
        """By how many tokens the budget is exceeded."""
        return 0 if self.max_tokens is None else max(self.total - self.max_tokens, 0)

    @property
    def headline(self) -> str:
        """Total, budget and share in words."""
        tokens = show_tokens(self.total, self.source)
        if self.max_tokens is None:
            return f"{tokens} tokens ({self.source})"
        share = f", {_percent(self.total, self.max_tokens)}" if self.max_tokens else ""
        over = f": over budget by {show_tokens(self.over, self.source)}" if self.over else ""
        return f"{tokens} of {self.max_tokens:,} tokens{share}{over} ({self.source})"

    def to_html(self) -> str:
        """The bar with its legend; it reads as one sentence to who cannot see it."""
        bars = "".join(
            f'<span class="tract-seg tract-{role}" style="width:{100 * count / self._scale:.3f}%"></span>'
            for role, count in self.segments
        )
        if self.over:
            left = 100 * (self.total - self.over) / self._scale
            bars += f'<span class="tract-limit" style="left:{left:.3f}%"></span>'
        legend = "".join(
            f'<span><i class="tract-seg tract-{role}"></i>{html.escape(words)}</span>'
            for (role, _), words in zip(self.segments, self._parts(), strict=True)
        )
        css = "tract-bar tract-over" if self.over else "tract-bar"
        paragraph = '<p class="tract-bad">' if self.over else "<p>"
        label = html.escape("; ".join([self.headline, *self._parts()]))
        return (
            f"{paragraph}{html.escape(self.headline)}</p>"
            f'<div class="{css}" role="img" aria-label="{label}">{bars}</div>'
            f'<p class="tract-legend" aria-hidden="true">{legend}</p>'
        )

    def to_text(self) -> list[str]:
        """The headline, and a bar with a letter for each role."""
        if not self.segments:
            return [self.headline]
        cells, done = "", 0
        for role, count in self.segments:
            done += count
            cells += role[0] * (round(_CELLS * done / self._scale) - len(cells))
        return [self.headline, f"[{cells.ljust(_CELLS, '·')}] {', '.join(self._parts())}"]

    def _parts(self) -> list[str]:
        return [f"{role} {count:,} ({_percent(count, self.total)})" for role, count in self.segments]

    @property
    def _scale(self) -> int:
        return max(self.total, self.max_tokens or 0, 1)


def token_bar(context: CompiledContext) -> TokenBar:
    """Sum up a context: one pass over its messages."""
    sums: Counter[str] = Counter()
    for message in context.messages:
        sums[message.role] += message.token_count
    known = [(role, sums[role]) for role in _ORDER if sums[role]]
    other = sum(count for role, count in sums.items() if role not in _ORDER)
    around = context.token_count - sum(sums.values())
    segments = [*known, (OTHER, other), (_FORMAT, around)]
    return TokenBar(
        tuple((role, count) for role, count in segments if count > 0),
        context.token_count,
        context.token_source,
        context.max_tokens,
    )


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"
