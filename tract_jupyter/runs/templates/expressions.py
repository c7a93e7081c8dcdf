"""Expressions, as they are evaluated: literals, paths, calls, ranges, comparisons, filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from tract_jupyter.runs.templates.filters import apply_filter
from tract_jupyter.runs.templates.values import contains, is_true, number, same

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.scope import Scope


class Expression(ABC):
    """Something that has a value."""

    @abstractmethod
    def value(self, scope: Scope) -> Any:
        """Its value now."""


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A text, a number, true, false, nil, empty, blank."""

    constant: Any

    @override
    def value(self, scope: Scope) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class Path(Expression):
    """`name.part[0]["other"]`, perhaps with a call: `name(2)[0].part`."""

    name: str
    arguments: tuple[Expression, ...] | None = None
    parts: tuple[Expression, ...] = ()

    @override
    def value(self, scope: Scope) -> Any:
        scope.budget.step(1 + len(self.parts))
        if self.arguments is None:
            found = scope.find(self.name)
        else:
            found = scope.call(self.name, [one.value(scope) for one in self.arguments])
        path = self.name
        for part in self.parts:
            key = part.value(scope)
            path = f"{path}.{str(key)[:60]}"
            found = scope.part(found, key, path)
        return found


@dataclass(frozen=True, slots=True)
class Range(Expression):
    """`(1..3)`: 1, 2, 3."""

    first: Expression
    last: Expression

    @override
    def value(self, scope: Scope) -> Any:
        first, last = int(number(self.first.value(scope))), int(number(self.last.value(scope)))
        scope.budget.step(max(0, last - first + 1))
        return list(range(first, last + 1))


_ORDER: Final = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """`left == right`, `left contains right`, ..."""

    operator: str
    left: Expression
    right: Expression

    @override
    def value(self, scope: Scope) -> Any:
        left, right = self.left.value(scope), self.right.value(scope)
        scope.budget.weigh(left)
        scope.budget.weigh(right)
        if self.operator in {"==", "!=", "<>"}:
            return same(left, right) == (self.operator == "==")
        if self.operator == "contains":
            return contains(left, right)
        if not is_true(left) or not is_true(right):
            return False
        if isinstance(left, str) and isinstance(right, str):
            return _ORDER[self.operator](left, right)
        return _ORDER[self.operator](number(left), number(right))


@dataclass(frozen=True, slots=True)
class Logic(Expression):
    """`left and right`, `left or right`; several are read from the right, as Liquid does."""

    operator: str
    left: Expression
    right: Expression

    @override
    def value(self, scope: Scope) -> Any:
        scope.budget.step()
        left = is_true(self.left.value(scope))
        if left == (self.operator == "or"):
            return left
        return is_true(self.right.value(scope))


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """`not this`."""

    one: Expression

    @override
    def value(self, scope: Scope) -> Any:
        return not is_true(self.one.value(scope))


@dataclass(frozen=True, slots=True)
class Filter:
    """`| name: argument, key: argument`."""

    name: str
    arguments: tuple[Expression, ...] = ()
    options: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Filtered(Expression):
    """A value that goes through filters."""

    start: Expression
    filters: tuple[Filter, ...] = field(default=())

    @override
    def value(self, scope: Scope) -> Any:
        found = self.start.value(scope)
        for one in self.filters:
            arguments = [argument.value(scope) for argument in one.arguments]
            options = {name: argument.value(scope) for name, argument in one.options}
            found = apply_filter(scope, one.name, found, arguments, options)
        return found
