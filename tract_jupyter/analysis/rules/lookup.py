"""Lookup of the rules for a dotted name, and of the paths that a call opens."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import RULES, Rule
from tract_jupyter.analysis.rules.settings import load_plugins
from tract_jupyter.analysis.tables.effects import EffectsError, derived, effects, load, use
from tract_jupyter.analysis.tables.reader import patterns_of, words
from tract_jupyter.analysis.values import HOLE, MAX_NAME
from tract_jupyter.exceptions import nearest

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tract_jupyter.analysis.findings import RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView


_Hits = tuple[tuple[Rule, "RiskLevel"], ...]
Hits = tuple[tuple[str, Rule, "RiskLevel"], ...]

_BORING = ("Error", "Exception", "Timeout", "Warning")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, including the rules of other packages, ordered by code."""
    load_plugins()
    return tuple(RULES[code] for code in sorted(RULES))


@cache
def rules_by_name() -> dict[str, Rule]:
    """Return all rules by name."""
    return {rule.name: rule for rule in all_rules()}


def use_effects(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Use these effects files in this process, in addition to the built-in ones. Replace earlier files.

    Raises:
        EffectsError: A file is unreadable or invalid. Then the earlier files stay in use.
    """
    use(check_effects(paths))


def check_effects(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the absolute paths of effects files if all of them are valid.

    Raises:
        EffectsError: A file is unreadable or invalid.
    """
    if isinstance(paths, str):
        raise EffectsError(f"Give the effects files as a list: [{paths!r}].")
    files = [str(Path(path).expanduser().absolute()) for path in paths]
    contents = load(files)
    _check_known("rule", contents.rules(), rules_by_name(), "Use `%tract rules` to list them")
    _check_known("kind of path", contents.paths.values(), kinds_of_paths(), "See docs/analysis.md")
    return files


def _check_known(kind: str, names: Iterable[str], known: Collection[str], where: str) -> None:
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise EffectsError(
            f"An effects file names a {kind} {unknown[0]!r}, which does not exist."
            f"{nearest(unknown[0], known)} {where}."
        )


@derived
def _index() -> dict[str, _Hits]:
    table: dict[str, list[tuple[Rule, RiskLevel]]] = {}
    for rule in all_rules():
        for symbol, level in rule.symbols.items():
            table.setdefault(symbol, []).append((rule, level))
    return {symbol: tuple(hits) for symbol, hits in table.items()}


@derived
def rules_for(symbol: str) -> _Hits:
    """Return the rules that report a dotted name, with their levels.

    An entry for the whole module applies unless the same rule has an entry for the name itself.
    """
    exact = _index().get(symbol, ())
    if "." not in symbol or len(symbol) > MAX_NAME:
        return exact
    exact_rules = {rule for rule, _ in exact}
    return exact + tuple(hit for hit in _of_module(symbol, _index()) if hit[0] not in exact_rules)


@derived
def asked(names: frozenset[str]) -> Hits:
    """Return the names that rules report, sorted, each with a rule and its level. Most values have none."""
    return tuple((name, rule, level) for name in sorted(names) for rule, level in rules_for(name))


def is_boring(symbol: str) -> bool:
    """Return True if the name is a constant or an error class, which has no effect."""
    last = symbol.rpartition(".")[2]
    # SMTP, FFI and CDLL are no constants, AF_INET is.
    constant = last.isupper() and ("_" in last or last in {"PIPE", "STDOUT", "DEVNULL"})
    return constant or last.endswith(_BORING) or ".exceptions" in symbol


def _of_module(symbol: str, index: dict[str, _Hits]) -> _Hits:
    # Methods of instances do not belong to "the whole module".
    if "()" in symbol or symbol.rpartition(".")[2].startswith("__") or is_boring(symbol):
        return ()
    return next((index[pattern] for pattern in patterns_of(symbol)[1:] if pattern in index), ())


@derived
def asked_attributes() -> frozenset[str]:
    """Return the attributes that a rule reports for every object."""
    return frozenset(symbol[2:] for symbol in _index() if symbol.startswith("*."))


@derived
def known_packages() -> frozenset[str]:
    """Return the packages that have an entry in a rule."""
    return frozenset(name.partition(".")[0] for name in (*_index(), *_modules())) - {"*", "?"}


@derived
def _modules() -> dict[str, tuple[Rule, RiskLevel] | None]:
    return {
        module: None if level is None else (rule, level)
        for rule in all_rules()
        for module, level in rule.modules.items()
    }


def module_level(module: str) -> tuple[Rule, RiskLevel] | None:
    """Return the rule that reports a module's import. The closest entry decides: ``os.path`` before ``os``."""
    table = _modules()
    parts = module[:MAX_NAME].split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in table:
            return table[prefix]
    return None


class PathAccess(Enum):
    """The way in which an operation accesses a path."""

    READ = "reads"
    OPEN = "opens"
    WRITE = "writes to"
    LIST = "lists"
    ENTER = "changes to"
    DELETE = "deletes or moves"


NOWHERE = 99
"""A position that no call has. The path has only keyword names."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The argument of a call that holds a path, and the access to the path.

    Attributes:
        access: The access, unless the mode changes it.
        position: The position of the path; -1 for the object of a method call.
        keywords: The keyword names of the path.
        mode: The position of a mode as in ``open``; None without one.
        anything: The method exists on many kinds of objects, so only a known path counts.
        address: The argument is a database's path or address, such as ``sqlite:///data.db``.
        data: The method certainly writes a file, so an unknown path counts.
    """

    access: PathAccess = PathAccess.READ
    position: int = 0
    keywords: Collection[str] = ()
    mode: int | None = None
    anything: bool = False
    address: bool = False
    data: bool = False


_PLACE = ("path", "pathname", "top", "root_dir", "dir", "filename", "s", "directory")
_SOURCE = ("src", "source", "srcfn", "src_dir", "path1", "lpath", "input_path", "in_file", "f1", "a", "left")
_LOCAL_DATABASE = re.compile(r"(?i)^(?:sqlite|duckdb)(?:\+\w{1,20})?://(?:/|$)")
_FILE_URI = re.compile(r"(?i)file:(?://(?:localhost)?(?=/))?")
_DATABASE = words(
    "url uri connection con name_or_url database connection_uri db_url filename filename_or_conn"
)


def database_path(text: str) -> str:
    """Return the path in the address of a database; empty for a database in memory."""
    address = _LOCAL_DATABASE.sub("", text)
    uri = _FILE_URI.match(address)
    if uri is not None or address != text:
        address = address[uri.end() if uri is not None else 0 :].partition("?")[0]
    return "" if address == ":memory:" else address


@derived
def sinks() -> Mapping[str, tuple[Sink, ...]]:
    """Return the operations that open a path without deleting anything, with their sinks."""
    kinds = _kinds()
    return {name: kinds[kind] for name, kind in effects().paths.items() if kind in kinds}


def kinds_of_paths() -> Collection[str]:
    """Return the kinds that may start a line of ``paths``."""
    return _kinds().keys()


def _kinds() -> Mapping[str, tuple[Sink, ...]]:
    known = effects().words
    file, target, named = (
        tuple(sorted(known[key])) for key in ("path_keywords", "target_keywords", "named_keywords")
    )
    return {
        "open": (Sink(keywords=file, mode=1),),
        "read": (Sink(keywords=file),),
        "write": (Sink(PathAccess.WRITE, keywords=file),),
        "list": (Sink(PathAccess.LIST, keywords=_PLACE),),
        "enter": (Sink(PathAccess.ENTER, keywords=_PLACE),),
        "copy": (Sink(keywords=_SOURCE), Sink(PathAccess.WRITE, 1, target)),
        "compare": (Sink(keywords=_SOURCE), Sink(position=1, keywords=target)),
        "unpack": (Sink(keywords=file), Sink(PathAccess.WRITE, 1, target)),
        "archive": (
            Sink(PathAccess.WRITE, keywords=("base_name",)),
            Sink(position=2, keywords=("root_dir",)),
            Sink(position=3, keywords=("base_dir",)),
        ),
        "read-second": (Sink(position=1, keywords=target),),
        "write-second": (Sink(PathAccess.WRITE, 1, target),),
        "write-third": (Sink(PathAccess.WRITE, 2, target),),
        "own-open": (Sink(position=-1, mode=0),),
        "own-read": (Sink(position=-1),),
        "own-write": (Sink(PathAccess.WRITE, position=-1),),
        "own-list": (Sink(PathAccess.LIST, position=-1),),
        "own-copy": (Sink(position=-1), Sink(PathAccess.WRITE, 0, ("target", "target_dir"))),
        "own-link": (Sink(PathAccess.WRITE, position=-1), Sink(position=0, keywords=("target",))),
        "any-read": (Sink(keywords=file, anything=True),),
        "any-write": (Sink(PathAccess.WRITE, keywords=file, anything=True),),
        "data-write": (Sink(PathAccess.WRITE, keywords=file, anything=True, data=True),),
        "any-write-second": (Sink(PathAccess.WRITE, 1, target, anything=True),),
        "named-read": (Sink(position=NOWHERE, keywords=named, anything=True),),
        "named-write": (Sink(PathAccess.WRITE, NOWHERE, named, anything=True),),
        "database": (Sink(PathAccess.OPEN, keywords=_DATABASE, address=True),),
        "database-second": (Sink(PathAccess.OPEN, 1, keywords=_DATABASE, anything=True, address=True),),
    }


def paths_of(
    reference: Reference, view: CodeView, chosen: tuple[Sink, ...] | None = None
) -> Iterator[tuple[str | None, PathAccess]]:
    """Yield the paths that a call opens, with the access; None for an unknown path."""
    call = view.call_of(reference.node)
    if call is None:
        return
    for sink in chosen or sinks()[reference.symbol]:
        access = _access_of(sink, call, view)
        texts = _texts(sink, reference, call, view)
        if texts:
            yield from ((text, access) for text in texts)
        elif texts is not None and (not sink.anything or (sink.data and not _is_object(sink, call, view))):
            yield None, access


def _is_object(sink: Sink, call: ast.Call, view: CodeView) -> bool:
    """Return True if the argument is a known object, such as a buffer, or is missing."""
    arguments = _given(sink, call, view)
    values = [view.resolver.value(node) for node in arguments]
    return not arguments or any(value.names or value.objects or value.items for value in values)


def _texts(sink: Sink, reference: Reference, call: ast.Call, view: CodeView) -> list[str] | None:
    if sink.position < 0:
        owner = reference.node.value if isinstance(reference.node, ast.Attribute) else None
        nodes = [] if owner is None else [owner]
    else:
        nodes = _given(sink, call, view)
        if not nodes:
            return ["."] if sink.access is PathAccess.LIST else None if sink.anything or not call.args else []
    texts: tuple[str, ...] = tuple(text for node in nodes for text in _all_texts(view.resolver.value(node)))
    folder = view.argument(call, NOWHERE, "root_dir") if sink.access is PathAccess.LIST else None
    for base in view.value(folder).texts[:1]:
        texts = tuple(text if text.startswith("/") else f"{base}/{text}" for text in texts)
    if sink.address and texts:
        texts = tuple(filter(None, map(database_path, texts)))
        if not texts:
            return None
    return [text for text in texts if text and _is_known(text, view)]


def _is_known(text: str, view: CodeView) -> bool:
    """Return True if the location of a path is known. The end of a path may reveal it."""
    return not text.startswith(HOLE) or view.workspace.locate(text) is not PathLocation.UNKNOWN


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _given(sink: Sink, call: ast.Call, view: CodeView) -> list[ast.expr]:
    """Return the arguments for the path: by position, otherwise by keyword."""
    plain = view.argument(call, sink.position)
    if plain is not None:
        return [plain]
    starred: list[ast.expr] = [node for node in call.args if isinstance(node, ast.Starred)]
    return starred or [keyword.value for keyword in call.keywords if keyword.arg in sink.keywords]


def _all_texts(value: Value) -> tuple[str, ...]:
    """Return the texts of a value, and of its members if it is a list or a dict of paths."""
    members = [*(value.items or ()), *(member for _, member in value.entries or ())]
    return (*value.texts, *(text for member in members for text in member.texts))


def _access_of(sink: Sink, call: ast.Call, view: CodeView) -> PathAccess:
    if any(keyword.arg == "inplace" and _is_true(keyword.value) for keyword in call.keywords):
        return PathAccess.WRITE
    if sink.mode is None:
        return sink.access
    texts = view.value(view.argument(call, sink.mode, "mode")).texts
    writes = any(letter in text for text in texts for letter in "wax+")
    return PathAccess.WRITE if writes else sink.access
