"""The command of `%tract` that makes and lists forks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, commit_words, option_value

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import ForkTable

_USAGE: Final = "fork [COMMIT] [--model NAME] [--agent NAME] [--name NAME] [-- PROMPT]"
_OPTIONS: Final = {"--model": "model", "--agent": "agent", "--name": "name", "--": "prompt"}


def _fork(notebook: NotebookSession, words: list[str]) -> ForkTable:
    """Make a fork, and list all forks. Without arguments, only list them."""
    arguments: dict[str, Any] = {}
    rest = words
    for word, name in _OPTIONS.items():
        value, rest = option_value(rest, word)
        arguments |= {} if value is None else {name: value}
    if len(rest) > 1 or not all(arguments.values()):
        raise OperationError(f"usage: %tract {_USAGE}; got fork {' '.join(words)}")
    if words:
        notebook.tract.fork(*rest, **arguments)
    return notebook.tract.forks()


COMMANDS = (
    Command(
        _USAGE,
        "continue from a commit with another model, agent or prompt, on a branch; list the forks",
        _fork,
        (commit_words, "--model", "--agent", "--name"),
    ),
)
