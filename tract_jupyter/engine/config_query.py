"""Conditions on the generation config that a commit was made with."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, nearest
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Condition = tuple[str, str, Any]

_MISSING: Final = object()


def _between(value: Any, bounds: Any) -> bool:
    low, high = bounds
    return bool(low <= value <= high)


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "in": lambda value, many: value in many,
    "not in": lambda value, many: value not in many,
    "between": _between,
    "not between": lambda value, bounds: not _between(value, bounds),
}


def checked_conditions(conditions: object) -> list[Condition]:
    """The conditions, each of which can be evaluated.

    Raises:
        ContentError: one of them is none, its operator is unknown, or its value is of the wrong form.
    """
    if not isinstance(conditions, list | tuple):
        raise ContentError(f"conditions is a list of (field, operator, value), not {brief_repr(conditions)}")
    for condition in conditions:
        _check(condition)
    return list(conditions)


def _check(condition: object) -> None:
    if not (isinstance(condition, list | tuple) and len(condition) == 3 and isinstance(condition[0], str)):  # noqa: PLR2004 # its parts
        raise ContentError(
            f"a condition is (field, operator, value), such as ('model', '=', 'm1'), not {brief_repr(condition)}"
        )
    _, name, value = condition
    if not isinstance(name, str) or name not in _OPERATORS:
        raise ContentError(
            f"no operator {name!r}.{nearest(str(name), _OPERATORS)} There are {', '.join(_OPERATORS)}"
        )
    if "in" in name.split() and not isinstance(value, list | tuple | set | frozenset):
        raise ContentError(f"{name!r} takes a list of values, got {value!r}")
    if "between" in name and not (isinstance(value, list | tuple) and len(value) == 2):  # noqa: PLR2004 # low, high
        raise ContentError(f"{name!r} takes a pair of bounds, got {value!r}")


def fits(config: Mapping[str, Any], condition: Condition) -> bool:
    """Whether a config has the field, and its value is as the condition says. Other types than that do not compare."""
    field, name, value = condition
    given = config.get(field, _MISSING)
    if given is _MISSING:
        return False
    try:
        return bool(_OPERATORS[name](given, value))
    except TypeError:
        return False
