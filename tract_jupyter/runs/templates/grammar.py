"""Reads expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.expressions import (
    Comparison,
    Expression,
    Filter,
    Filtered,
    Literal,
    Logic,
    Not,
    Path,
    Range,
)
from tract_jupyter.runs.templates.filters import FILTERS
from tract_jupyter.runs.templates.limits import MAX_DEPTH
from tract_jupyter.runs.templates.values import Empty

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.tokens import Tokens

_CONSTANTS: Final = {
    "true": True, "false": False, "nil": None, "null": None, "empty": Empty(blank=False), "blank": Empty(blank=True),
}  # fmt: skip
_COMPARISONS: Final = ("==", "!=", "<>", "<=", ">=", "<", ">", "contains")


def read_filtered(tokens: Tokens) -> Expression:
    """`expression | filter: argument | filter`."""
    start = read_condition(tokens)
    filters = []
    while tokens.takes("|"):
        filters.append(_filter(tokens))
    return Filtered(start, tuple(filters)) if filters else start


def read_condition(tokens: Tokens, depth: int = 0) -> Expression:
    """`a == b and not c`, read from the right."""
    left = _comparison(tokens, depth)
    operator = tokens.takes("and", "or")
    return Logic(operator, left, read_condition(tokens, depth + 1)) if operator else left


def read_value(tokens: Tokens, depth: int = 0) -> Expression:
    """A literal, a range, or a path."""
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
    return Comparison(operator, left, read_value(tokens, depth)) if operator else left


def _bracket(tokens: Tokens, depth: int) -> Expression:
    """A range, or a condition in brackets."""
    inner = read_condition(tokens, depth + 1)
    if tokens.takes(".."):
        inner = Range(inner, read_value(tokens, depth + 1))
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
        raise TemplateError(f"there is no filter {name!r}; there are: {', '.join(sorted(FILTERS))}")
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
