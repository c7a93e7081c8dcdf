"""Filters of numbers. Each gets the scope, the value, and its arguments; numbers stay below 2^128."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.templates.values import number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.templates.scope import Scope

_MOST_BITS: Final = 128
_MOST_DIGITS: Final = 15


def _bounded(value: float) -> int | float:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise OverflowError("the number is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("there is no such number")
    return value


def _of_two(compute: Callable[[Any, Any], Any]) -> Callable[..., int | float]:
    def apply(scope: Scope, value: Any, other: Any) -> int | float:  # noqa: ARG001
        return _bounded(compute(_bounded(number(value)), _bounded(number(other))))

    return apply


def _of_one(compute: Callable[[Any], Any]) -> Callable[..., int | float]:
    return lambda scope, value: compute(_bounded(number(value)))  # noqa: ARG005


def _divide(value: Any, other: Any) -> int | float:
    """Of whole numbers the quotient is whole, as in Liquid."""
    return value // other if isinstance(value, int) and isinstance(other, int) else value / other


def _round(scope: Scope, value: Any, digits: Any = 0) -> int | float:  # noqa: ARG001
    places = min(max(int(number(digits)), 0), _MOST_DIGITS)
    found = _bounded(number(value))
    return round(found, places) if places else round(found)


NUMBER_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "plus": _of_two(operator.add),
    "minus": _of_two(operator.sub),
    "times": _of_two(operator.mul),
    "divided_by": _of_two(_divide),
    "modulo": _of_two(operator.mod),
    "at_least": _of_two(max),
    "at_most": _of_two(min),
    "abs": _of_one(abs),
    "ceil": _of_one(math.ceil),
    "floor": _of_one(math.floor),
    "round": _round,
}
