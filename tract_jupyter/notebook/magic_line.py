"""The line of a magic. Each option is declared once, as an attribute of a class in `options`.

Parsing, the help of `%%magic?` and completion use the declaration. Parsing does not need IPython.
"""

from __future__ import annotations

import argparse
import keyword
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, NoReturn, Self, TypeVar

from tract_jupyter.exceptions import OperationError, TractError, nearest
from tract_jupyter.models import shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tract_jupyter.notebook.session import NotebookSession

_SHOWN: Final = 60
_SHOWN_VALUE: Final = 40
_ARGUMENT: Final = "argument "
_NO_VALUE: Final = ": expected "  # one argument, or at least one
_MISSING: Final = "the following arguments are required: "

Words = Iterable[tuple[str, str]]
"""Words that complete a line. A front end shows the kind of each word next to it."""


class Option(NamedTuple):
    """The declaration of an option or an argument.

    Attributes:
        flag: the name in the line, such as `--model`; empty for an argument.
        default: the value if the user gives none; None for a required argument.
        for_parser: the arguments of `ArgumentParser.add_argument`.
        read: converts a value. The message of its `ValueError` describes a valid value, such as `a whole number`.
        choices: returns the possible values.
        words: returns the words that complete a value, from the notebook's state and the start of the value.
    """

    flag: str
    default: Any
    for_parser: dict[str, Any]
    read: Callable[[str], Any] = str
    choices: Callable[[], Iterable[str]] | None = None
    words: Callable[[NotebookSession, str], Words] | None = None

    @property
    def takes_value(self) -> bool:
        """True if a value may follow."""
        return "action" not in self.for_parser

    @property
    def needs_value(self) -> bool:
        """True if a value must follow."""
        return self.takes_value and self.for_parser.get("nargs") != "?"

    def complete(self, notebook: NotebookSession, typed: str) -> Words | None:
        """Return the words that complete a value; None if there are none."""
        if self.choices is not None:
            return [(choice, "value") for choice in self.choices()]
        return None if self.words is None else self.words(notebook, typed)


def option(
    flag: str, text: str, metavar: str = "", *, default: Any = None, nargs: str | None = None, **more: Any
) -> Any:
    """Declare an attribute as an option.

    Args:
        flag: such as `--model`.
        text: the help in `%%magic?`.
        metavar: the name of the value in the help. Without it, the option takes no value and is False by default.
        default: the value if the user gives none.
        nargs: `+` for one or more values, `?` for an optional value.
        **more: the other attributes of `Option`.
    """
    for_parser: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
    if metavar:
        for_parser |= {"metavar": metavar, "nargs": nargs, "const": "" if nargs == "?" else None}
    else:
        for_parser["action"], default = "store_true", False
    return Option(flag, default, for_parser, **more)


def argument(text: str, *, default: Any = None, **more: Any) -> Any:
    """Declare an attribute as an argument. A default makes it optional. `more` goes to `Option`."""
    nargs = None if default is None else "?"
    for_parser = {"help": text, "default": argparse.SUPPRESS, "nargs": nargs}
    return Option("", default, for_parser, **more)


class MagicOptions:
    """The options of one magic. A subclass declares them with `option` and `argument`; an object has the values.

    Subclasses are not dataclasses, because nine dataclasses take a tenth of the extension's loading time.

    Attributes:
        magic: the name of the magic.
        done: the participle of its verb, such as `sent`, for errors: "Nothing was sent".
        waits: True if IPython has to await the magic.
        text_field: the field for the cell or for the rest of the line, unchanged. Without it, the line has only
            options.
    """

    magic: ClassVar[str]
    done: ClassVar[str]
    text_field: ClassVar[str] = ""
    waits: ClassVar[bool] = False

    def __init__(self, **given: Any) -> None:
        for name, option in self.declared().items():
            setattr(self, name, given.get(name, option.default))

    @classmethod
    def declared(cls) -> dict[str, Option]:
        """Return each declaration by the name of its attribute."""
        return {name: value for name, value in vars(cls).items() if isinstance(value, Option)}

    @classmethod
    def flags(cls) -> dict[str, Option]:
        """Return each option by its flag."""
        return {option.flag: option for option in cls.declared().values() if option.flag}

    @classmethod
    def parse(cls, line: str, cell: str | None = "", taken: Collection[str] = ()) -> Self:
        """Parse a line. `cell` is the text below it; None for a line magic. `--out` cannot replace the `taken` names.

        Raises:
            OperationError: an option, a value, a quotation mark or a word is not valid, or `--out` does not name a
                variable.
        """
        return _Line(cls, line, cell, taken).parse()

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        """Add the declarations to a parser. The parser returns no defaults."""
        for name, option in cls.declared().items():
            names: dict[str, Any] = {"dest": name} if option.flag else {}
            parser.add_argument(option.flag or name, **names, **option.for_parser)

    @classmethod
    def complete(cls, notebook: NotebookSession, parts: list[str]) -> Words:
        """Return the words that may follow in a line. The last of `parts` ends at the cursor."""
        *before, typed = parts
        last = next((word for word in reversed(before) if word.startswith("--")), "")
        option = cls.flags().get(last)
        if not before:
            option = next(
                (declaration for declaration in cls.declared().values() if not declaration.flag), None
            )
        elif option is not None and before[-1] != last and option.for_parser.get("nargs") != "+":
            option = None
        words = None if option is None or typed.startswith("-") else option.complete(notebook, typed)
        return [(name, "option") for name in cls.flags()] if words is None else words


T = TypeVar("T", bound=MagicOptions)


@dataclass(frozen=True)
class _Line(Generic[T]):
    """The line of a magic as the user typed it."""

    options: type[T]
    line: str
    cell: str | None = ""
    taken: Collection[str] = ()

    @property
    def name(self) -> str:
        return f"{'%' if self.cell is None else '%%'}{self.options.magic}"

    def parse(self) -> T:
        name = self.options.text_field
        if not name:
            return self.options(**dict(self._read(self._parse_words(self._words()))))
        words, text = self._split_options()
        if self.cell is not None and text:
            problem = f"{self.name} takes only options in its line; put the {name} below it, not"
            raise self._refusal(f"{problem} {text[:_SHOWN_VALUE]!r}")
        values = self._parse_words(words) | {name: text if self.cell is None else self.cell}
        return self.options(**dict(self._read(values)))

    def _words(self) -> list[str]:
        """Return the words. Text in quotation marks is one word."""
        lexer = shlex.shlex(self.line, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters = True, ""
        if os.name == "nt":  # paths are written with it there
            lexer.escape = ""
        words: list[str] = []
        try:
            words.extend(lexer)
        except ValueError:
            last = shortened(self.line.strip(), _SHOWN)
            raise self._refusal(f"a quotation mark is not closed in {last}") from None
        if "" in words:
            before = words[words.index("") - 1] if words[0] else self.name
            raise self._refusal(f"there is nothing in the quotation marks after {before}")
        return words

    def _split_options(self) -> tuple[list[str], str]:
        """Return the options before a text, and the text with its quotation marks and apostrophes."""
        words: list[str] = []
        flags, rest = self.options.flags(), self.line.strip()
        while rest.startswith("--"):
            word, _, rest = rest.partition(" ")
            name, equals, value = word.partition("=")
            option = flags.get(name)
            if option is None:
                raise self._unknown([name])
            if option.needs_value and not equals:
                value, _, rest = rest.strip().partition(" ")
            if option.needs_value and (not value or value.startswith("--")):
                values = f": {', '.join(option.choices())}" if option.choices else ""
                raise self._refusal(f"{name} needs a value{values}")
            if equals and not option.takes_value:
                raise self._refusal(f"{name} takes no value")
            words.append(f"{name}={value}" if option.takes_value else name)
            rest = rest.strip()
        return words, rest

    def _parse_words(self, words: list[str]) -> dict[str, Any]:
        parser = _Parser(add_help=False)
        self.options.add_to(parser)
        try:
            values, rest = parser.parse_known_args(words)
        except _WordError as error:
            wrong = [word for word in words if word.startswith("--") and not self._is_known(word)]
            if wrong:
                raise self._unknown(wrong) from None
            raise self._refusal(self._explain(str(error))) from None
        if rest:
            raise self._unknown(rest)
        return vars(values)

    def _read(self, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        declared = self.options.declared()
        for name, value in values.items():
            option = declared[name]
            try:
                if isinstance(value, bool):
                    yield name, value
                elif isinstance(value, list):
                    yield name, tuple(map(option.read, value))
                else:
                    yield name, option.read(value)
            except OperationError as error:
                raise self._refusal(str(error)) from None
            except TractError:
                raise
            except ValueError as error:
                text = str(value)[:_SHOWN_VALUE]
                raise self._refusal(f"{option.flag} takes {error}, not {text!r}") from None
        self._check_out(values.get("out", ""))

    def _check_out(self, name: str) -> None:
        if name and (not name.isidentifier() or keyword.iskeyword(name)):
            raise self._refusal(f"--out takes the name of a variable, not {shortened(name, _SHOWN)!r}")
        if name in self.taken:
            raise self._refusal(f"--out cannot replace {name!r}, which is not a variable of yours")

    def _explain(self, error: str) -> str:
        if error.startswith(_MISSING):
            names = error.removeprefix(_MISSING)
            return f"give the {names}: {self.name} {names.upper()}"
        text = error.removeprefix(_ARGUMENT)
        flag, is_missing, _ = text.partition(_NO_VALUE)
        option = self.options.flags().get(flag.split("/")[0])
        if not is_missing or option is None:
            return text
        return f"{flag} needs a value: {flag} {option.for_parser['metavar']}"

    def _is_known(self, word: str) -> bool:
        return any(flag.startswith(word.partition("=")[0]) for flag in self.options.flags())

    def _unknown(self, rest: list[str]) -> OperationError:
        wrong = next((flag for flag in rest if flag.startswith("-")), "").partition("=")[0]
        if wrong:
            known = [flag.strip("-") for flag in self.options.flags()]
            close = nearest(wrong.strip("-"), known).replace("'", "'--", 1)
            problem = f"{self.name} has no option {shortened(wrong, _SHOWN)!r}.{close}"
            remedy = f"{self.name}? explains them"
            if self.options.text_field:
                remedy = f"It takes {', '.join(self.options.flags())}"
            return self._refusal(f"{problem} {remedy}")
        words = shortened(" ".join(rest), _SHOWN)
        return self._refusal(f"{words!r} is too much in the line of {self.name}: write it below")

    def _refusal(self, why: str) -> OperationError:
        return OperationError(f"{why}. Nothing was {self.options.done}")


class _WordError(Exception):
    """A parser's error."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _WordError(message)
