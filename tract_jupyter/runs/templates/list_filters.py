"""Filters of lists. Each gets the scope, the value, and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.templates.number_filters import total
from tract_jupyter.runs.templates.values import (
    MISSING,
    as_json,
    elements,
    flat,
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
    texts, between = [text_of(one) for one in flat(value)], text_of(glue)
    scope.budget.charge(len(between) * len(texts))
    return between.join(texts)


def _property(one: Any, key: Any) -> Any:
    """What an element has under a key."""
    if isinstance(one, int | float) and not isinstance(one, bool):
        raise TypeError(f"{one} is a number, and has no {text_of(key)[:60]!r}")
    return item_of(one, key)


def _by(one: Any, key: Any) -> Any:
    """What an element goes by: itself, or what it has under a key."""
    return one if key is None else _property(one, key)


def _concat(scope: Scope, value: Any, more: Any) -> list[Any]:  # noqa: ARG001
    if not isinstance(more, list | tuple):
        raise TypeError(f"a list is needed, and this is {text_of(more)[:40]!r}")
    return flat(value) + flat(more)


def _size(scope: Scope, value: Any) -> int:  # noqa: ARG001
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def _index(value: Any) -> int:
    found = number(value)
    if not isinstance(found, int) or value is None or value is MISSING:
        raise TypeError(f"{text_of(value)[:40]!r} is no whole number")
    return found


def _slice(scope: Scope, value: Any, start: Any, length: Any = 1) -> Any:  # noqa: ARG001
    whole = list(value) if isinstance(value, list | tuple) else text_of(value)
    count = 1 if length is None or length is MISSING else max(0, _index(length))
    first = _index(start)
    first = first + len(whole) if first < 0 else first
    return whole[first : first + count] if first >= 0 else whole[:0]


def _sort(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    return sorted(flat(value), key=lambda one: _by_kind(_by(one, key)))


def _sort_natural(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    def by_letters(one: Any) -> tuple[bool, str]:
        found = _by(one, key)
        return found is None or found is MISSING, text_of(found).casefold()

    return sorted(flat(value), key=by_letters)


def _by_kind(value: Any) -> tuple[int, Any]:
    """Numbers, then texts, then what is neither, nothing last."""
    if isinstance(value, int | float):
        return (0, value)
    return (2 if value is None or value is MISSING else 1, text_of(value))


def _uniq(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    found: dict[str, Any] = {}
    for one in flat(value):
        found.setdefault(as_json(_by(one, key)), one)
    return list(found.values())


def _compact(scope: Scope, value: Any, key: Any = None) -> list[Any]:  # noqa: ARG001
    return [one for one in flat(value) if _by(one, key) not in (None, MISSING)]


def _map(scope: Scope, value: Any, key: Any) -> list[Any]:  # noqa: ARG001
    found = [_property(one, key) for one in flat(value)]
    return [None if one is MISSING else one for one in found]


def _chooser(give: Callable[[list[tuple[int, Any, bool]]], Any]) -> Callable[..., Any]:
    """A filter that goes by which elements have something under a key, or just this value.

    `give` gets the place of each element, the element, and whether it fits.
    """

    def choose(scope: Scope, value: Any, key: Any, wanted: Any = None) -> Any:
        found = flat(value)
        scope.budget.step(len(found))
        return give([(place, one, _fits(one, key, wanted)) for place, one in enumerate(found)])

    return choose


def _fits(one: Any, key: Any, wanted: Any) -> bool:
    """Of a text, a part that it has counts as a key and its value."""
    of_text = isinstance(one, str) and isinstance(key, str)
    found = (key if key in one else None) if of_text else _property(one, key)
    return is_true(found) if wanted is None or wanted is MISSING else same(found, wanted)


def _sum(scope: Scope, value: Any, key: Any = None) -> int | float:  # noqa: ARG001
    return total(_by(one, key) for one in flat(value))


def _end(value: Any, place: int) -> Any:
    """The first or the last element; a text and a number have none."""
    found = [] if isinstance(value, str) else elements(value)
    return found[place] if found else None


def _pick(scope: Scope, value: Any) -> Any:
    """One element, by the run's own dice: the same one in each replay."""
    found = elements(value)
    return scope.random.choice(found) if found else None


LIST_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "join": _join,
    "first": lambda scope, value: _end(value, 0),  # noqa: ARG005
    "last": lambda scope, value: _end(value, -1),  # noqa: ARG005
    "size": _size,
    "reverse": lambda scope, value: flat(value)[::-1],  # noqa: ARG005
    "concat": _concat,
    "slice": _slice,
    "sort": _sort,
    "sort_natural": _sort_natural,
    "uniq": _uniq,
    "compact": _compact,
    "map": _map,
    "where": _chooser(lambda fits: [one for _, one, fit in fits if fit]),
    "reject": _chooser(lambda fits: [one for _, one, fit in fits if not fit]),
    "find": _chooser(lambda fits: next((one for _, one, fit in fits if fit), None)),
    "find_index": _chooser(lambda fits: next((place for place, _, fit in fits if fit), None)),
    "has": _chooser(lambda fits: any(fit for *_, fit in fits)),
    "sum": _sum,
    "pick": _pick,
}
