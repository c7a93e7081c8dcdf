"""The table of operations that open a path, and how to find the path in a call."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tract_jupyter.analysis.tables import files
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.view import View


class Effect(Enum):
    """What an operation does with a path."""

    READ = "reads"
    WRITE = "writes to"
    LIST = "looks into"
    ENTER = "changes to"
    DELETE = "deletes or moves"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a call has its path (-1: the object that the method is called on) and what happens to it.

    Attributes:
        effect: What happens, unless ``mode`` says otherwise.
        position: The path's position.
        keywords: The path's names as keyword.
        mode: The position of an ``open``-like mode; None without one.
        anything: The sink is a method of an object of any kind, so only a known path counts.
    """

    effect: Effect = Effect.READ
    position: int = 0
    keywords: tuple[str, ...] = ()
    mode: int | None = None
    anything: bool = False


_FILE = (
    *("file", "filename", "path", "name", "fname", "filepath_or_buffer", "path_or_buf", "io", "fp", "f"),
    *("fid", "database", "source", "where", "src", "uri", "filepath", "file_path", "path_or_file"),
)
_PLACE = ("path", "pathname", "top", "root_dir", "dir")
_TARGET = ("dst", "extract_dir", "path", "file", "f", "filename", "fp", "where", "target")

_KINDS: Mapping[str, tuple[Sink, ...]] = {
    "open": (Sink(keywords=_FILE, mode=1),),
    "read": (Sink(keywords=_FILE),),
    "write": (Sink(Effect.WRITE, keywords=_FILE),),
    "list": (Sink(Effect.LIST, keywords=_PLACE),),
    "enter": (Sink(Effect.ENTER, keywords=_PLACE),),
    "copy": (Sink(keywords=("src",)), Sink(Effect.WRITE, 1, ("dst",))),
    "read-second": (Sink(position=1, keywords=_TARGET),),
    "write-second": (Sink(Effect.WRITE, 1, _TARGET),),
    "own-open": (Sink(position=-1, mode=0),),
    "own-read": (Sink(position=-1),),
    "own-write": (Sink(Effect.WRITE, position=-1),),
    "own-list": (Sink(Effect.LIST, position=-1),),
    "any-read": (Sink(keywords=_FILE, anything=True),),
    "any-write": (Sink(Effect.WRITE, keywords=_FILE, anything=True),),
}

SINKS: Mapping[str, tuple[Sink, ...]] = {name: _KINDS[kind] for name, kind in files.OPENS.items()}
"""Operations that open a path without destroying anything; those that do are in ``destructive``."""


def paths_of(
    reference: Reference, view: View, sinks: tuple[Sink, ...] | None = None
) -> Iterator[tuple[str | None, Effect]]:
    """The paths that a call hands to a sink, with what happens to them; None for a path that is not known."""
    call = view.call_of(reference.node)
    if call is None:
        return
    for sink in sinks or SINKS[reference.symbol]:
        effect = _effect(sink, call, view)
        texts = _texts(sink, reference, call, view)
        if texts:
            yield from ((text, effect) for text in texts)
        elif texts is not None and not sink.anything:
            yield None, effect


def _texts(sink: Sink, reference: Reference, call: ast.Call, view: View) -> list[str] | None:
    if sink.position < 0:
        owner = reference.node.value if isinstance(reference.node, ast.Attribute) else None
        found = view.value(owner)
    else:
        given = view.argument(call, sink.position, *sink.keywords)
        if given is None:
            return ["."] if sink.effect is Effect.LIST else None if sink.anything or not call.args else []
        found = view.value(given)
    return [text for text in (found.texts if found else ()) if text and not text.startswith(HOLE)]


def _effect(sink: Sink, call: ast.Call, view: View) -> Effect:
    if sink.mode is None:
        return sink.effect
    mode = view.value(view.argument(call, sink.mode, "mode"))
    writes = any(letter in text for text in (mode.texts if mode else ()) for letter in "wax+")
    return Effect.WRITE if writes else sink.effect
