"""Source files, each parsed once for all tests that read them."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    gc.disable()  # collections would take most of the time: they visit all trees again
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.freeze()  # nor do later collections visit the tree
        gc.enable()


def children(node: ast.AST) -> list[ast.AST]:
    """Return the statements directly within a statement or module. Expressions contain no statements."""
    parts = ("body", "orelse", "finalbody", "handlers", "cases")
    return [child for part in parts for child in getattr(node, part, ())]


def statements(tree: ast.AST) -> list[ast.AST]:
    """Return all statements of a tree, which is much quicker than `ast.walk`."""
    found = children(tree)
    for node in found:  # the list grows meanwhile
        found.extend(children(node))
    return found
