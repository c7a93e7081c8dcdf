"""What a compression costs and saves.

Anthropic bills a cached token at 0.1 of the price of an input token
(https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching); other providers at 0.1 to 0.5, depending on the
model (https://platform.openai.com/docs/pricing). A token that a model writes costs five times one that it reads with
Anthropic's models (https://www.anthropic.com/pricing).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import CompressionError
from tract_jupyter.models.compression import Price

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.models.context import CompiledContext

CACHED_READ: Final = 0.1
OUTPUT_PRICE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices as parts of that of an input token.

    Raises:
        CompressionError: they cannot be prices.
    """

    cached_read: float = CACHED_READ
    output_price: float = OUTPUT_PRICE

    def __post_init__(self) -> None:
        if not _is_number(self.cached_read) or not 0 < self.cached_read <= 1:
            raise CompressionError(
                "cached_read is the price of a cached token as a part of that of an input token, above 0 and at "
                f"most 1, such as {CACHED_READ}; got {self.cached_read!r}"
            )
        if not _is_number(self.output_price) or not 0 <= self.output_price < float("inf"):
            raise CompressionError(
                f"output_price is a multiple of the price of an input token, at least 0, such as {OUTPUT_PRICE}; "
                f"got {self.output_price!r}"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def price(
    before: CompiledContext,
    after: CompiledContext,
    dropped: Collection[str],
    read: int,
    written: int,
    rates: Rates,
) -> Price:
    """Compute the price.

    Args:
        before: the context as it is.
        after: the context as it would be.
        dropped: the commits that are summed up.
        read: how many tokens a summarizer reads; none if the summaries are given.
        written: how many it writes.
        rates: what a token costs.
    """
    index = next(i for i, m in enumerate(before.messages) if m.commit_hash in dropped)
    kept = sum(message.token_count for message in before.messages[:index])
    return Price(
        saved_per_call=before.token_count - after.token_count,
        cache_kept=kept,
        broken_index=index,
        broken_commit=before.messages[index].commit_hash,
        read_anew=after.token_count - kept,
        summarizer_input=read,
        summarizer_output=written,
        cached_read=rates.cached_read,
        output_price=rates.output_price,
        token_source=after.token_source,
    )
