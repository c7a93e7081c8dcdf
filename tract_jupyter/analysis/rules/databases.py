"""Databases in code: the origin of a connection, and the path of the database file."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.program import FunctionNode
from tract_jupyter.analysis.rules.base import GUESS, LOW, Reference
from tract_jupyter.analysis.rules.lookup import database_path, paths_of, sinks
from tract_jupyter.analysis.source import last_name
from tract_jupyter.analysis.tables.effects import effects
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.analysis.view import CodeView

_MEMORY = frozenset({":memory:", "sqlite://", "sqlite:///:memory:", "duckdb:///:memory:"})
_LOCAL_URL = re.compile(r"(?:sqlite|duckdb)(?:\+\w{1,20})?:///?")
_MAX_SOURCES = 60
_MAX_FIELDS = 8


def sources(node: ast.expr, view: CodeView) -> Iterator[ast.expr]:
    """Yield the origins of an object: the call that made it, and the arguments of this call, such as an engine."""
    stack, seen = [node], set[ast.expr]()
    while stack and len(seen) < _MAX_SOURCES:
        for each in view.chain(stack.pop()):
            if each in seen:
                break
            seen.add(each)
            yield each
            if isinstance(each, ast.Call):
                stack += [*each.args[:2], *(keyword.value for keyword in each.keywords[:4])]
                for function in view.resolver.value(each.func).functions:
                    stack += view.program.scope_of[function].returns  # connect()
            elif isinstance(each, ast.Name):
                stack += _passed(each, view)
            elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                stack += view.program.fields.get(each.attr, ())[-_MAX_FIELDS:]  # self.con


def _passed(name: ast.Name, view: CodeView) -> list[ast.expr]:
    """Return the expressions that calls pass for a parameter; none for other names."""
    return [
        node
        for binding in view.program.bindings_of(name)[:_MAX_SOURCES]
        if binding.kind == "param" and isinstance(binding.node, FunctionNode)
        for node in view.resolver.passed(binding.node, binding)
    ]


def database_of(call: ast.Call, view: CodeView) -> Iterator[ast.expr]:
    """Yield the expressions that the database of a call comes from."""
    if isinstance(call.func, ast.Attribute):
        yield from sources(call.func.value, view)
    position = _CONNECTIONS.get(last_name(call.func))
    connection = None if position is None else view.argument(call, position, *_CONNECTION)
    if connection is not None:
        yield from sources(connection, view)


_CONNECTIONS = {
    **dict.fromkeys(("execute_values", "execute_batch", "create_all", "drop_all"), 0),
    **dict.fromkeys(
        ("read_sql", "read_sql_query", "read_database", "to_sql", "write_database", "to_postgis"), 1
    ),
}
"""The functions that take a connection as an argument, with its position."""
_CONNECTION = ("con", "connection", "bind", "cur")


def in_memory(nodes: Iterable[ast.expr], view: CodeView) -> bool:
    """Return True if the database is in memory."""
    origins = list(nodes)
    is_default = bool(origins) and "duckdb" in names_of(origins[0], view)  # duckdb.sql(...)
    return is_default or any(_is_in_memory(each, view) for each in origins)


def _is_in_memory(node: ast.expr, view: CodeView) -> bool:
    if isinstance(node, ast.Call):
        return not (node.args or node.keywords) and "duckdb.connect" in names_of(node.func, view)
    return not _MEMORY.isdisjoint(view.resolver.value(node).texts)


_LOCAL = ("sqlite3.", "duckdb.")


def is_local(nodes: Iterable[ast.expr], view: CodeView) -> bool:
    """Return True if the database is a file in the workspace, or consists of data frames."""
    local = False
    for node in nodes:
        value = view.resolver.value(node)
        local = local or any(name.startswith(_LOCAL) for name in value.names)
        for text in value.texts:
            url = _LOCAL_URL.match(text)
            local = local or url is not None
            place = text[url.end() :] if url else text
            if view.workspace.locate(place) in _ELSEWHERE:
                return False
    return local


_ELSEWHERE = {PathLocation.OUTSIDE, PathLocation.PROTECTED, PathLocation.SECRET}


def database_files(nodes: Iterable[ast.expr], view: CodeView) -> list[str | None]:
    """Return the files of the database that these expressions open; None for an unknown file."""
    paths: dict[str | None, None] = {}
    for node in nodes:
        if isinstance(node, ast.Call):
            for name in sorted(names_of(node.func, view)):
                opened = paths_of(Reference(node.func, name, LOW, GUESS), view) if _opens(name) else ()
                paths.update(dict.fromkeys(text for text, _ in opened))
        else:
            texts = view.resolver.value(node).texts
            paths.update(dict.fromkeys(database_path(text) for text in texts if _LOCAL_URL.match(text)))
    files = [text for text in paths if text and view.workspace.locate(text) is not PathLocation.REMOTE]
    return [*files, *([None] if None in paths and not files else [])]


def _opens(name: str) -> bool:
    return any(sink.address for sink in sinks().get(name, ()))


def names_of(node: ast.expr, view: CodeView) -> frozenset[str]:
    """Return the dotted names of an expression."""
    return view.resolver.value(node).names


def listed(paths: Iterable[str | None]) -> str:
    """Return the files of a database for the reason of a finding."""
    return ", ".join(path.replace(HOLE, "?") for path in paths if path) or "a database"


_OWNERS = words("con conn connection cur curs cursor db database")
"""The usual names of connections. Their origin may be in an unknown cell."""


def is_database(nodes: list[ast.expr], view: CodeView) -> bool:
    """Return True if these expressions open a database, or have the usual name of a connection."""
    packages = effects().words.get("databases", frozenset())
    for node in nodes:
        for name in names_of(node, view):
            if name.partition(".")[0] in packages and ("()" in name or name == "duckdb"):
                return True
    first = nodes[0] if nodes else None
    return first is not None and last_name(first) in _OWNERS


def is_read_only(nodes: list[ast.expr], view: CodeView) -> bool:
    """Return True if the database is opened read-only."""
    return any(
        (isinstance(node, ast.Call) and any(map(_says_read_only, node.keywords)))
        or any(_READ_ONLY.match(text) for text in view.resolver.value(node).texts)
        for node in nodes
    )


_READ_ONLY = re.compile(r"file:[^?]{1,4096}\?(?:[^&]{0,99}&){0,9}(?:mode=ro|immutable=1)\b")


def _says_read_only(keyword: ast.keyword) -> bool:
    value = keyword.value
    return (
        keyword.arg in {"read_only", "readonly"} and isinstance(value, ast.Constant) and value.value is True
    )
