"""Proposed edits of cells: checked against the texts that the model read, and compared line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import counted, one_line
from tract_jupyter.notebook.cells.messages import CELL_ID, CellKind, source_hash
from tract_jupyter.notebook.views.diff import shared_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.analysis import Finding

HASH_DIGITS: Final = 16
"""The part of a hash that the model receives and repeats."""
LONGEST_SOURCE: Final = 100_000
"""Characters of a cell that a model can edit."""
_MOST_EDITS: Final = 50
_MOST_CHARACTERS: Final = 200_000
_MOST_COMPARED: Final = 1_000  # lines; comparing is quadratic
_CONTEXT: Final = 3
_TITLE: Final = 50
_BREAK: Final = "\N{SYMBOL FOR NEWLINE}"

_OTHER_BREAKS: Final = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that end a line of Python or of a page. A diff could hide a line with them."""

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
"""A half of a character pair, which is not Unicode."""

Action = Literal["insert", "replace", "delete", "move"]


@with_config(ConfigDict(extra="forbid"))
class CellEdit(TypedDict):
    """One edit, as a model writes it."""

    action: Action
    cell: NotRequired[Annotated[str | None, "The id of the cell; not for insert."]]
    based_on: NotRequired[
        Annotated[str | None, "The source_hash of the cell from notebook_read; not for insert."]
    ]
    after: NotRequired[
        Annotated[str | None, "For insert and move: the id of the cell before it; null for the beginning."]
    ]
    kind: NotRequired[Annotated[CellKind | None, "For insert; code if left out."]]
    source: NotRequired[Annotated[str | None, "For insert and replace: the whole new text."]]


@dataclass(frozen=True)
class Edit:
    """A checked edit. `old` is the text that the model read.

    `number` and `after_number` are the positions of the cells when they were read; 0 if not known.
    """

    name: str
    action: Action
    cell: str
    after: str | None
    kind: str
    old: str
    new: str
    number: int = 0
    after_number: int = 0

    def to_page(self) -> dict[str, Any]:
        """Return it in the form of the protocol."""
        has_text = self.action in {"insert", "replace"}
        return {
            "edit": self.name, "action": self.action, "cell": self.cell or None, "after": self.after, "kind": self.kind,
            "based_on": None if self.action == "insert" else source_hash(self.old),
            "source": self.new if has_text else None,
        }  # fmt: skip

    @property
    def has_new_code(self) -> bool:
        """True if the edit leaves code that the cell did not have."""
        return self.kind == "code" and self.action in {"insert", "replace"}

    @property
    def title(self) -> str:
        """The edit in words."""
        after = f"after cell {self.after_number or self.after}"
        first = one_line(next(filter(str.strip, self.old.split("\n")), ""), _TITLE)
        cell, about = f"cell {self.number or self.cell}", f": {first}" if first else ""
        is_first = self.after is None
        return {
            "insert": f"Insert a {self.kind} cell {'at the beginning' if is_first else after}",
            "replace": f"Change {cell}{about}", "delete": f"Delete {cell}{about}",
            "move": f"Move {cell} {'to the beginning' if is_first else after}{about}",
        }[self.action]  # fmt: skip


class KnownText(NamedTuple):
    """A text of a cell that a model read."""

    source: str
    kind: str
    number: int


class KnownTexts:
    """The texts that models read, by cell and hash. The oldest are dropped first."""

    _MOST: Final = 30_000_000

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], KnownText] = {}
        self._size = 0
        self._places: dict[str, int] = {}

    def note_places(self, cells: Iterable[Mapping[str, Any]]) -> None:
        """Remember the positions of cells, for the titles of edits."""
        self._places |= {cell["id"]: cell["number"] for cell in cells}

    def place_of(self, cell: str | None) -> int:
        """Return the position of a cell when it was read; 0 if it is not known."""
        return self._places.get(cell or "", 0)

    def add(self, cell: Mapping[str, Any]) -> str:
        """Keep the text of a cell, and return the hash for the model."""
        short = str(cell["hash"])[:HASH_DIGITS]
        key = cell["id"], short
        self.note_places([cell])
        self._drop(key)
        self._texts[key] = KnownText(cell["source"], cell["kind"], cell["number"])
        self._size += len(cell["source"]) + 100
        while self._size > self._MOST:
            self._drop(next(iter(self._texts)))
        return short

    def find(self, cell: str, based_on: str) -> KnownText | None:
        """Return the text with a hash; None if no model read it here."""
        known = self._texts.get((cell, based_on[:HASH_DIGITS]))
        is_same = known is not None and source_hash(known.source).startswith(based_on)
        return known if is_same and len(based_on) >= HASH_DIGITS else None

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._texts.pop(key, None)
        self._size -= 0 if dropped is None else len(dropped.source) + 100


def check_edits(edits: Sequence[CellEdit], known: KnownTexts) -> tuple[Edit, ...]:
    """Check the edits of a model."""
    if not 1 <= len(edits) <= _MOST_EDITS:
        raise OperationError(f"pass 1 to {_MOST_EDITS} edits, not {len(edits)}")
    checked = tuple(_checked(f"e{number}", edit, known) for number, edit in enumerate(edits, 1))
    cells = [edit.cell for edit in checked if edit.cell]
    double = next((cell for cell in cells if cells.count(cell) > 1), None)
    if double is not None:
        raise OperationError(f"two edits change cell {double}; put both changes into one edit")
    gone = {edit.cell for edit in checked if edit.action in {"delete", "move"}}
    wrong = next((edit.after for edit in checked if edit.after in gone), None)
    if wrong is not None:
        raise OperationError(
            f"'after' names cell {wrong}, which another edit deletes or moves; name another cell"
        )
    size = sum(len(edit.old) + len(edit.new) for edit in checked)
    if size > _MOST_CHARACTERS or any(len(edit.new) > LONGEST_SOURCE for edit in checked):
        raise OperationError(
            f"the edits have {size:,} characters; at most {_MOST_CHARACTERS:,} together and {LONGEST_SOURCE:,} in one "
            "cell are allowed. Make several calls"
        )
    return checked


def _checked(name: str, edit: CellEdit, known: KnownTexts) -> Edit:
    action, cell, source = edit["action"], edit.get("cell"), edit.get("source")
    after, based_on = edit.get("after"), edit.get("based_on")
    has_text, has_place = action in {"insert", "replace"}, action in {"insert", "move"}
    needed = {
        "source": (source, has_text),
        "cell": (cell, action != "insert"),
        "based_on": (based_on, action != "insert"),
    }
    for field, (value, is_needed) in needed.items():
        if (value is not None) != is_needed:
            raise OperationError(f"{name}: {action} {'needs' if is_needed else 'takes no'} {field!r}")
    if after is not None and not (has_place and CELL_ID.fullmatch(after)):
        wrong = (
            f"'after' names cell {one_line(after, 64)}, which does not exist"
            if has_place
            else "no 'after' is allowed"
        )
        raise OperationError(f"{name}: {action}: {wrong}")
    if edit.get("kind") is not None and action != "insert":
        raise OperationError(f"{name}: {action} takes no 'kind'; delete the cell, and insert another one")
    if source is not None and (_HALF_PAIR.search(source) or _OTHER_BREAKS.search(source)):
        raise OperationError(
            f"{name}: the source has a line break other than \\n, or half of a character pair; write plain lines"
        )
    if cell is None or based_on is None:
        kind = edit.get("kind") or "code"
        return Edit(name, action, "", after, kind, "", source or "", 0, known.place_of(after))
    text = known.find(cell, based_on)
    if text is None:
        raise OperationError(
            f"{name}: cell {one_line(cell, 64)} was not read with this hash here; read it with notebook_read, and use "
            "its source_hash"
        )
    if action == "replace" and "\r" in text.source:
        raise OperationError(
            f"{name}: cell {cell} has a carriage return (\\r), and an editor on the page would change the wrong "
            "characters. Delete the cell, and insert its new source"
        )
    new = text.source if source is None else source
    if action == "replace" and new == text.source:
        raise OperationError(f"{name}: the new source of cell {cell} is the same as the old one")
    return Edit(name, action, cell, after, text.kind, text.source, new, text.number, known.place_of(after))


class Hunk(NamedTuple):
    """Changed lines: half-open ranges of line indexes in the old and in the new text."""

    old: tuple[int, int]
    new: tuple[int, int]


def hunks(old: str, new: str) -> list[Hunk]:
    """Return the changed ranges of lines."""
    x, y = old.split("\n"), new.split("\n")
    start = shared_length(x, y)
    end = shared_length(x[start:][::-1], y[start:][::-1])
    inner_x, inner_y = x[start : len(x) - end], y[start : len(y) - end]
    if max(len(inner_x), len(inner_y)) > _MOST_COMPARED:
        return [Hunk((start, len(x) - end), (start, len(y) - end))]
    steps = SequenceMatcher(None, inner_x, inner_y).get_opcodes()
    return [
        Hunk((start + i, start + i_end), (start + j, start + j_end))
        for tag, i, i_end, j, j_end in steps
        if tag != "equal"
    ]


def with_hunks(edit: Edit, chosen: Sequence[int]) -> str:
    """Return the old text of an edit with only some of its hunks."""
    old, new, all_hunks = edit.old.split("\n"), edit.new.split("\n"), hunks(edit.old, edit.new)
    if not chosen or not set(chosen) <= set(range(len(all_hunks))):
        raise OperationError(f"{edit.name} has {counted(len(all_hunks), 'hunk')}, and not these")
    lines, position = [], 0
    for number, hunk in enumerate(all_hunks):
        lines += old[position : hunk.old[0]]
        lines += new[slice(*hunk.new)] if number in chosen else old[slice(*hunk.old)]
        position = hunk.old[1]
    return "\n".join([*lines, *old[position:]])


def diff_text(edit: Edit, findings: Sequence[Finding] = ()) -> tuple[str, tuple[Finding, ...]]:
    """Return a unified diff of an edit, and the findings of its new lines, moved to the lines of the diff."""
    if edit.action == "delete":
        return "\n".join(f"-{_OTHER_BREAKS.sub(_BREAK, line)}" for line in edit.old.split("\n")), ()
    lines: list[str] = []
    places: dict[int, int] = {}
    for sign, text, number in _diff_lines(edit):
        lines.append(f"{sign}{_OTHER_BREAKS.sub(_BREAK, text)}")
        if sign == "+":
            places[number] = len(lines)
    moved = [_moved(one, places[one.span.line]) for one in findings if one.span.line in places]
    return "\n".join(lines), tuple(moved)


def _moved(finding: Finding, line: int) -> Finding:
    span, down = finding.span, line - finding.span.line
    is_short = span.end_line == span.line
    return replace(finding, span=replace(
        span, line=line, column=span.column + 1, end_line=span.end_line + down,
        end_column=span.end_column + 1 if is_short else span.end_column,
    ))  # fmt: skip


def _diff_lines(edit: Edit) -> Iterator[tuple[str, str, int]]:
    """Yield the sign, text and new line number of each line of a unified diff."""
    old, new, end = edit.old.split("\n"), edit.new.split("\n"), 0
    all_hunks = hunks(edit.old, edit.new)
    for number, hunk in enumerate(all_hunks):
        start = max(hunk.old[0] - _CONTEXT, end)
        following = all_hunks[number + 1].old[0] if number + 1 < len(all_hunks) else len(old)
        if start > end or not number:
            yield "@", f"@ -{start + 1} +{hunk.new[0] - (hunk.old[0] - start) + 1} @@", 0
        yield from ((" ", text, 0) for text in old[start : hunk.old[0]])
        yield from (("-", text, 0) for text in old[slice(*hunk.old)])
        yield from (("+", text, n) for n, text in enumerate(new[slice(*hunk.new)], hunk.new[0] + 1))
        end = min(hunk.old[1] + _CONTEXT, following)
        yield from ((" ", text, 0) for text in old[hunk.old[1] : end])
