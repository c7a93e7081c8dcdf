"""What the sandbox's Python surely lacks, found in a text before anything runs. The rest shows when it runs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MODULES = frozenset(
    {
        "asyncio",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
    }
    | {
        "functools",
        "hashlib",
        "itertools",
        "json",
        "math",
        "posixpath",
        "random",
        "re",
        "sys",
        "time",
        "tomllib",
    }
    | {"typing", "unicodedata"}
)
"""The modules that are of use there: `os` and `pathlib` can be imported too, but reach nothing."""

_NAMES = frozenset(
    {
        "__import__",
        "breakpoint",
        "compile",
        "dir",
        "exit",
        "globals",
        "help",
        "input",
        "open",
        "quit",
        "super",
        "vars",
    }
)
_STATEMENTS = {
    ast.Delete: "no 'del' (for a key, d.pop(key))",
    ast.Yield: "no 'yield'",
    ast.YieldFrom: "no 'yield from'",
    ast.TryStar: "no 'except*'",
}


class Lack(NamedTuple):
    """Something that is not there: its line, what it is (`no module 'os'`), and what is there instead."""

    line: int
    what: str
    hint: str = ""


def lacks(code: str, names: Iterable[str], members: Mapping[str, frozenset[str]]) -> Iterator[Lack]:
    """What a text uses that the sandbox does not have, in no particular order.

    Args:
        code: it parses.
        names: those that have a value besides Python's own.
        members: the attributes of some names, all of them; none for what is not there at all.
    """
    tree = ast.parse(code)
    bound = set(_bound(tree))
    missing = _NAMES - bound.union(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and (node.bases or node.keywords):
            yield Lack(node.lineno, "no inheritance of classes")
        elif type(node) in _STATEMENTS:
            yield Lack(node.lineno, _STATEMENTS[type(node)])  # type: ignore[attr-defined]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (Lack(node.lineno, f"no module {name!r}", _modules()) for name in _missing(node))
        elif isinstance(node, ast.Name) and node.id in missing:
            yield Lack(node.lineno, f"no {node.id!r}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            there = members.get(node.value.id)
            if there is not None and node.value.id not in bound and node.attr not in there:
                hint = f"{node.value.id} has only {', '.join(sorted(there))}" if there else ""
                yield Lack(node.lineno, f"no '{node.value.id}.{node.attr}'", hint)


def _modules() -> str:
    return f"there are {', '.join(sorted(MODULES))}"


def _missing(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
    return [name for name in names if name.partition(".")[0] not in MODULES]


def _bound(tree: ast.AST) -> Iterator[str]:
    """The names that a text binds anywhere: what they mean is its own affair."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
