"""The table of operations that open a path, and how to find the path in a call."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tract_jupyter.analysis.paths import Place
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import View


class Effect(Enum):
    """What an operation does with a path."""

    READ = "reads"
    WRITE = "writes to"
    LIST = "looks into"
    ENTER = "changes to"
    DELETE = "deletes or moves"


NOWHERE = 99
"""A position that no call has: the path can only be given by keyword."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a call has its path (-1: the object that the method is called on) and what happens to it.

    Attributes:
        effect: What happens, unless ``mode`` says otherwise.
        position: The path's position.
        keywords: The path's names as keyword.
        mode: The position of an ``open``-like mode; None without one.
        anything: The sink is a method of an object of any kind, so only a known path counts.
        address: The path stands in a database's address, such as ``sqlite:///data.db``.
    """

    effect: Effect = Effect.READ
    position: int = 0
    keywords: tuple[str, ...] = ()
    mode: int | None = None
    anything: bool = False
    address: bool = False


_PLACE = ("path", "pathname", "top", "root_dir", "dir", "filename", "s", "directory")
_SOURCE = ("src", "source", "srcfn", "src_dir", "path1", "lpath", "input_path", "in_file", "f1", "a", "left")
_LOCAL_DATABASE = re.compile(r"(?i)^(?:sqlite|duckdb)(?:\+\w+)?://(?:/|$)")
_DATABASE = ("url", "uri", "connection", "con", "name_or_url", "database", "connection_uri", "db_url")


@derived
def sinks() -> Mapping[str, tuple[Sink, ...]]:
    """Operations that open a path without destroying anything; those that do are in ``destructive``."""
    kinds = _kinds()
    return {name: kinds[kind] for name, kind in effects().paths.items() if kind in kinds}


def kinds_of_paths() -> Collection[str]:
    """The kinds that lines of ``paths`` may begin with."""
    return _kinds().keys()


def _kinds() -> Mapping[str, tuple[Sink, ...]]:
    known = effects().words
    file, target, named = (
        tuple(sorted(known[key])) for key in ("path_keywords", "target_keywords", "named_keywords")
    )
    return {
        "open": (Sink(keywords=file, mode=1),),
        "read": (Sink(keywords=file),),
        "write": (Sink(Effect.WRITE, keywords=file),),
        "list": (Sink(Effect.LIST, keywords=_PLACE),),
        "enter": (Sink(Effect.ENTER, keywords=_PLACE),),
        "copy": (Sink(keywords=_SOURCE), Sink(Effect.WRITE, 1, target)),
        "compare": (Sink(keywords=_SOURCE), Sink(position=1, keywords=target)),
        "unpack": (Sink(keywords=file), Sink(Effect.WRITE, 1, target)),
        "archive": (
            Sink(Effect.WRITE, keywords=("base_name",)),
            Sink(position=2, keywords=("root_dir",)),
            Sink(position=3, keywords=("base_dir",)),
        ),
        "read-second": (Sink(position=1, keywords=target),),
        "write-second": (Sink(Effect.WRITE, 1, target),),
        "write-third": (Sink(Effect.WRITE, 2, target),),
        "own-open": (Sink(position=-1, mode=0),),
        "own-read": (Sink(position=-1),),
        "own-write": (Sink(Effect.WRITE, position=-1),),
        "own-list": (Sink(Effect.LIST, position=-1),),
        "own-copy": (Sink(position=-1), Sink(Effect.WRITE, 0, ("target", "target_dir"))),
        "own-link": (Sink(Effect.WRITE, position=-1), Sink(position=0, keywords=("target",))),
        "any-read": (Sink(keywords=file, anything=True),),
        "any-write": (Sink(Effect.WRITE, keywords=file, anything=True),),
        "any-write-second": (Sink(Effect.WRITE, 1, target, anything=True),),
        "named-read": (Sink(position=NOWHERE, keywords=named, anything=True),),
        "named-write": (Sink(Effect.WRITE, NOWHERE, named, anything=True),),
        "database": (Sink(keywords=_DATABASE, address=True),),
        "database-second": (Sink(position=1, keywords=_DATABASE, anything=True, address=True),),
    }


def paths_of(
    reference: Reference, view: View, given: tuple[Sink, ...] | None = None
) -> Iterator[tuple[str | None, Effect]]:
    """The paths that a call hands to a sink, with what happens to them; None for a path that is not known."""
    call = view.call_of(reference.node)
    if call is None:
        return
    for sink in given or sinks()[reference.symbol]:
        effect = _effect(sink, call, view)
        texts = _texts(sink, reference, call, view)
        if texts:
            yield from ((text, effect) for text in texts)
        elif texts is not None and not sink.anything:
            yield None, effect


def _texts(sink: Sink, reference: Reference, call: ast.Call, view: View) -> list[str] | None:
    if sink.position < 0:
        owner = reference.node.value if isinstance(reference.node, ast.Attribute) else None
        given = [] if owner is None else [owner]
    else:
        given = _given(sink, call, view)
        if not given:
            return ["."] if sink.effect is Effect.LIST else None if sink.anything or not call.args else []
    texts: tuple[str, ...] = tuple(text for node in given for text in _all_texts(view.resolver.value(node)))
    base = view.value(view.argument(call, NOWHERE, "root_dir")) if sink.effect is Effect.LIST else None
    if base is not None and base.texts:
        texts = tuple(text if text.startswith("/") else f"{base.texts[0]}/{text}" for text in texts)
    if sink.address:
        texts = tuple(_LOCAL_DATABASE.sub("", text) for text in texts)
    return [text for text in texts if text and _is_known(text, view)]


def _is_known(text: str, view: View) -> bool:
    """Whether a path leads somewhere; of one that begins with something unknown, the rest may tell."""
    return not text.startswith(HOLE) or view.workspace.place(text) is not Place.UNKNOWN


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _given(sink: Sink, call: ast.Call, view: View) -> list[ast.expr]:
    """What is given for the path: by position, else by whichever of its names."""
    plain = view.argument(call, sink.position)
    if plain is not None:
        return [plain]
    starred: list[ast.expr] = [node for node in call.args if isinstance(node, ast.Starred)]
    return starred or [keyword.value for keyword in call.keywords if keyword.arg in sink.keywords]


def _all_texts(value: Value) -> tuple[str, ...]:
    """The value's texts and, where it is a list or a dict of paths, those of its members."""
    members = [*(value.items or ()), *(member for _, member in value.entries or ())]
    return (*value.texts, *(text for member in members for text in member.texts))


def _effect(sink: Sink, call: ast.Call, view: View) -> Effect:
    if any(keyword.arg == "inplace" and _is_true(keyword.value) for keyword in call.keywords):
        return Effect.WRITE
    if sink.mode is None:
        return sink.effect
    mode = view.value(view.argument(call, sink.mode, "mode"))
    writes = any(letter in text for text in (mode.texts if mode else ()) for letter in "wax+")
    return Effect.WRITE if writes else sink.effect
