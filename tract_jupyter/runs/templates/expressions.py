"""Expressions of templates: literals, paths, calls, ranges, comparisons, filters."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.filters import FILTERS, apply_filter
from tract_jupyter.runs.templates.values import MAX_DEPTH, Empty, contains, is_true, number, same

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.values import TemplateScope


Token = tuple[str, str]
"""The kind (`text`, `number`, `name`, `sign`, `end`) and the text."""

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
    """The tokens of an expression, taken in order."""

    def __init__(self, source: str) -> None:
        self._all = _words(source)
        self.place = 0

    @property
    def next(self) -> Token:
        """The next token, without taking it."""
        return self._all[self.place] if self.place < len(self._all) else END

    def take(self) -> Token:
        """Take the next token."""
        token = self.next
        self.place += token is not END
        return token

    def taken_since(self, place: int) -> str:
        """Return the tokens from a place up to here, as a key."""
        return str(self._all[place : self.place])

    def takes(self, *words: str) -> str | None:
        """Take the next token if it is one of these signs or names, and return it."""
        kind, word = self.next
        if kind in {"sign", "name"} and word in words:
            self.take()
            return word
        return None

    def takes_option(self) -> str | None:
        """Take the name of an option and its colon, if they are next; return the name."""
        kind, word = self.next
        if kind == "name" and self._all[self.place + 1 : self.place + 2] == [("sign", ":")]:
            self.place += 2
            return word
        return None

    def expect(self, sign: str) -> None:
        """Take a required sign.

        Raises:
            TemplateError: another token is next.
        """
        if not self.takes(sign):
            raise TemplateError(f"expected {sign!r} instead of {self.next[1]!r}")

    def name(self) -> str:
        """Take a required name.

        Raises:
            TemplateError: another token is next.
        """
        kind, word = self.take()
        if kind != "name":
            raise TemplateError(f"expected a name instead of {word!r}")
        return word

    def done(self) -> None:
        """Refuse further tokens.

        Raises:
            TemplateError: there is another token.
        """
        if self.next is not END:
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


Expression = Callable[["TemplateScope"], Any]
"""Returns the value of an expression in a scope."""


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compare two texts or two numbers. Nil and false are neither smaller nor larger than other values."""

    def apply(left: Any, right: Any) -> bool:
        if not is_true(left) or not is_true(right):
            return False
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        return compare(number(left), number(right))

    return apply


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": same,
    "!=": lambda left, right: not same(left, right),
    "<>": lambda left, right: not same(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "contains": contains,
}
_CONSTANTS: Final = {
    "true": True, "false": False, "nil": None, "null": None, "empty": Empty(blank=False), "blank": Empty(blank=True),
}  # fmt: skip


def read_filtered(tokens: Tokens) -> Expression:
    """Parse `expression | filter: argument | filter`."""
    start = read_condition(tokens)
    filters: list[Callable[[TemplateScope, Any], Any]] = []
    while tokens.takes("|"):
        filters.append(_filter(tokens))
    if not filters:
        return start

    def apply(scope: TemplateScope) -> Any:
        value = start(scope)
        for one in filters:
            value = one(scope, value)
        return value

    return apply


def read_condition(tokens: Tokens, depth: int = 0) -> Expression:
    """Parse `a == b and not c`, grouped from the right, as in Liquid."""
    left = _comparison(tokens, depth)
    word = tokens.takes("and", "or")
    if word is None:
        return left
    right = read_condition(tokens, depth + 1)

    def decide(scope: TemplateScope) -> bool:
        scope.budget.step()
        first = is_true(left(scope))
        return first if first == (word == "or") else is_true(right(scope))

    return decide


def read_value(tokens: Tokens, depth: int = 0) -> Expression:
    """Parse a literal, a range, or a path."""
    if depth > MAX_DEPTH:
        raise TemplateError(f"more than {MAX_DEPTH} brackets or conditions within each other")
    kind, word = tokens.take()
    if kind == "text":
        return _literal(word)
    if kind == "number":
        return _literal(float(word) if "." in word else int(word))
    if kind == "name":
        return _literal(_CONSTANTS[word]) if word in _CONSTANTS else _path(word, tokens, depth)
    if word == "(" and kind == "sign":
        return _bracket(tokens, depth)
    raise TemplateError(f"expected a value instead of {word!r}")


def _literal(value: Any) -> Expression:
    return lambda scope: value  # noqa: ARG005


def _comparison(tokens: Tokens, depth: int) -> Expression:
    if tokens.takes("not"):
        if depth > MAX_DEPTH:
            raise TemplateError(f"more than {MAX_DEPTH} conditions within each other")
        negated = _comparison(tokens, depth + 1)
        return lambda scope: not is_true(negated(scope))
    left = read_value(tokens, depth)
    sign = tokens.takes(*_COMPARISONS)
    if sign is None:
        return left
    compare, right = _COMPARISONS[sign], read_value(tokens, depth)

    def decide(scope: TemplateScope) -> bool:
        first, second = left(scope), right(scope)
        scope.budget.weigh(first)
        scope.budget.weigh(second)
        return compare(first, second)

    return decide


def _bracket(tokens: Tokens, depth: int) -> Expression:
    inner = read_condition(tokens, depth + 1)
    last = read_value(tokens, depth + 1) if tokens.takes("..") else None
    tokens.expect(")")
    if last is None:
        return inner

    def count(scope: TemplateScope) -> list[int]:
        start, end = int(number(inner(scope))), int(number(last(scope)))
        scope.budget.step(max(0, end - start + 1))
        return list(range(start, end + 1))

    return count


def _path(name: str, tokens: Tokens, depth: int) -> Expression:
    """Parse `name.part[0]["other"]`, maybe with a call: `name(2)[0].part`."""
    arguments = _arguments(tokens, depth) if tokens.takes("(") else None
    parts: list[Expression] = []
    while sign := tokens.takes(".", "["):
        if sign == ".":
            parts.append(_literal(tokens.name()))
        else:
            parts.append(read_value(tokens, depth + 1))
            tokens.expect("]")

    def look_up(scope: TemplateScope) -> Any:
        scope.budget.step(1 + len(parts))
        value = scope.find(name) if arguments is None else scope.call(name, [one(scope) for one in arguments])
        path = name
        for part in parts:
            key = part(scope)
            path = f"{path}.{str(key)[:60]}"
            value = scope.part(value, key, path)
        return value

    return look_up


def _arguments(tokens: Tokens, depth: int) -> list[Expression]:
    arguments: list[Expression] = []
    while not tokens.takes(")"):
        if arguments:
            tokens.expect(",")
        arguments.append(read_value(tokens, depth + 1))
    return arguments


def _filter(tokens: Tokens) -> Callable[[TemplateScope, Any], Any]:
    """Parse a filter with its arguments: `name: argument, key: argument`."""
    name = tokens.name()
    if name not in FILTERS:
        raise TemplateError(f"unknown filter {name!r}; known filters: {', '.join(sorted(FILTERS))}")
    arguments: list[Expression] = []
    options: dict[str, Expression] = {}
    more = tokens.takes(":")
    while more:
        option = tokens.takes_option()
        if option is None:
            arguments.append(read_value(tokens))
        else:
            options[option] = read_value(tokens)
        more = tokens.takes(",")

    def apply(scope: TemplateScope, value: Any) -> Any:
        values = [one(scope) for one in arguments]
        return apply_filter(scope, name, value, values, {key: one(scope) for key, one in options.items()})

    return apply
