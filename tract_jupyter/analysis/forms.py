"""The form of an expression: its text without the names that the code chose itself.

Two expressions have one form when they differ in such names, in layout or in comments, and in nothing else.
"""

from __future__ import annotations

import ast
import hashlib
from typing import TYPE_CHECKING

from tract_jupyter.analysis.source import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.flows import Flows

MAX_DEPTH = 30
"""Nesting that is spelt out; deeper expressions are told by a digest."""

MAX_NODES = 400
MAX_FORM = 160
NAME = "_"


def shorten(text: str) -> str:
    """A text as it is, or its beginning and a digest of all of it."""
    if len(text) <= MAX_FORM:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{text[: MAX_FORM // 2]}… ({digest[:16]})"


class Forms:
    """The forms of the expressions of one piece of code."""

    def __init__(self, code: str, flows: Flows) -> None:
        twin = parse(code)
        # The same text gives the same nodes in the same order.
        self._twins = dict(zip(ast.walk(flows.tree), ast.walk(twin), strict=True))
        self._known: dict[ast.AST, str] = {}
        arguments = {node.arg for node in flows.nodes if isinstance(node, ast.arg)}
        for node, other in self._twins.items():
            if isinstance(node, ast.Name) and isinstance(other, ast.Name):
                other.id = _name(node, flows)
            elif isinstance(other, (ast.arg, ast.keyword)) and other.arg in arguments:
                other.arg = NAME

    def of(self, node: ast.AST) -> str:
        """The form of an expression."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = shorten(_spelt(self._twins[node]))
        return known


def _name(node: ast.Name, flows: Flows) -> str:
    """A name from outside stays, one that is only imported becomes what it was imported as."""
    key = flows.key(node)
    if key[0] is None:
        return node.id
    bindings = key[0].bindings.get(key[1], [])
    imported = {binding.name for binding in bindings if binding.kind == "import"}
    return imported.pop() if len(imported) == 1 and len(bindings) == 1 else NAME


def _spelt(twin: ast.AST) -> str:
    if _is_small(twin):
        try:
            return ast.unparse(twin)
        except ValueError:  # an integer with too many digits, an f-string with a backslash
            pass
    digest = hashlib.sha256()
    for piece in _pieces(twin):
        digest.update(piece.encode("utf-8", "backslashreplace") + b"\0")
    return f"{type(twin).__name__} ({digest.hexdigest()[:16]})"


def _is_small(twin: ast.AST) -> bool:
    stack = [(twin, 0)]
    for seen in range(MAX_NODES):
        if not stack:
            return True
        node, depth = stack.pop()
        if depth > MAX_DEPTH or seen == MAX_NODES - 1:
            return False
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return False


def _pieces(twin: ast.AST) -> Iterator[str]:
    """Everything that makes an expression, iteratively, since it may be nested deeply."""
    stack: list[object] = [twin]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            yield type(item).__name__
            stack.extend(getattr(item, field, None) for field in reversed(item._fields))
        elif isinstance(item, list):
            yield f"[{len(item)}]"
            stack.extend(reversed(item))
        else:
            yield hex(item) if isinstance(item, int) else repr(item)
