"""The line of a cell magic: its options, and one sentence for each mistake in it. IPython is not needed to read one."""

from __future__ import annotations

import keyword
import os
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models import shortened

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Collection, Mapping

_SHOWN: Final = 60
_ARGUMENT: Final = "argument "
_MISSING: Final = "the following arguments are required: "


class MagicLine(NamedTuple):
    """The line of a cell magic, as it was typed.

    Attributes:
        name: of the magic, with its percent signs.
        text: what stands behind the name.
        done: what its cell has done with it, such as `sent`: a mistake says that nothing was.
        taken: names that `--out` cannot have.
    """

    name: str
    text: str
    done: str
    taken: Collection[str] = ()

    def parse(self, parser: ArgumentParser) -> Namespace:
        """Return the options.

        Raises:
            OperationError: a quotation mark is not closed, a value is empty, an option is not known or has no value, a
                word is too much, or `--out` names no variable.
        """
        words = self._words()
        options = [one for action in parser._actions for one in action.option_strings]  # noqa: SLF001 # nothing else tells
        try:
            given, rest = parser.parse_known_args(words)
        except Exception as error:  # noqa: BLE001 # each parser raises what its `error` does
            wrong = [one for one in words if one.startswith("--") and not _is_any(one, options)]
            if wrong:
                raise self._unknown(wrong, options) from None
            raise self._refusal(self._told(str(error))) from None
        if rest:
            raise self._unknown(rest, options)
        out_name(getattr(given, "out", ""), self.taken, self.done)
        return given

    def _told(self, error: str) -> str:
        """Return what a parser says, as a person is told."""
        if error.startswith(_MISSING):
            names = error.removeprefix(_MISSING)
            return f"give the {names}: {self.name} {names.upper()}"
        return error.removeprefix(_ARGUMENT)

    def _words(self) -> list[str]:
        """Return the words: those in quotation marks are one, without them."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters = True, ""
        if os.name == "nt":  # paths are written with it there
            lexer.escape = ""
        words: list[str] = []
        try:
            words.extend(lexer)
        except ValueError:
            last = shortened(self.text.strip(), _SHOWN)
            raise self._refusal(f"a quotation mark is not closed in {last}") from None
        if "" in words:
            before = words[words.index("") - 1] if words[0] else self.name
            raise self._refusal(f"there is nothing in the quotation marks after {before}")
        return words

    def _unknown(self, rest: list[str], options: list[str]) -> OperationError:
        wrong = next((one for one in rest if one.startswith("-")), "")
        if wrong:
            wrong = wrong.partition("=")[0]
            close = nearest(wrong.strip("-"), [one.strip("-") for one in options]).replace("'", "'--", 1)
            told = f"{self.name} has no option {shortened(wrong, _SHOWN)!r}."
            return self._refusal(f"{told}{close} {self.name}? explains them")
        words = shortened(" ".join(rest), _SHOWN)
        return self._refusal(f"{words!r} is too much in the line of {self.name}: write it below")

    def _refusal(self, why: str) -> OperationError:
        return _refusal(why, self.done)


def out_name(name: str, taken: Collection[str], done: str) -> str:
    """Return what `--out` names; empty for nothing.

    Raises:
        OperationError: it is no name of a variable, or one of `taken`.
    """
    if name and (not name.isidentifier() or keyword.iskeyword(name)):
        raise _refusal(f"--out takes the name of a variable, not {shortened(name, _SHOWN)!r}", done)
    if name in taken:
        raise _refusal(f"--out cannot replace {name!r}, which is not a variable of yours", done)
    return name


def leading_options(
    magic: str, line: str, options: Mapping[str, str], done: str
) -> tuple[dict[str, str], str]:
    """Return the options in front of a text, and the text as it was typed, with its quotation marks and apostrophes.

    Args:
        magic: its name, with its percent signs.
        line: what stands behind it.
        options: what each takes: `value`, `may have one` (written with `=`, or left out), or `nothing`.
        done: what the magic has done, such as `sent`: a mistake says that nothing was.

    Raises:
        OperationError: there is no such option, one has no value, or one has a value and takes none.
    """
    given: dict[str, str] = {}
    rest = line.strip()
    while rest.startswith("--"):
        word, _, rest = rest.partition(" ")
        rest = rest.strip()
        name, has_value, value = word.partition("=")
        takes = options.get(name)
        if takes is None:
            close = nearest(name.strip("-"), [one.strip("-") for one in options]).replace("'", "'--", 1)
            told = f"{magic} has no option {shortened(name, _SHOWN)!r}.{close} It takes {', '.join(options)}"
            raise _refusal(told, done)
        if takes == "value" and not has_value:
            value, _, rest = rest.partition(" ")
            rest = rest.strip()
        if takes == "value" and (not value or value.startswith("--")):
            raise _refusal(f"{name} needs a value", done)
        if takes == "nothing" and has_value:
            raise _refusal(f"{name} takes no value", done)
        given[name] = value
    return given, rest


def _is_any(word: str, options: Collection[str]) -> bool:
    """Return True if a word is an option, or begins as one."""
    return any(one.startswith(word.partition("=")[0]) for one in options)


def _refusal(why: str, done: str) -> OperationError:
    return OperationError(f"{why}. Nothing was {done}")
