"""Expressions of templates: literals, paths, calls, ranges, comparisons, filters."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.filters import FILTERS, apply_filter
from tract_jupyter.runs.templates.values import MAX_DEPTH, Empty, contains, is_true, number, same

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.values import TemplateScope


Token = tuple[str, str]
"""Its kind (`text`, `number`, `name`, `sign`, `end`), and what it says."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
        "(?P<double>[^"]*)" | '(?P<single>[^']*)'
        | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
        | (?P<name>[^\W\d][\w-]*\??)
        | (?P<sign>==|!=|<>|<=|>=|\.\.|[<>.,:|()\[\]=])
    )""",
    re.VERBOSE,
)
_LONGEST_NUMBER: Final = 30
END: Final[Token] = ("end", "the end")


class Tokens:
    """The tokens of an expression, taken one after the other."""

    def __init__(self, source: str) -> None:
        self._all = deque(_words(source))

    @property
    def next(self) -> Token:
        """The one that comes, which stays."""
        return self._all[0] if self._all else END

    def take(self) -> Token:
        """Return the next token."""
        return self._all.popleft() if self._all else END

    def takes(self, *words: str) -> str | None:
        """Take the one that comes if it is one of these signs or names; tells which."""
        kind, word = self.next
        if kind in {"sign", "name"} and word in words:
            self.take()
            return word
        return None

    def expect(self, sign: str) -> None:
        """Take a sign that has to come.

        Raises:
            TemplateError: another one comes.
        """
        if not self.takes(sign):
            raise TemplateError(f"{sign!r} should come where {self.next[1]!r} is")

    def name(self) -> str:
        """Take a name that has to come.

        Raises:
            TemplateError: something else comes.
        """
        kind, word = self.take()
        if kind != "name":
            raise TemplateError(f"a name should come where {word!r} is")
        return word

    def done(self) -> None:
        """Refuse further tokens.

        Raises:
            TemplateError: something does.
        """
        if self._all:
            raise TemplateError(f"{self.next[1]!r} does not belong here")


def _words(source: str) -> list[Token]:
    words: list[Token] = []
    place, end = 0, len(source.rstrip())
    while place < end:
        match = _TOKEN.match(source, place, end)
        if match is None:
            raise TemplateError(f"{source[place:].strip()[:20]!r} cannot be read")
        words.append(_word(match))
        place = match.end()
    return words


def _word(match: re.Match[str]) -> Token:
    kind = str(match.lastgroup)
    word = match[kind]
    if kind == "number" and len(word) > _LONGEST_NUMBER:
        raise TemplateError(f"the number {word[:_LONGEST_NUMBER]}... is too long")
    return ("text" if kind in {"double", "single"} else kind, word)


class Expression(ABC):
    """An expression, which has a value."""

    @abstractmethod
    def value(self, scope: TemplateScope) -> Any:
        """Return the value."""


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A text, a number, true, false, nil, empty or blank."""

    constant: Any

    @override
    def value(self, scope: TemplateScope) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class Path(Expression):
    """A path `name.part[0]["other"]`, perhaps with a call: `name(2)[0].part`."""

    name: str
    arguments: tuple[Expression, ...] | None = None
    parts: tuple[Expression, ...] = ()

    @override
    def value(self, scope: TemplateScope) -> Any:
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
class RangeExpression(Expression):
    """A range: `(1..3)` is 1, 2, 3."""

    first: Expression
    last: Expression

    @override
    def value(self, scope: TemplateScope) -> Any:
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
class ComparisonExpression(Expression):
    """A comparison: `left == right`, `left contains right`, ..."""

    operator: str
    left: Expression
    right: Expression

    @override
    def value(self, scope: TemplateScope) -> Any:
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
    """`left and right`, or `left or right`. Several are evaluated from the right, as in Liquid."""

    operator: str
    left: Expression
    right: Expression

    @override
    def value(self, scope: TemplateScope) -> Any:
        scope.budget.step()
        left = is_true(self.left.value(scope))
        if left == (self.operator == "or"):
            return left
        return is_true(self.right.value(scope))


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """A negation: `not this`."""

    one: Expression

    @override
    def value(self, scope: TemplateScope) -> Any:
        return not is_true(self.one.value(scope))


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter with its arguments: `| name: argument, key: argument`."""

    name: str
    arguments: tuple[Expression, ...] = ()
    options: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Filtered(Expression):
    """A value and the filters that it goes through."""

    start: Expression
    filters: tuple[Filter, ...] = field(default=())

    @override
    def value(self, scope: TemplateScope) -> Any:
        found = self.start.value(scope)
        for one in self.filters:
            arguments = [argument.value(scope) for argument in one.arguments]
            options = {name: argument.value(scope) for name, argument in one.options}
            found = apply_filter(scope, one.name, found, arguments, options)
        return found


_CONSTANTS: Final = {
    "true": True, "false": False, "nil": None, "null": None, "empty": Empty(blank=False), "blank": Empty(blank=True),
}  # fmt: skip
_COMPARISONS: Final = ("==", "!=", "<>", "<=", ">=", "<", ">", "contains")


def read_filtered(tokens: Tokens) -> Expression:
    """Read `expression | filter: argument | filter`."""
    start = read_condition(tokens)
    filters = []
    while tokens.takes("|"):
        filters.append(_filter(tokens))
    return Filtered(start, tuple(filters)) if filters else start


def read_condition(tokens: Tokens, depth: int = 0) -> Expression:
    """Read `a == b and not c`, grouped from the right."""
    left = _comparison(tokens, depth)
    operator = tokens.takes("and", "or")
    return Logic(operator, left, read_condition(tokens, depth + 1)) if operator else left


def read_value(tokens: Tokens, depth: int = 0) -> Expression:
    """Read a literal, a range, or a path."""
    if depth > MAX_DEPTH:
        raise TemplateError(f"more than {MAX_DEPTH} brackets or conditions within each other")
    kind, word = tokens.take()
    if kind == "text":
        return Literal(word)
    if kind == "number":
        return Literal(float(word) if "." in word else int(word))
    if kind == "name":
        return Literal(_CONSTANTS[word]) if word in _CONSTANTS else _path(word, tokens, depth)
    if word == "(" and kind == "sign":
        return _bracket(tokens, depth)
    raise TemplateError(f"a value should come where {word!r} is")


def _comparison(tokens: Tokens, depth: int) -> Expression:
    if tokens.takes("not"):
        if depth > MAX_DEPTH:
            raise TemplateError(f"more than {MAX_DEPTH} conditions within each other")
        return Not(_comparison(tokens, depth + 1))
    left = read_value(tokens, depth)
    operator = tokens.takes(*_COMPARISONS)
    return ComparisonExpression(operator, left, read_value(tokens, depth)) if operator else left


def _bracket(tokens: Tokens, depth: int) -> Expression:
    """Read a range, or a condition in brackets."""
    inner = read_condition(tokens, depth + 1)
    if tokens.takes(".."):
        inner = RangeExpression(inner, read_value(tokens, depth + 1))
    tokens.expect(")")
    return inner


def _path(name: str, tokens: Tokens, depth: int) -> Expression:
    arguments = tuple(_arguments(tokens, depth)) if tokens.takes("(") else None
    parts: list[Expression] = []
    while True:
        if tokens.takes("."):
            parts.append(Literal(tokens.name()))
        elif tokens.takes("["):
            parts.append(read_value(tokens, depth + 1))
            tokens.expect("]")
        else:
            return Path(name, arguments, tuple(parts))


def _arguments(tokens: Tokens, depth: int) -> list[Expression]:
    arguments: list[Expression] = []
    while not tokens.takes(")"):
        if arguments:
            tokens.expect(",")
        arguments.append(read_value(tokens, depth + 1))
    return arguments


def _filter(tokens: Tokens) -> Filter:
    name = tokens.name()
    if name not in FILTERS:
        raise TemplateError(f"unknown filter {name!r}; known filters: {', '.join(sorted(FILTERS))}")
    arguments: list[Expression] = []
    options: list[tuple[str, Expression]] = []
    if tokens.takes(":"):
        while True:
            one = read_value(tokens)
            if isinstance(one, Path) and tokens.takes(":"):
                options.append((one.name, read_value(tokens)))
            else:
                arguments.append(one)
            if not tokens.takes(","):
                break
    return Filter(name, tuple(arguments), tuple(options))
