"""The command of `%tract` that makes and lists forks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, commit_words

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import ForkTable

_USAGE: Final = "fork [COMMIT] [--model NAME] [--name NAME] [-- PROMPT]"
_OPTIONS: Final = {"--model": "model", "--name": "name", "--": "prompt"}


def _fork(notebook: NotebookSession, words: list[str]) -> ForkTable:
    """Make a fork, and show all of them; without arguments, only show them."""
    given: dict[str, Any] = {}
    rest = list(words)
    for word, name in _OPTIONS.items():
        if word in rest:
            place = rest.index(word)
            given[name] = " ".join(rest[place + 1 : place + 2])
            del rest[place : place + 2]
    if len(rest) > 1 or not all(given.values()):
        raise OperationError(f"usage: %tract {_USAGE}; got fork {' '.join(words)}")
    if words:
        notebook.tract.fork(*rest, **given)
    return notebook.tract.forks()


COMMANDS = (
    Command(
        _USAGE,
        "continue from a commit with another model or prompt, on a branch; list the forks",
        _fork,
        (commit_words, "--model", "--name"),
    ),
)
