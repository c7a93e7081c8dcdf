"""The pieces of a template's source: plain text, outputs and tags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator


_OPEN: Final = re.compile(r"\{[{%]")
_NAME: Final = re.compile(r"\s*(#|\w+)")
VERBATIM: Final = ("raw", "comment", "doc")
_ENDINGS: Final = {name: re.compile(r"\{%-?\s*end" + name + r"\s*-?%\}") for name in VERBATIM}
_IN_COMMENT: Final = re.compile(r"\{%-?\s*(?:(?P<raw>raw)\s*-?%\}|(?P<opened>comment)\b|endcomment\s*-?%\})")


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """A piece of a template's source.

    Attributes:
        kind: `text`, `output` or `tag`.
        text: its content, without delimiters and without the name of a tag.
        line: its first line, from 1.
        name: the name of a tag.
    """

    kind: str
    text: str
    line: int
    name: str = ""


@dataclass(slots=True)
class _Cutter:
    source: str
    place: int = 0
    counted: int = 0
    line: int = 1
    strip_next: bool = False

    def pieces(self) -> Iterator[SourcePiece]:
        while match := _OPEN.search(self.source, self.place):
            yield from self.text(match.start(), strip=self.source.startswith("-", match.end()))
            piece = self.marked(match.start())
            if piece.name in VERBATIM:
                yield from self.verbatim(piece)
            else:
                yield piece
        yield from self.text(len(self.source), strip=False)

    def text(self, end: int, *, strip: bool) -> Iterator[SourcePiece]:
        """Return the plain text up to `end`. A `-` in a delimiter removes the white space next to it."""
        text = self.source[self.place : end]
        text = text.lstrip() if self.strip_next else text
        text = text.rstrip() if strip else text
        if text:
            yield SourcePiece("text", text, self.line_at(self.place))

    def marked(self, start: int) -> SourcePiece:
        """Return an output or a tag, from its opening to its closing delimiter."""
        line = self.line_at(start)
        is_tag = self.source[start + 1] == "%"
        end = self.source.find("%}" if is_tag else "}}", start + 2)
        if end < 0:
            raise TemplateError(f"{self.source[start : start + 2]!r} is never closed", line)
        inner = self.source[start + 2 : end]
        self.place, self.strip_next = end + 2, inner.endswith("-")
        inner = inner.removeprefix("-").removesuffix("-")
        if not is_tag:
            return SourcePiece("output", inner, line)
        match = _NAME.match(inner)
        if match is None:
            raise TemplateError("the tag has no name", line)
        return SourcePiece("tag", inner[match.end() :], line + inner.count("\n", 0, match.end()), match[1])

    def verbatim(self, opening: SourcePiece) -> Iterator[SourcePiece]:
        """Yield the content of `raw` unchanged, and nothing of a comment or documentation."""
        strip = self.strip_next
        match = self.comment_end() if opening.name == "comment" else self.end_of(opening.name, self.place)
        if match is None:
            raise _never_closed(opening)
        if opening.name == "raw":
            self.strip_next = strip
            yield from self.text(match.start(), strip=match[0].startswith("{%-"))
        self.place, self.strip_next = match.end(), match[0].endswith("-%}")

    def end_of(self, name: str, place: int) -> re.Match[str] | None:
        """Find the delimiter that closes `raw` or `doc`."""
        return _ENDINGS[name].search(self.source, place)

    def comment_end(self) -> re.Match[str] | None:
        """Find the delimiter that closes a comment. Comments may be nested, and `raw` in them hides tags."""
        place, depth = self.place, 1
        while match := _IN_COMMENT.search(self.source, place):
            last = self.end_of("raw", match.end()) if match["raw"] else match
            if last is None:
                return None
            place = last.end()
            if not match["raw"]:
                depth += 1 if match["opened"] else -1
            if not depth:
                return match
        return None

    def line_at(self, place: int) -> int:
        """Return the line of a place. Places must not decrease."""
        if place > self.counted:
            self.line += self.source.count("\n", self.counted, place)
            self.counted = place
        return self.line


def is_plain(source: str) -> bool:
    """Return True if a text has no outputs and no tags."""
    return _OPEN.search(source) is None


def cut(source: str) -> Iterator[SourcePiece]:
    """Return the pieces of a template, in order.

    Raises:
        TemplateError: a delimiter is never closed.
    """
    return _Cutter(source).pieces()


def lines(piece: SourcePiece) -> Iterator[SourcePiece]:
    """Return the tags of a `liquid` tag, one per line.

    Raises:
        TemplateError: a line has no tag, or a comment is never closed; has the line.
    """
    closed, depth, opening = "", 0, piece
    for at, line in enumerate(piece.text.split("\n"), piece.line):
        match = _NAME.match(line)
        if match is None and line.strip() and not depth:
            raise TemplateError("the tag has no name", at)
        name = match[1] if match else ""
        if depth:
            depth += (name == closed) - (name == f"end{closed}")
        elif name in VERBATIM:
            if name == "raw":
                raise TemplateError("'raw' is not allowed within 'liquid', which has no text", at)
            closed, depth, opening = name, 1, SourcePiece("tag", "", at, name)
        elif match:
            yield SourcePiece("tag", line[match.end() :].rstrip(), at, name)
    if depth:
        raise _never_closed(opening)


def _never_closed(opening: SourcePiece) -> TemplateError:
    return TemplateError(f"'{opening.name}' is never closed by 'end{opening.name}'", opening.line)
