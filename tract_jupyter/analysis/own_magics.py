"""The user's own magics: shell aliases, other names of magics, and functions that are registered as magics."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from tract_jupyter.analysis.tables import magics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.analysis.ipython_syntax import Escape

_DEFINES = frozenset({"alias", "alias_magic"})
_DECORATORS = frozenset(
    f"{prefix}{kind}_magic" for prefix in ("register_", "") for kind in ("line", "cell", "line_cell")
)
_MAX_NAME = 200


def own_magics(escapes: Iterable[Escape], nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the magics that a cell defines, each with its meaning; see `Program.magics`."""
    for escape in escapes:
        if escape.kind == "line_magic" and escape.name in _DEFINES:
            yield from _defined(escape.name, escape.rest)
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(_last_name(each) in _DECORATORS for each in node.decorator_list):
                yield node.name, node.name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            yield from _by_call(node.func.attr, node.args)


def _last_name(node: ast.expr) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    return getattr(function, "attr", getattr(function, "id", ""))


def _by_call(method: str, given: Sequence[ast.expr]) -> Iterator[tuple[str, str]]:
    texts = [
        node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "" for node in given
    ]
    if method == "run_line_magic" and texts[0] in _DEFINES:
        yield from _defined(texts[0], texts[-1])
    elif method in {"magic", "line_magic"} and texts[0].lstrip("%").partition(" ")[0] in _DEFINES:
        name, _, rest = texts[0].lstrip("%").partition(" ")
        yield from _defined(name, rest)
    elif method in {"define_alias", "soft_define_alias"}:
        yield from _defined("alias", " ".join(texts))
    elif method == "register_magic_function" and isinstance(given[0], ast.Name):
        yield given[0].id, given[0].id


def _defined(how: str, rest: str) -> Iterator[tuple[str, str]]:
    parts = [
        part for part in rest.split(maxsplit=2 if how == "alias_magic" else 1) if not part.startswith("-")
    ]
    if len(parts) > 1 and len(parts[0]) <= _MAX_NAME:
        yield (
            (parts[0], "!" + parts[1])
            if how == "alias"
            else (parts[0].lstrip("%"), "%" + parts[1].lstrip("%"))
        )


def meant(escapes: Iterable[Escape], own: Mapping[str, str]) -> tuple[Escape, ...]:
    """Return the escapes, with the meaning of the user's own magics."""
    return tuple(_meant(escape, own) for escape in escapes) if own else tuple(escapes)


def _meant(escape: Escape, own: Mapping[str, str]) -> Escape:
    meaning = own.get(escape.name, "") if escape.kind in {"line_magic", "cell_magic"} else ""
    if meaning[:1] == "!" and escape.name not in magics.LINE:
        return replace(escape, kind="shell", name=f"%{escape.name}", rest=f"{meaning[1:]} {escape.rest}")
    return replace(escape, name=meaning[1:]) if meaning[:1] == "%" else escape
