"""Where the values of a call come from: for each argument the expression in the code, and what its names stood for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.review.request import ValueRow, show_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

_LENGTH = 80
_MOST_NAMES = 8


class Stretch(NamedTuple):
    """A piece of a text, as `ast` tells it: lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


def stretch_of(frame: FrameType) -> Stretch | None:
    """What a frame is at; None where its code does not tell."""
    position = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return Stretch(line, column, end_line, end_column)


def origins(code: str, call: Stretch, values: Mapping[str, Any] | None = None) -> tuple[ValueRow, ...]:
    """A row for each argument of a call that is no literal.

    Args:
        code: the whole text.
        call: where the call stands in it.
        values: of the names there; empty where nobody knows.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _place(node) == call), None
    )
    return () if found is None else tuple(_rows(code, found, values or {}))


def _rows(code: str, call: ast.Call, values: Mapping[str, Any]) -> Iterator[ValueRow]:
    given = [(f"argument {number}", node) for number, node in enumerate(call.args, 1)]
    given += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
    for name, expression in given:
        if not isinstance(expression, ast.Constant):
            text = ast.get_source_segment(code, expression) or ""
            yield ValueRow(name, "", text, _known(expression, values))


def _known(expression: ast.expr, values: Mapping[str, Any]) -> str:
    """`n = 10, topic = {...}`: what the names in an expression stood for."""
    names = dict.fromkeys(
        node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and node.id in values
    )
    return ", ".join(f"{name} = {show_value(values[name], _LENGTH)}" for name in list(names)[:_MOST_NAMES])


def _place(node: ast.expr) -> Stretch:
    return Stretch(
        node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    )
