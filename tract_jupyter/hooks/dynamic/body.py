"""A function's body as text: put under a `def` line, with its lines, and the strings in them, left as they are."""

from __future__ import annotations

import ast
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def as_function(name: str, parameters: Iterable[str], body: str) -> str:
    """The text of a function; line 1 of the body is its line 2.

    Args:
        name: of the function.
        parameters: their names, in order.
        body: it parses.

    Raises:
        ValueError: the body cannot be indented without changing what it means.
    """
    before = ast.parse(body).body
    inside = lines_inside_strings(before)
    lines = enumerate(io.StringIO(body, newline=None), 1)
    placed = "".join(line if number in inside else f" {line}" for number, line in lines)
    text = f"def {name}({', '.join(parameters)}):\n{placed}\n"
    if not _is_same(text, before):
        raise ValueError("it means something else when it is indented; remove control characters")
    return text


def lines_inside_strings(body: list[ast.stmt]) -> set[int]:
    """The lines that begin within a string over several lines: what stands at their beginning is its text."""
    inside: set[int] = set()
    for statement in body:
        for node in ast.walk(statement):
            is_string = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
            if is_string or isinstance(node, ast.JoinedStr):
                inside.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return inside


def _is_same(text: str, body: list[ast.stmt]) -> bool:
    try:
        module = ast.parse(text).body
    except SyntaxError:
        return False
    made = module[0] if len(module) == 1 else None
    return isinstance(made, ast.FunctionDef) and list(map(ast.dump, made.body)) == list(map(ast.dump, body))
