"""The command of `%tract` that records and replays the traffic with models and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, option
from tract_jupyter.notebook.views.html import GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession

_USAGE: Final = "cassette [record FILE [--replace] | replay FILE | stop]"
_REPLAYED: Final = "All replies come from the cassette. No request goes to a model, function or server."
_NOTHING: Final = (
    "No cassette is active. %tract cassette record talk.cassette.jsonl records all requests to models and "
    "calls of tools from now on. %tract cassette replay talk.cassette.jsonl, in the first cell, replays them."
)


def _cassette(notebook: NotebookSession, words: list[str]) -> GridView:
    replaces, rest = option(words, "--replace")
    match rest:
        case ["record", path]:
            notebook.tract.cassette.record(notebook.path_of(path), replace=replaces)
            text = "Requests to models and calls of tools are recorded until %tract cassette stop, or the kernel ends."
            return GridView(f"Recording {path}", (text,))
        case ["replay", path] if not replaces:
            notebook.open_for_replay(notebook.path_of(path))
            return GridView(
                f"Replaying {path}",
                (_REPLAYED,),
            )
        case ["stop"] if not replaces:
            report = notebook.tract.cassette.stop()
        case [] if not replaces:
            report = notebook.tract.cassette.report
        case _:
            raise OperationError(f"usage: %tract {_USAGE}; got cassette {' '.join(words)}")
    return GridView("Cassette", (_NOTHING if report is None else str(report),))


def _words(_: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    return [] if typed else [(word, "option") for word in ("record", "replay", "stop")]


COMMANDS = (
    Command(
        _USAGE,
        "record all traffic with models and tools to a file, or replay it",
        _cassette,
        (_words,),
    ),
)
