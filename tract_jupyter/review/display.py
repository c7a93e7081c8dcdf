"""The approved content, cut into pieces that a page can display.

Panels, the inbox, prompts, records and terminals all use this description. Each shows all pieces. An approval is
impossible until every piece was on display. A front end reports the keys of displayed pieces.

A key identifies one piece of one exact text. If one character of the text changes, all its pieces get new keys.
Displayed code keeps its keys everywhere in this process. Displayed values count only for their question.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.analysis import split_lines
from tract_jupyter.models import cut_with_size, distinct, printable
from tract_jupyter.review.request import CHOICES, MOST_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.analysis import Finding, RiskLevel
    from tract_jupyter.review.request import CodeBlock, ReviewRequest, TextChoice, ValueRow, ValueTable


LONGEST_PIECE = 200
"""The number of characters that are displayed together, even in a small space."""
MOST_PIECES = 20_000
"""The maximum number of pieces of a request on a page; see also `MOST_CHARACTERS`."""
TOO_LONG = (
    "It is too long to display completely, so you can only reject it here. Read its fields in code, "
    "and approve it there."
)
_SHORT = 300
_AT_LINE_ENDS = re.compile(rf".{{0,{LONGEST_PIECE - 2}}}?(?:\\n|\n)|.{{1,{LONGEST_PIECE}}}", re.DOTALL)
_SALT = secrets.token_bytes(16)  # prevents a text that is built to have the keys of another text


class DisplayedPiece(NamedTuple):
    """A displayable part of a text. `key` is empty if no approval depends on the piece."""

    text: str
    key: str = ""


class ShownLine(NamedTuple):
    """A line of code with its number, as in findings and tracebacks, and a note about its marks."""

    number: int
    pieces: tuple[DisplayedPiece, ...]
    hidden: str = ""


class ShownCode(NamedTuple):
    """A block of code: the texts above it, and its lines."""

    description: tuple[DisplayedPiece, ...]
    header: tuple[DisplayedPiece, ...]
    lines: tuple[ShownLine, ...]

    def pieces(self) -> Iterator[DisplayedPiece]:
        """Yield all pieces in order."""
        yield from self.description
        yield from self.header
        for line in self.lines:
            yield from line.pieces


class ShownRow(NamedTuple):
    """A named value. Joined, the pieces of each part are its text. A value at its default has no keys."""

    name: tuple[DisplayedPiece, ...]
    type: tuple[DisplayedPiece, ...]
    value: tuple[DisplayedPiece, ...]
    description: tuple[DisplayedPiece, ...]


class ShownChoice(NamedTuple):
    """The lines of two texts for one place, and of a chosen third text.

    A line in both texts is one piece. Displaying it on one side is enough.
    """

    ours: tuple[DisplayedPiece, ...]
    theirs: tuple[DisplayedPiece, ...]
    decided: tuple[DisplayedPiece, ...]
    other: tuple[DisplayedPiece, ...]


def shown_code(block: CodeBlock) -> ShownCode:
    """Cut a whole block of code into pieces. Marks replace invisible characters and characters that reverse text."""
    place: tuple[object, ...] = ("code", block.header, block.description, block.first_line, block.code)
    place = () if block.binds == "nothing" or block.is_typed else place
    lines = [distinct(line) for line in _lines(block.code)]
    cut = [_chunks(text) for text, _ in lines]
    pieces = iter(keyed_pieces([text for line in cut for text in line], *place))
    code_lines = tuple(
        ShownLine(number, tuple(next(pieces) for _ in line), note)
        for number, (line, (_, note)) in enumerate(zip(cut, lines, strict=True), block.first_line)
    )
    described = keyed_pieces(_cut(block.description), *place and ("description", *place))
    headed = keyed_pieces(_cut(_in_line(block.header)), *place and ("header", *place))
    return ShownCode(described, headed, code_lines)


def shown_rows(table: ValueTable, pending_id: str) -> tuple[ShownRow, ...]:
    """Cut a whole table into pieces. The keys of values are bound to the question."""
    return tuple(_row(table, row, pending_id) for row in table.rows)


def shown_choice(choice: TextChoice, pending_id: str) -> ShownChoice:
    """Cut a choice into lines. Their keys are bound to the question."""
    of = (pending_id, choice.name)
    other = None if choice.decided in CHOICES else choice.decided
    sides = [() if text is None else _choice_lines(text) for text in (choice.ours, choice.theirs)]
    lines = list(dict.fromkeys([*sides[0], *sides[1]]))
    pieces = dict(zip(lines, keyed_pieces(lines, "sides", *of), strict=True))
    ours, theirs = (tuple(pieces[line] for line in side) for side in sides)
    decided = keyed_pieces([choice.said], "decided", *of) if choice.decided is not None else ()
    written = () if other is None else keyed_pieces(_choice_lines(other), "other", *of)
    return ShownChoice(ours, theirs, decided, written)


def needed_pieces(request: ReviewRequest) -> Iterator[DisplayedPiece]:
    """Yield the pieces that must be displayed before an approval, in order."""
    for block in request.code:
        yield from (piece for piece in shown_code(block).pieces() if piece.key)
    for table in request.tables:
        for row in shown_rows(table, request.pending_id):
            yield from (piece for piece in chain.from_iterable(row) if piece.key)
    for choice in request.choices:
        yield from chain.from_iterable(shown_choice(choice, request.pending_id))


def showable(request: ReviewRequest) -> ReviewRequest:
    """Return the request. If it is too long, return a short version that can only be rejected."""
    if not _is_too_long(request):
        return request
    actions = tuple(action for action in request.actions if action.style == "reject")
    tables = tuple(replace(table, rows=tuple(map(_shortened, table.rows))) for table in request.tables)
    code = tuple(
        replace(block, code="\n".join(_lines(block.code)[:_SHORT])[: 100 * _SHORT]) for block in request.code
    )
    why = " ".join(filter(None, [TOO_LONG, request.why]))
    return replace(
        request, actions=actions, tables=tables, code=code, choices=(), fields=None, subject=None, why=why
    )


# ---


def _lines(code: str) -> list[str]:
    """Split code into lines as Python counts them. A final newline does not start another line."""
    lines = list(split_lines(code))
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _choice_lines(text: str) -> list[str]:
    return [_in_line(line) for line in text.replace("\r\n", "\n").split("\n")]


def _in_line(text: str) -> str:
    """Return a text with marks, followed by the note about them."""
    marked, note = distinct(text)
    return f"{marked} [{note}]" if note else marked


def _row(table: ValueTable, row: ValueRow, pending_id: str) -> ShownRow:
    of = (pending_id, table.title, row.name, row.type, row.value, row.description)
    row = replace(
        row, description=" ".join(filter(None, (row.description, row.hidden and f"[{row.hidden}]")))
    )
    bound = {"nothing": (), "values": ("name", "value")}.get(
        table.binds, ("name", "type", "value", "description")
    )
    bound = () if row.is_default or table.is_typed else bound
    return ShownRow(
        *(
            keyed_pieces(_cut(getattr(row, part)), *((part, *of) if part in bound else ()))
            for part in ("name", "type", "value", "description")
        )
    )


def keyed_pieces(texts: list[str], *place: object) -> tuple[DisplayedPiece, ...]:
    """Return the pieces of a text with keys for this place. Without a place, no approval depends on them."""
    if not place:
        return tuple(map(DisplayedPiece, texts))
    key = hashlib.blake2b(repr((place, texts)).encode(), digest_size=8, key=_SALT).hexdigest()
    return tuple(DisplayedPiece(text, f"{key}.{number}") for number, text in enumerate(texts))


def pieces_text(pieces: Iterable[DisplayedPiece]) -> str:
    """Return the text of pieces."""
    return "".join(piece.text for piece in pieces)


def _cut(text: str) -> list[str]:
    """Cut a text after each line end, including escaped line ends in a repr."""
    return _AT_LINE_ENDS.findall(text)


def _chunks(line: str) -> list[str]:
    """Cut a line into pieces. An empty line is one piece."""
    return [line[start : start + LONGEST_PIECE] for start in range(0, len(line), LONGEST_PIECE)] or [""]


def _is_too_long(request: ReviewRequest) -> bool:
    texts = [text for block in request.code for text in (block.code, block.description, block.header)]
    rows = [row for table in request.tables for row in table.rows]
    texts += [text for row in rows for text in (row.name, row.type, row.value, row.description)]
    texts += [side for c in request.choices for side in (c.ours, c.theirs, c.decided) if side is not None]
    characters = sum(map(len, texts))
    if any(row.is_cut for row in rows) or characters > MOST_CHARACTERS:
        return True
    if len(texts) + 2 * characters <= MOST_PIECES:
        return False  # each piece has a character or is an empty line
    return sum(1 for _ in needed_pieces(request)) > MOST_PIECES


def _shortened(row: ValueRow) -> ValueRow:
    if row.is_cut or len(row.value) <= _SHORT:
        return row
    return replace(row, value=cut_with_size(row.value, _SHORT), is_cut=True)


_SHOWN_LINES = 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A text of a finding, and its line numbers."""

    text: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RuleReason:
    """A distinct reason of a rule at one level, with its places. Places with the same text are merged."""

    level: RiskLevel
    text: str
    places: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """The findings of one rule in a block of code, the worst first, then by line."""

    code: str
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding:
        """The finding to show if the space allows only one."""
        return self.findings[0]

    @property
    def level(self) -> RiskLevel:
        """The worst level."""
        return self.worst.level

    @property
    def where(self) -> str:
        """The first lines, and the number of findings if there are several."""
        often = f"×{len(self.findings)}, " if len(self.findings) > 1 else ""
        return often + lines_text(finding.span.line for finding in self.findings)

    def reasons(self) -> tuple[RuleReason, ...]:
        """Return each distinct reason, the worst first."""
        by_reason: dict[tuple[RiskLevel, str], dict[str, list[int]]] = {}
        for finding in self.findings:
            places = by_reason.setdefault((finding.level, finding.reason), {})
            places.setdefault(finding.text, []).append(finding.span.line)
        return tuple(
            RuleReason(
                level, text, tuple(Occurrence(source, tuple(lines)) for source, lines in places.items())
            )
            for (level, text), places in by_reason.items()
        )


def by_rule(findings: Iterable[Finding]) -> tuple[RuleFindings, ...]:
    """Group findings by rule. The rule with the worst level comes first, then rules are sorted by code."""
    rules: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: (-f.level.rank, f.span, f.code)):
        rules.setdefault(finding.code, []).append(finding)
    folded = (RuleFindings(code, tuple(of_rule)) for code, of_rule in rules.items())
    return tuple(sorted(folded, key=lambda rule: (-rule.level.rank, rule.code)))


def lines_text(numbers: Iterable[int]) -> str:
    """Format line numbers: `line 3`, `lines 3 and 8`, or `lines 3, 8, 21 and others`."""
    lines = sorted(set(numbers))
    *first, last = [*map(str, lines[:_SHOWN_LINES]), *(["others"] if len(lines) > _SHOWN_LINES else [])]
    return f"lines {', '.join(first)} and {last}" if first else f"line {last}"


def in_short(rule: RuleFindings) -> str:
    """Summarize a rule's findings in a line: level, rule, place, and the worst reason."""
    return printable(f"{rule.level.value} {rule.code} {rule.where}: {rule.worst.reason}")
