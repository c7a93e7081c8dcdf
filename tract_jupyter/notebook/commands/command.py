"""A command of `%tract` with its completions, and functions that parse its arguments."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.notebook.magic_line import Words
    from tract_jupyter.notebook.session import NotebookSession

DEFAULT_LIMIT = 20
_COMMITS = 20
_SHOWN = 60
_OPTION = re.compile(r"--[a-z-]+")
_WORD = re.compile(
    r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^\s"']\S*))(?=\s|$)|(?P<open>\S+)"""
)


@dataclass(frozen=True)
class Command:
    """A command of `%tract`.

    Attributes:
        usage: the name, then the arguments.
        summary: the description in `%tract help`.
        run: takes the notebook's state and the words after the name; returns the output, or None.
        completes: the completions: options, and functions of the notebook's state and the words before the cursor.
        whole_line: pass the rest of the line as one word, with all spaces.
        tells_waiting: the command itself reports the number of open requests.
    """

    usage: str
    summary: str
    run: Callable[[NotebookSession, list[str]], Any]
    completes: tuple[str | Callable[[NotebookSession, list[str]], Words], ...] = ()
    whole_line: bool = False
    tells_waiting: bool = False

    @property
    def name(self) -> str:
        """The first word of the usage."""
        return self.usage.split()[0]

    def check_options(self, words: list[str]) -> None:
        """Check that the command has all options among the words, up to `--`."""
        known = _OPTION.findall(self.usage)
        for word in words:
            if word == "--":
                return
            if word.startswith("--") and word not in known:
                has = f"%tract {self.name} has no option {word!r}."
                raise OperationError(f"{has}{nearest(word, known)} Usage: %tract {self.usage}")

    def words(self, notebook: NotebookSession, typed: list[str]) -> Iterator[tuple[str, str]]:
        """Yield the words that may follow."""
        for completion in self.completes:
            if isinstance(completion, str):
                yield completion, "option"
            else:
                yield from completion(notebook, typed)


def unquoted_words(text: str) -> list[str]:
    """Return the words of a line. Text in quotation marks is one word."""
    matches = list(_WORD.finditer(text))
    if any(match.lastgroup == "open" for match in matches):
        raise OperationError(
            f"a quotation mark is not closed in %tract {shortened(text, _SHOWN)}. Nothing was done"
        )
    return [str(match[match.lastgroup or 0]) for match in matches]


def branch_words(notebook: NotebookSession, typed: list[str]) -> Words:  # noqa: ARG001 # the same everywhere
    """Return the branches, for completion."""
    return [(info.name, "branch") for info in notebook.tract.list_branches()]


def commit_words(notebook: NotebookSession, typed: list[str]) -> Words:
    """Return names of commits, for completion: branches, HEAD and the newest commits."""
    commits = [(info.short_hash, "commit") for info in notebook.tract.log(_COMMITS)]
    return [*branch_words(notebook, typed), *([("HEAD", "commit")] if commits else []), *commits]


def limit(command: str, words: list[str]) -> int:
    """Return the only argument, a positive number."""
    if not words:
        return DEFAULT_LIMIT
    if len(words) > 1 or not words[0].isdecimal() or int(words[0]) == 0:
        raise OperationError(f"%tract {command} takes one number, such as %tract {command} 50")
    return int(words[0])


def no_arguments(command: str, words: list[str]) -> None:
    """Check that there are no arguments."""
    short = next((word for word in words if word.startswith("-")), None)
    if short is not None:
        name = command.partition(" ")[0]
        raise OperationError(
            f"%tract {command} has no option {short!r}; %tract help {name} lists its options"
        )
    if words:
        raise OperationError(f"%tract {command} takes no arguments, got {' '.join(words)!r}")


def arguments(usage: str, words: list[str], least: int, most: int) -> list[str]:
    """Check the number of arguments, and return them."""
    if not least <= len(words) <= most:
        raise OperationError(f"usage: %tract {usage}; got {' '.join(words) or 'nothing'}")
    return words


def option_value(words: list[str], name: str) -> tuple[str | None, list[str]]:
    """Return the word after an option, and the other words.

    The value is None without the option, and empty if no word follows it.
    """
    if name not in words:
        return None, words
    place = words.index(name)
    return "".join(words[place + 1 : place + 2]), [*words[:place], *words[place + 2 :]]


def hidden_input(label: str, otherwise: str) -> str:
    """Return the text that the user types in a field that shows nothing."""
    try:
        return getpass.getpass(f"{label}: ").strip()
    except Exception:  # noqa: BLE001 # each front end without input raises another error
        raise OperationError(f"no user is available to type here. {otherwise}") from None


def option(words: list[str], name: str) -> tuple[bool, list[str]]:
    """Return True if an option is among the words, and the other words."""
    return name in words, [word for word in words if word != name]
