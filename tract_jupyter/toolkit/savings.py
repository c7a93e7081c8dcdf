"""How many tokens calling tools in code saves, as an estimate that shows its arithmetic.

Without code, each call is a message of the model (tool name and arguments) and a message back (the result), and both
stay in the prompt. In code they never enter it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.toolkit.bridge import CallRecord

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_CALL: Final = 12
"""What a chat format adds around a call and its result: ids, names, roles."""

_SAMPLE: Final = 20
_SCALAR: Final = 5


@dataclass(frozen=True, slots=True)
class TokenSavings:
    """An estimate in tokens: `total = calls * TOKENS_PER_CALL + argument_tokens + result_tokens`."""

    calls: int
    argument_tokens: int
    result_tokens: int

    @property
    def total(self) -> int:
        """Tokens that did not enter the prompt."""
        return self.calls * TOKENS_PER_CALL + self.argument_tokens + self.result_tokens


def estimate_savings(calls: Iterable[CallRecord]) -> TokenSavings:
    """Sum over logged calls."""
    records = list(calls)
    return TokenSavings(
        len(records),
        sum(record.argument_size for record in records) // CHARACTERS_PER_TOKEN,
        sum(record.result_size for record in records) // CHARACTERS_PER_TOKEN,
    )


def rough_size(value: Any, depth: int = 3) -> int:
    """About how many characters the value's JSON has. Looks at 20 entries of each container, three levels deep."""
    if isinstance(value, str | bytes):
        return len(value) + 2
    if isinstance(value, dict) and value:
        return _extrapolate(value, [len(str(k)) + 4 + rough_size(value[k], depth - 1) for k in _first(value, depth)])
    if isinstance(value, list | tuple | set) and value:
        return _extrapolate(value, [2 + rough_size(item, depth - 1) for item in _first(value, depth)])
    return _SCALAR


def _first(value: Any, depth: int) -> list[Any]:
    return [item for item, _ in zip(value, range(_SAMPLE if depth > 0 else 0), strict=False)]


def _extrapolate(value: Any, sizes: list[int]) -> int:
    return 2 + (sum(sizes) * len(value) // len(sizes) if sizes else _SCALAR * len(value))
