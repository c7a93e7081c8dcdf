"""The words of an expression. One pattern without anything to go back over, so its time is linear."""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from tract_jupyter.exceptions import TemplateError

Token = tuple[str, str]
"""Its kind (`text`, `number`, `name`, `sign`, `end`), and what it says."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
        "(?P<double>[^"]*)" | '(?P<single>[^']*)'
        | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
        | (?P<name>[^\W\d][\w-]*\??)
        | (?P<sign>==|!=|<>|<=|>=|\.\.|[<>.,:|()\[\]=])
    )""",
    re.VERBOSE,
)
_LONGEST_NUMBER: Final = 30
END: Final[Token] = ("end", "the end")


class Tokens:
    """The words of an expression, to be taken one after the other."""

    def __init__(self, source: str) -> None:
        self._all = deque(_words(source))

    @property
    def next(self) -> Token:
        """The one that comes, which stays."""
        return self._all[0] if self._all else END

    def take(self) -> Token:
        """The one that comes."""
        return self._all.popleft() if self._all else END

    def takes(self, *words: str) -> str | None:
        """Take the one that comes if it is one of these signs or names; tells which."""
        kind, word = self.next
        if kind in {"sign", "name"} and word in words:
            self.take()
            return word
        return None

    def expect(self, sign: str) -> None:
        """Take a sign that has to come.

        Raises:
            TemplateError: another one comes.
        """
        if not self.takes(sign):
            raise TemplateError(f"{sign!r} should come where {self.next[1]!r} is")

    def name(self) -> str:
        """Take a name that has to come.

        Raises:
            TemplateError: something else comes.
        """
        kind, word = self.take()
        if kind != "name":
            raise TemplateError(f"a name should come where {word!r} is")
        return word

    def done(self) -> None:
        """Nothing may come any more.

        Raises:
            TemplateError: something does.
        """
        if self._all:
            raise TemplateError(f"{self.next[1]!r} does not belong here")


def _words(source: str) -> list[Token]:
    words: list[Token] = []
    place, end = 0, len(source.rstrip())
    while place < end:
        match = _TOKEN.match(source, place, end)
        if match is None:
            raise TemplateError(f"{source[place:].strip()[:20]!r} cannot be read")
        words.append(_word(match))
        place = match.end()
    return words


def _word(match: re.Match[str]) -> Token:
    kind = str(match.lastgroup)
    word = match[kind]
    if kind == "number" and len(word) > _LONGEST_NUMBER:
        raise TemplateError(f"the number {word[:_LONGEST_NUMBER]}... is too long")
    return ("text" if kind in {"double", "single"} else kind, word)
