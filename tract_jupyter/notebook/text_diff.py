"""Two texts line by line, with the words that differ marked within lines that were changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING

from tract_jupyter.models.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXT = 3
_MOST_COMPARED = 400  # lines; comparing is quadratic
_MOST_SHOWN = 200
_SAMPLE = 80  # of either side where there are too many lines to be compared
_LINE = 4_000
_BEFORE = 200
_ALIKE = 0.35  # below this share of equal words, marking words is more confusing than not
_WORDS = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
Piece = tuple[bool, str]
"""Whether this part differs, and the text."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`sign` is `+`, `-`, a space for what is the same, or `@` for a remark about lines that are left out."""

    sign: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The line without its sign."""
        return "".join(text for _, text in self.pieces)


def diff_lines(old: str, new: str) -> list[DiffLine]:
    """The lines that differ, three around them, and a remark for each gap; nothing if the texts are equal."""
    lines = list(_compared(printable(old).split("\n"), printable(new).split("\n"))) if old != new else []
    more = len(lines) - _MOST_SHOWN
    return lines if more <= 0 else [*lines[:_MOST_SHOWN], _remark(more)]


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    start = _shared(old, new)
    rest = _shared(old[start:][::-1], new[start:][::-1])
    before, after = max(start - _CONTEXT, 0), max(rest - _CONTEXT, 0)
    old, new = old[before : len(old) - after], new[before : len(new) - after]
    if before:
        yield _remark(before, "equal ")
    if max(len(old), len(new)) > _MOST_COMPARED:
        yield from _replaced(old[:_SAMPLE], new[:_SAMPLE])
        yield _remark(max(len(old), len(new)) - _SAMPLE)
    else:
        yield from _hunks(old, new)
    if after:
        yield _remark(after, "equal ")


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines, words or characters are equal from the beginning."""
    return next(
        (i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), min(len(old), len(new))
    )


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    end = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
        if group[0][1] > end:
            yield _remark(group[0][1] - end, "equal ")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (_line(" ", text) for text in old[i:i_end])
            else:
                yield from _replaced(old[i:i_end], new[j:j_end])
        end = group[-1][2]


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """All old lines, then all new ones; the first of the one are taken for the first of the other."""
    pairs = [_marked(x, y) for x, y in zip_longest(old, new)]
    yield from (DiffLine("-", x) for x, _ in pairs[: len(old)])
    yield from (DiffLine("+", y) for _, y in pairs[: len(new)])


def _marked(old: str | None, new: str | None) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    if old is None or new is None:
        return _line("", old or "").pieces, _line("", new or "").pieces
    start = _shared(old, new) if max(len(old), len(new)) > _LINE else 0
    x, y = (_WORDS.findall(_cut(text, start)) for text in (old, new))
    steps = _steps(x, y)
    equal = sum(len(before) for differs, before, _ in steps if not differs)
    if equal < _ALIKE * max(len("".join(x)), len("".join(y)), 1):
        return ((False, "".join(x)),), ((False, "".join(y)),)
    return (
        tuple((differs, before) for differs, before, _ in steps if before),
        tuple((differs, after) for differs, _, after in steps if after),
    )


def _steps(x: list[str], y: list[str]) -> list[tuple[bool, str, str]]:
    """From the one to the other: whether a part differs, and how it reads on either side."""
    start = _shared(x, y)
    end = _shared(x[start:][::-1], y[start:][::-1])
    x_rest, y_rest = x[start : len(x) - end], y[start : len(y) - end]
    inner = [
        (tag != "equal", "".join(x_rest[i:i_end]), "".join(y_rest[j:j_end]))
        for tag, i, i_end, j, j_end in SequenceMatcher(None, x_rest, y_rest).get_opcodes()
    ]
    head, tail = "".join(x[:start]), "".join(x[len(x) - end :])
    return [(False, head, head), *inner, (False, tail, tail)]


def _cut(text: str, start: int) -> str:
    """At most so much of the line as can be read, from a little before `start`."""
    begin = max(start - _BEFORE, 0)
    return f"{'…' if begin else ''}{text[begin : begin + _LINE]}{'…' if len(text) > begin + _LINE else ''}"


def _line(sign: str, text: str) -> DiffLine:
    return DiffLine(sign, ((False, _cut(text, 0)),))


def _remark(count: int, kind: str = "more ") -> DiffLine:
    return DiffLine("@", ((False, f"⋮ {count:,} {kind}line{'s' * (count != 1)}"),))
