"""The effects of a rehearsal as lines for a user, the same for text and HTML.

Each line has a mark: plus for created, tilde for changed, minus for deleted, `!` for refused, `?` for a tool call that
needs approval, `>` for an answered tool call. The lines are ordered by risk. After the first `MOST_LINES`, lines
without details are joined, so many files stay readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.analysis import RiskLevel
from tract_jupyter.models import counted, distinct, one_line, printable, size_text
from tract_jupyter.review.display import DisplayedPiece, keyed_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tract_jupyter.rehearsal import (
        Effects,
        FileEffect,
        RefusedAttempt,
        RehearsedCall,
        SettingEffect,
        TableChange,
        VariableEffect,
    )

MOST_LINES: Final = 12
"""The number of effects with a line of their own. The others are joined by kind."""
DELETED: Final = "\N{MINUS SIGN}"
"""The mark of deletions."""
_MARKS: Final = {"created": "+", "changed": "~", "deleted": DELETED}
_LEFT_OUT: Final = "shown as a picture, not kept"
_JOINED: Final = 5  # names in a joined line


class EffectLine(NamedTuple):
    """One effect, or several of the same kind in a joined line.

    `is_alone` is True if it is not joined with others.
    """

    mark: str
    name: str
    text: str
    table: TableChange | None = None
    diff: str = ""
    is_file: bool = False
    is_alone: bool = False

    @property
    def word(self) -> str:
        """The mark in words, for screen readers."""
        return _WORDS[self.mark]


_WORDS: Final = {
    "+": "created",
    "~": "changed",
    DELETED: "deleted",
    "!": "refused",
    "?": "needs approval",
    ">": "called",
}


class ShownEffects(NamedTuple):
    """The lines of the effects, and the joined lines of the others."""

    lines: tuple[EffectLine, ...]
    more: tuple[EffectLine, ...]
    total: int


def list_effects(effects: Effects) -> ShownEffects:
    """Return the lines of the effects, the riskiest first."""
    lines = list(_list_all(effects))
    if len(lines) <= MOST_LINES + 1:  # a fold for one line would be longer than the line
        return ShownEffects(tuple(lines), (), len(lines))
    return ShownEffects(tuple(lines[:MOST_LINES]), tuple(_join(lines[MOST_LINES:])), len(lines))


def keyed_lines(effects: Effects, pending_id: str) -> Iterator[tuple[EffectLine, DisplayedPiece]]:
    """Yield each line with the piece that must be on display before the effects are kept."""
    shown = list_effects(effects)
    lines = (*shown.lines, *shown.more)
    texts = [f"{line.mark} {line.name} {line.text}" for line in lines]
    yield from zip(lines, keyed_pieces(texts, "effects", pending_id, effects.digest), strict=True)


def _list_all(effects: Effects) -> Iterator[EffectLine]:
    yield from map(_refused, effects.refused)
    yield from (_called(call) for call in effects.calls if not call.is_answered)
    for action in ("deleted", "changed", "created"):
        yield from (_file(effect) for effect in effects.files if effect.action == action)
        yield from (_variable(effect) for effect in effects.variables if effect.action == action)
    yield from map(_setting, effects.settings)
    yield from (_called(call) for call in effects.calls if call.is_answered)


def _join(lines: Sequence[EffectLine]) -> Iterator[EffectLine]:
    """Join lines of the same kind: of new and deleted names. Other lines stay alone: their details matter."""
    group: list[EffectLine] = []
    for line in lines:
        is_alone = line.table is not None or bool(line.diff) or line.is_alone or line.mark in {"~", ">"}
        if group and (is_alone or group[0].mark != line.mark or len(group) == _JOINED):
            yield _joined(group)
            group = []
        if is_alone:
            yield line
        else:
            group.append(line)
    if group:
        yield _joined(group)


def _joined(group: Sequence[EffectLine]) -> EffectLine:
    if len(group) == 1:
        return group[0]
    return EffectLine(group[0].mark, ", ".join(line.name for line in group), "", is_file=group[0].is_file)


def _parts(*parts: str) -> str:
    return printable("; ".join(filter(None, parts)))


def _variable(effect: VariableEffect) -> EffectLine:
    before, after = effect.before, effect.after
    states = after if not before or before == after else f"{before} → {after}" if after else before
    aliases = f"{', '.join(effect.aliases)} would keep the old object" if effect.aliases else ""
    left_out = _LEFT_OUT if effect.is_left_out else ""
    note = distinct(effect.name)[1]
    text = _parts(states, effect.detail, aliases, _problem(effect.problem), left_out, note)
    is_alone = effect.is_left_out or bool(note)
    return EffectLine(_MARKS[effect.action], printable(effect.name), text, effect.table, is_alone=is_alone)


def _file(effect: FileEffect) -> EffectLine:
    sizes = [size_text(size) for size in (effect.size_before, effect.size_after) if size is not None]
    rows = effect.table
    states = " → ".join(dict.fromkeys(sizes))
    if rows is not None and rows.rows_before is not None and rows.rows_after is not None:
        states = (
            counted(rows.rows_after, "row")
            if rows.rows_before == rows.rows_after
            else f"{rows.rows_before:,} → {counted(rows.rows_after, 'row')}"
        )
    if states and effect.detail.startswith(states):  # the detail of a file without rows or lines is its size
        states = ""
    text = _parts(states, effect.detail, _problem(effect.problem))
    is_alone = any(word in effect.detail for word in ("mode ", "executable", "hidden or unusual"))
    return EffectLine(
        _MARKS[effect.action],
        printable(effect.path),
        text,
        effect.table,
        effect.diff,
        is_file=True,
        is_alone=is_alone,
    )


def _setting(effect: SettingEffect) -> EffectLine:
    mark = "+" if not effect.before else "~" if effect.after else DELETED
    states = " → ".join(filter(None, (effect.before, effect.after)))
    return EffectLine(mark, printable(effect.name), _parts(states, _problem(effect.problem)), is_alone=True)


def _called(call: RehearsedCall) -> EffectLine:
    given = "" if call.arguments in {"", "{}"} else f" with {call.arguments}"
    if call.is_answered:
        return EffectLine(">", printable(call.tool), _parts(f"was called{given}"))
    return EffectLine(
        "?", printable(call.tool), _parts(f"needs approval to be called{given}", "the rehearsal ended here")
    )


def _refused(refusal: RefusedAttempt) -> EffectLine:
    times = f"{refusal.times:,} times" if refusal.times > 1 else ""
    where = f"line {refusal.line}" if refusal.line is not None else ""
    about = ", ".join(filter(None, ("refused", times, where)))
    return EffectLine("!", printable(refusal.action), about)


def _problem(problem: str) -> str:
    return f"cannot be kept: {problem}" if problem else ""


_CELL: Final = 60  # characters of a cell in text


def detail_lines(line: EffectLine) -> list[str]:
    """Return the details of a line as text: the changed lines, or a sample of the changed rows."""
    if line.diff:
        return printable(line.diff).rstrip("\n").split("\n")
    return [] if line.table is None else list(_sample_lines(line.table))


def _sample_lines(table: TableChange) -> Iterator[str]:
    if table.sample:
        yield " | ".join(_cell(name) for name in ("", *table.columns))
    for row in table.sample:
        number = "" if row.row is None else f"{row.row:,}"
        for mark, cells in ((DELETED, row.before), ("+", row.after)):
            if cells:
                yield " | ".join([f"{mark} {number}".rstrip(), *map(_cell, cells)])


def _cell(text: str) -> str:
    return one_line(text, _CELL)


# --- the risk


def effects_risk(effects: Effects) -> tuple[RiskLevel | None, str]:
    """Return the level of the worst effect, and a label for it such as `overwrites a file`."""
    risks = list(_list_risks(effects))
    no_risk = "no effects" if effects.is_empty else "no file changed"
    return max(risks, key=lambda risk: risk[0].rank, default=(None, no_risk))


def _list_risks(effects: Effects) -> Iterator[tuple[RiskLevel, str]]:
    for refusal in effects.refused:
        verb = refusal.action.partition(" ")[0]
        risk = _REFUSED.get(verb, "tries more than it may")
        yield RiskLevel.HIGH, "changes a file of another owner or group" if refusal.is_foreign else risk
    files = [effect.action for effect in effects.files]
    yield from _count_files(files)
    deleted = sum(effect.action == "deleted" for effect in effects.variables)
    if deleted:
        yield RiskLevel.MEDIUM, f"deletes {counted(deleted, 'variable')}"
    if any(not call.is_answered for call in effects.calls):
        yield RiskLevel.MEDIUM, "calls a tool that needs approval"
    if effects.ending in {"stopped", "limit", "crashed"}:
        yield RiskLevel.MEDIUM, "was not rehearsed to its end"


_REFUSED: Final = {
    "connect": "uses the network",
    "send": "uses the network",
    "start": "starts a program",
    "write": "writes outside the workspace",
}


def _count_files(actions: Sequence[str]) -> Iterable[tuple[RiskLevel, str]]:
    words = {
        "deleted": (RiskLevel.HIGH, "deletes"),
        "changed": (RiskLevel.MEDIUM, "overwrites"),
        "created": (RiskLevel.LOW, "creates"),
    }
    for action, (level, verb) in words.items():
        count = actions.count(action)
        if count:
            yield level, f"{verb} a file" if count == 1 else f"{verb} {count:,} files"
