"""How many tokens calling tools in code saves, as an estimate that shows its arithmetic.

Without code, each call is a message of the model (tool name and arguments) and a message back (the result), and both
stay in the prompt. In code they never enter it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.toolkit.bridge import CallRecord

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_CALL: Final = 12
"""What a chat format adds around a call and its result: ids, names, roles."""

_SAMPLE: Final = 20
_SCALAR: Final = 5
_SCALARS: Final = frozenset({int, float, bool, type(None)})


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
    kind = type(value)
    if kind in _SCALARS:  # most values, and every call is measured
        return _SCALAR
    if kind is str or isinstance(value, str | bytes):
        return len(value) + 2
    if isinstance(value, dict):
        return _dict_size(value, depth) if value else _SCALAR
    if isinstance(value, list | tuple | set):
        return _list_size(value, depth) if value else _SCALAR
    return _SCALAR


def _dict_size(value: dict[Any, Any], depth: int) -> int:
    if depth <= 0:
        return 2 + _SCALAR * len(value)
    total = 0
    for key, item in value.items() if len(value) <= _SAMPLE else islice(value.items(), _SAMPLE):
        total += (len(key) if type(key) is str else len(str(key))) + 4
        total += _SCALAR if type(item) in _SCALARS else rough_size(item, depth - 1)
    return 2 + _extrapolate(total, len(value))


def _list_size(value: list[Any] | tuple[Any, ...] | set[Any], depth: int) -> int:
    if depth <= 0:
        return 2 + _SCALAR * len(value)
    total = 0
    for item in value if len(value) <= _SAMPLE else islice(value, _SAMPLE):
        total += 2 + (_SCALAR if type(item) in _SCALARS else rough_size(item, depth - 1))
    return 2 + _extrapolate(total, len(value))


def _extrapolate(total: int, length: int) -> int:
    return total if length <= _SAMPLE else total * length // _SAMPLE
