"""What a subcommand of `%tract` is, and how its arguments are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tract_jupyter.notebook.session import Session

DEFAULT_LIMIT = 20


@dataclass(frozen=True)
class Command:
    """A subcommand: its usage, what it does, and the function.

    The function takes the session and the words after the name; it returns what IPython shows, or None. `completes`
    says what the words may be: `commit`, `branch`, `operation` (a stored one that is not active),
    `grant`, `trust`, `rule`, `mcp`, `run`, `profile`, `waiting`, or an option. With `whole_line` the rest of the line
    is one word, with every space in it.
    """

    usage: str
    summary: str
    run: Callable[[Session, list[str]], Any]
    completes: tuple[str, ...] = ()
    whole_line: bool = False


def when(moment: datetime) -> str:
    """A time as a person reads it, in their own zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def limit(command: str, words: list[str]) -> int:
    """The one number that a command takes.

    Raises:
        OperationError: it is none.
    """
    if not words:
        return DEFAULT_LIMIT
    if len(words) > 1 or not words[0].isdecimal() or int(words[0]) == 0:
        raise OperationError(f"%tract {command} takes one number, such as %tract {command} 50")
    return int(words[0])


def no_arguments(command: str, words: list[str]) -> None:
    """Check that there are none.

    Raises:
        OperationError: there are some.
    """
    if words:
        raise OperationError(f"%tract {command} takes no arguments, got {' '.join(words)!r}")


def arguments(usage: str, words: list[str], least: int, most: int) -> list[str]:
    """Check how many there are, and return them.

    Raises:
        OperationError: too few or too many; it shows how the command is used.
    """
    if not least <= len(words) <= most:
        raise OperationError(f"%tract {usage} is how it is used; got {' '.join(words) or 'nothing'}")
    return words


def option(words: list[str], name: str) -> tuple[bool, list[str]]:
    """Whether an option is among the words, and the other words."""
    return name in words, [word for word in words if word != name]
