"""Filters of numbers. Each gets the scope, the value, and its arguments; numbers stay below 2^128."""

from __future__ import annotations

import math
import operator
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.templates.values import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tract_jupyter.runs.templates.scope import Scope

_MOST_BITS: Final = 128
_MOST_DIGITS: Final = 15
_PRECISION: Final = 350
"""Digits, enough for the largest number and all its decimals."""


def _bounded(value: float) -> int | float:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise OverflowError("the number is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("there is no such number")
    return value


def _decimal(value: float) -> Decimal:
    return Decimal(repr(value))


def _of_two(compute: Callable[[Any, Any], Any]) -> Callable[..., int | float]:
    """Whole numbers stay whole; others are taken for the decimals that they are written as, so 0.1 and 0.2 are 0.3."""

    def apply(scope: Scope, value: Any, other: Any) -> int | float:  # noqa: ARG001
        one, two = _bounded(number(value)), _bounded(number(other))
        if isinstance(one, int) and isinstance(two, int):
            return _bounded(compute(one, two))
        with localcontext(prec=_PRECISION):
            return _bounded(float(compute(_decimal(one), _decimal(two))))

    return apply


def _chosen(choose: Callable[[Any, Any], int | float]) -> Callable[..., int | float]:
    return lambda scope, value, other: _bounded(choose(number(value), number(other)))  # noqa: ARG005


def _of_one(compute: Callable[[Any], Any]) -> Callable[..., int | float]:
    return lambda scope, value: compute(_bounded(number(value)))  # noqa: ARG005


def _divide(value: Any, other: Any) -> int | float:
    """Of whole numbers the quotient is whole, as in Liquid."""
    _see_divisor(other)
    quotient: int | float = value // other if isinstance(value, int) else value / other
    return quotient


def _see_divisor(other: Any) -> None:
    if not other:
        raise ZeroDivisionError("nothing can be divided by 0")


def _modulo(value: Any, other: Any) -> Any:
    """The rest has the divisor's sign, of decimals too."""
    _see_divisor(other)
    rest = value % other
    return rest + other if rest and (rest < 0) != (other < 0) else rest


def _round(scope: Scope, value: Any, digits: Any = 0) -> int | float:  # noqa: ARG001
    """To the nearest, and a half away from zero."""
    places = max(min(int(number(digits)), _MOST_DIGITS), -_MOST_DIGITS)
    found = _bounded(number(value))
    if isinstance(found, int) and places >= 0:
        return found
    with localcontext(prec=_PRECISION):
        unit = Decimal(1).scaleb(-places)
        made = (_decimal(found) / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit
    return int(made) if not places or isinstance(found, int) else float(made)


def total(values: Iterable[Any]) -> int | float:
    """The sum of numbers."""
    found = [_bounded(number(one)) for one in values]
    if all(isinstance(one, int) for one in found):
        return _bounded(sum(found))
    with localcontext(prec=_PRECISION):
        return _bounded(float(sum(map(_decimal, found))))


NUMBER_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "plus": _of_two(operator.add),
    "minus": _of_two(operator.sub),
    "times": _of_two(operator.mul),
    "divided_by": _of_two(_divide),
    "modulo": _of_two(_modulo),
    "at_least": _chosen(max),
    "at_most": _chosen(min),
    "abs": _of_one(abs),
    "ceil": _of_one(math.ceil),
    "floor": _of_one(math.floor),
    "round": _round,
}
