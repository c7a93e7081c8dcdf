"""What an expression may stand for: dotted names, constants, the members of a display, user functions.

This is a *may* analysis: a value holds every possibility that was seen, and what is unknown adds nothing. A
name bound to ``os`` in one branch and to a number in another one may still be ``os``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable

Const = str | bytes | int

HOLE = "\ue000"
"""Stands for an unknown piece of a string; a private-use character, so that text cannot be taken for it."""

ANY_MODULE = "?"
"""The dotted name of a module that was fetched by a name which is not known."""

MAX_ALTERNATIVES = 8
MAX_CONST = 4096
MAX_NAME = 200
MAX_MEMBERS = 1024

_T = TypeVar("_T")


class Value(NamedTuple):
    """Everything an expression may stand for; the empty value is: unknown, or something of the user's own.

    Attributes:
        names: Dotted names; an instance of a class is its name with ``()`` behind it: ``pathlib.Path()``.
        consts: Folded constants; strings may contain ``HOLE``.
        items: Members of a tuple, list or set display.
        entries: Constant keys and their values of a dict display.
        functions: Functions and lambdas of the user's own.
        guessed: The name was never bound here, so that it was taken for the module of that name.
    """

    names: frozenset[str] = frozenset()
    consts: tuple[Const, ...] = ()
    items: tuple[Value, ...] | None = None
    entries: tuple[tuple[Const, Value], ...] | None = None
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, ...] = ()
    guessed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The constants as text, where they are text; bytes count, because a path may be bytes."""
        if not self.consts:
            return ()
        return tuple(
            const if isinstance(const, str) else const.decode("utf-8", "replace")
            for const in self.consts
            if isinstance(const, (str, bytes))
        )


UNKNOWN = Value()


@lru_cache(maxsize=4096)
def named(*names: str) -> Value:
    """A value that is known by name; nothing, without one."""
    if not names:
        return UNKNOWN
    return Value(names=frozenset(name for name in names if len(name) <= MAX_NAME))


def constant(*consts: Const | None) -> Value:
    """A value of known constants; those that could not be folded (None) are left out."""
    kept = tuple([const for const in consts if const is not None and _is_small(const)])
    if len(kept) > 1:
        kept = tuple(dict.fromkeys(kept))[:MAX_ALTERNATIVES]
    return Value(consts=kept) if kept else UNKNOWN


def _is_small(const: Const) -> bool:
    return const.bit_length() <= MAX_CONST if isinstance(const, int) else len(const) <= MAX_CONST


def union(values: Iterable[Value]) -> Value:
    """Everything that any of the values may be."""
    members = [value for value in values if value is not UNKNOWN]
    if len(members) <= 1:
        return members[0] if members else UNKNOWN
    return Value(
        names=frozenset().union(*(value.names for value in members)),
        consts=tuple(dict.fromkeys(const for value in members for const in value.consts))[:MAX_ALTERNATIVES],
        items=_joined([value.items for value in members if value.items is not None]),
        entries=_joined([value.entries for value in members if value.entries is not None]),
        functions=tuple(dict.fromkeys(function for value in members for function in value.functions)),
        guessed=any(value.guessed for value in members),
    )


def _joined(parts: list[tuple[_T, ...]]) -> tuple[_T, ...] | None:
    return tuple(member for part in parts for member in part)[:MAX_MEMBERS] if parts else None


def lift(fold: Callable[..., Const | None], *values: Value) -> Value:
    """Apply a fold to every combination of constants; nothing when one of the values has none."""
    if any(not value.consts for value in values):
        return UNKNOWN
    combinations = product(*(value.consts for value in values))
    return constant(*(fold(*combination) for combination, _ in zip(combinations, range(16), strict=False)))
