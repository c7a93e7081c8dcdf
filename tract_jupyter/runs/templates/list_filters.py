"""Filters of lists. Each gets the scope, the value, and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.templates.values import (
    MISSING,
    as_json,
    elements,
    is_true,
    item_of,
    number,
    same,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.templates.scope import Scope


def _join(scope: Scope, value: Any, glue: Any = " ") -> str:
    texts, between = [text_of(one) for one in elements(value)], text_of(glue)
    scope.budget.charge(len(between) * len(texts))
    return between.join(texts)


def _size(scope: Scope, value: Any) -> int:  # noqa: ARG001
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def _slice(scope: Scope, value: Any, start: Any, length: Any = 1) -> Any:  # noqa: ARG001
    whole = list(value) if isinstance(value, list | tuple) else text_of(value)
    first, count = int(number(start)), max(0, int(number(length)))
    first = max(first + len(whole), 0) if first < 0 else first
    return whole[first : first + count]


def _sort(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    found = elements(value)
    return sorted(found, key=lambda one: _by_kind(one if key is None else item_of(one, key)))


def _sort_natural(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    found = elements(value)
    return sorted(found, key=lambda one: text_of(one if key is None else item_of(one, key)).casefold())


def _by_kind(value: Any) -> tuple[int, Any]:
    """Numbers, then texts, then what is neither, nothing last."""
    if isinstance(value, int | float):
        return (0, value)
    return (2 if value is None or value is MISSING else 1, text_of(value))


def _uniq(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    found = {as_json(one if key is None else item_of(one, key)): one for one in reversed(elements(value))}
    return list(reversed(found.values()))


def _compact(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    return [
        one for one in elements(value) if (one if key is None else item_of(one, key)) not in (None, MISSING)
    ]


def _map(scope: Scope, value: Any, key: Any) -> list[Any]:  # noqa: ARG001
    found = [item_of(one, key) for one in elements(value)]
    return [None if one is MISSING else one for one in found]


def _chooser(*, keep: bool) -> Callable[..., list[Any]]:
    def choose(scope: Scope, value: Any, key: Any, wanted: Any = MISSING) -> list[Any]:
        scope.budget.step(_size(scope, value))

        def fits(one: Any) -> bool:
            found = item_of(one, key)
            return is_true(found) if wanted is MISSING else same(found, wanted)

        return [one for one in elements(value) if fits(one) == keep]

    return choose


def _sum(scope: Scope, value: Any, key: Any = None) -> int | float:  # noqa: ARG001
    return sum(number(one if key is None else item_of(one, key)) for one in elements(value))


def _pick(scope: Scope, value: Any) -> Any:
    """One element, by the run's own dice: the same one in each replay."""
    found = elements(value)
    return scope.random.choice(found) if found else None


LIST_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "join": _join,
    "first": lambda scope, value: next(iter(elements(value)), None),  # noqa: ARG005
    "last": lambda scope, value: next(reversed(elements(value)), None),  # noqa: ARG005
    "size": _size,
    "reverse": lambda scope, value: elements(value)[::-1],  # noqa: ARG005
    "concat": lambda scope, value, more: elements(value) + elements(more),  # noqa: ARG005
    "slice": _slice,
    "sort": _sort,
    "sort_natural": _sort_natural,
    "uniq": _uniq,
    "compact": _compact,
    "map": _map,
    "where": _chooser(keep=True),
    "reject": _chooser(keep=False),
    "sum": _sum,
    "pick": _pick,
}
