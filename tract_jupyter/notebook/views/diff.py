"""The view of a difference: texts line by line, with changed words marked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, groupby, pairwise, zip_longest
from typing import TYPE_CHECKING, TypeVar

from tract_jupyter.models import (
    BoundedMatcher,
    Priority,
    brief_repr,
    counted,
    one_line,
    printable,
    show_delta,
)
from tract_jupyter.notebook.views.context import full_text, preview, speaker, unfolding
from tract_jupyter.notebook.views.html import View, element, fragment, heading, root_html, style_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.models import DiffResult, MessageDiff
    from tract_jupyter.notebook.views.html import Html, HtmlPart
    from tract_jupyter.review import DisplayedPiece


_CONTEXT = 3
_MOST_COMPARED = 400  # lines; comparing is quadratic
_MOST_SHOWN = 200
_SAMPLE = 80  # lines of each side if there are too many to compare
_LINE = 4_000
_BEFORE = 200
_ALIKE = 0.35  # below this share of equal words, marks confuse more than they help
_MOST_STEPS = 100_000  # of comparing the words of two lines, about 10 ms
_WORDS = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
Shown = TypeVar("Shown", bound=str)
Piece = tuple[bool, str]
"""True for a changed part, and its text."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line. `sign` is `+`, `-`, a space for an unchanged line, or `@` for a remark about omitted lines."""

    sign: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The line without its sign."""
        return "".join(text for _, text in self.pieces)


def diff_lines(old: str, new: str) -> list[DiffLine]:
    """Return the changed lines, three lines around them, and a remark for each gap; empty if the texts are equal."""
    lines = list(_compared(printable(old).split("\n"), printable(new).split("\n"))) if old != new else []
    more = len(lines) - _MOST_SHOWN
    return lines if more <= 0 else [*lines[:_MOST_SHOWN], _remark(more)]


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    start = shared_length(old, new)
    rest = shared_length(old[start:][::-1], new[start:][::-1])
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


def shared_length(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines, words or characters are equal from the start."""
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
    """Yield all old lines, then all new ones. Lines are paired in order."""
    pairs = [_marked(x, y) for x, y in zip_longest(old, new)]
    yield from (DiffLine("-", x) for x, _ in pairs[: len(old)])
    yield from (DiffLine("+", y) for _, y in pairs[: len(new)])


def _marked(old: str | None, new: str | None) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    if old is None or new is None:
        return _line("", old or "").pieces, _line("", new or "").pieces
    start = shared_length(old, new) if max(len(old), len(new)) > _LINE else 0
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
    """Return the parts of two texts: if they differ, and the text on either side."""
    start = shared_length(x, y)
    end = shared_length(x[start:][::-1], y[start:][::-1])
    x_rest, y_rest = x[start : len(x) - end], y[start : len(y) - end]
    inner = [
        (tag != "equal", "".join(x_rest[i:i_end]), "".join(y_rest[j:j_end]))
        for tag, i, i_end, j, j_end in BoundedMatcher(x_rest, y_rest, _MOST_STEPS).get_opcodes()
    ]
    head, tail = "".join(x[:start]), "".join(x[len(x) - end :])
    return [(False, head, head), *inner, (False, tail, tail)]


def _cut(text: str, start: int) -> str:
    """Return at most `_LINE` characters of a line, from shortly before `start`."""
    begin = max(start - _BEFORE, 0)
    return f"{'…' if begin else ''}{text[begin : begin + _LINE]}{'…' if len(text) > begin + _LINE else ''}"


def _line(sign: str, text: str) -> DiffLine:
    return DiffLine(sign, ((False, _cut(text, 0)),))


def _remark(count: int, kind: str = "more ") -> DiffLine:
    return DiffLine("@", ((False, f"⋮ {count:,} {kind}line{'s' * (count != 1)}"),))


_MOST = 100
_PREVIEW = 100
_WHOLE = 10_000
_TEXT_LINES = 12
_SIGNS = {"added": "+", "removed": "−", "changed": "~"}  # noqa: RUF001 # a minus


@dataclass(frozen=True)
class DiffView(View):
    """A difference between two contexts."""

    result: DiffResult

    def to_html(self) -> Html:
        """Return the changes. Runs of unchanged messages are folded."""
        result = self.result
        config = (element("p", line) for line in _config_lines(result))
        parts = _parts(
            result,
            lambda diff: _change_html(diff, result.token_source),
            lambda text: element("p", f"⋮ {text}", class_="tract-dim"),
        )
        stat = element("p", element("b", str(result.stat)))
        page = root_html(heading("Difference", _title(result)), stat, config, parts, look="tract-views")
        return fragment(style_tag("views/views.css"), page)

    def to_text(self) -> str:
        """Return the changes with signs before the lines."""
        result = self.result
        lines = [f"Difference {_title(result)}: {result.stat}", *_config_lines(result)]
        lines += _parts(
            result, lambda diff: _change_text(diff, result.token_source), lambda text: f"  ⋮ {text}"
        )
        return "\n".join(lines)


def _parts(
    result: DiffResult, show: Callable[[MessageDiff], Shown], fold: Callable[[str], Shown]
) -> Iterator[Shown]:
    """Yield each change, and a remark for each run of unchanged messages."""
    changes = 0
    for is_same, run in groupby(result.message_diffs, lambda diff: diff.kind == "unchanged"):
        diffs = list(run)
        if is_same:
            yield fold(counted(len(diffs), "unchanged message"))
            continue
        yield from map(show, diffs[: _MOST - changes])
        changes += len(diffs)
        if changes > _MOST:
            stat = result.stat
            yield fold(counted(stat.added + stat.removed + stat.changed - _MOST, "more change"))
            return


def _title(result: DiffResult) -> str:
    a, b = (commit[:8] if commit else "nothing" for commit in (result.commit_a, result.commit_b))
    return f"{a} → {b}"


def _config_lines(result: DiffResult) -> list[str]:
    changes = result.generation_config_changes.items()
    return [f"{one_line(name, 60)}: {_value(old)} → {_value(new)}" for name, (old, new) in changes]


def _value(value: object) -> str:
    return "not set" if value is None else one_line(brief_repr(value), 80)


def _change_html(diff: MessageDiff, source: str) -> Html:
    head = element(
        "div",
        element("b", f"{_SIGNS[diff.kind]} {diff.kind}"),
        element("span", _speakers(diff)),
        element("code", _commits(diff)),
        element("span", f"{show_delta(diff.token_delta, source)} tokens"),
        class_="tract-head",
    )
    details = (element("p", line) for line in _details(diff))
    return element("div", head, details, _body_html(diff), class_=f"tract-change tract-{diff.kind}")


def _body_html(diff: MessageDiff) -> Html | None:
    if diff.old is not None and diff.new is not None:
        return lines_html(full_text(diff.old), full_text(diff.new), "Lines")
    first, text = preview(diff.message, _PREVIEW), full_text(diff.message)
    return element("div", first) if printable(text) == first else unfolding(first, text, _WHOLE)


def lines_html(old: str, new: str, label: str) -> Html | None:
    """Return the changed lines with changed words marked; None if the texts are equal."""
    lines = [_line_html(line) for line in diff_lines(old, new)]
    if not lines:
        return None
    return element("div", lines, class_="tract-lines", tabindex=0, role="region", aria_label=label)


def _line_html(line: DiffLine) -> Html:
    tag = {"+": "ins", "-": "del"}.get(line.sign, "span")
    parts = (element(tag, text) if differs else text for differs, text in line.pieces)
    return element("div", element("span", parts), data_sign=line.sign)


def side_by_side(diff: str, old: str = "Active now", new: str = "Proposed") -> Html:
    """Return a unified diff as two columns with changed words marked, or as one column on a narrow page.

    `old` and `new` are the headings of the columns.
    """
    rows: list[Html] = []
    numbers = [0, 0]
    removed: list[str] = []
    added: list[str] = []

    def flush() -> None:
        for left, right in zip_longest(removed, added):
            left_html, right_html = _marked(left, right)
            rows.append(_side_html("del", 0, left_html, numbers) if left is not None else _NOTHING)
            rows.append(_side_html("add", 1, right_html, numbers) if right is not None else _NOTHING)
        removed.clear()
        added.clear()

    for line in diff.split("\n"):
        sign, text = line[:1], printable(line[1:])
        if line.startswith(("--- ", "+++ ")) and not rows and not removed and not added:
            continue
        hunk = _HUNK.match(line)
        if hunk:
            flush()
            if rows:
                rows.append(element("div", "⋮", class_="gap"))
            numbers[:] = [max(int(hunk[1]) - 1, 0), max(int(hunk[2]) - 1, 0)]
        elif sign == "-":
            removed.append(text)
        elif sign == "+":
            added.append(text)
        else:
            flush()
            same = ((False, text),)
            rows += [_side_html("", 0, same, numbers), _side_html("same-r", 1, same, numbers)]
    flush()
    return two_columns(old, new, rows)


def two_columns(old: str, new: str, rows: HtmlPart, look: str = "diff") -> Html:
    """Return cells, left and right in turn, below the headings of their columns."""
    heads = element("div", old, class_="head del"), element("div", new, class_="head add")
    return element("div", heads, rows, class_=look)


def texts_side_by_side(left: Sequence[DisplayedPiece], right: Sequence[DisplayedPiece]) -> Html:
    """Return the lines of two texts as the cells of two columns, with equal lines aligned and changed words marked.

    The key of each line tells if it was on display.
    """
    rows: list[Html] = []
    numbers = [0, 0]
    for tag, i, i_end, j, j_end in _opcodes(
        [left_line.text for left_line in left], [left_line.text for left_line in right]
    ):
        for left_line, right_line in zip_longest(left[i:i_end], right[j:j_end]):
            x, y = _marked_whole(left_line and left_line.text, right_line and right_line.text)
            looks = ("", "same-r") if tag == "equal" else ("del", "add")
            rows.append(
                _side_html(looks[0], 0, x, numbers, left_line.key) if left_line is not None else _NOTHING
            )
            rows.append(
                _side_html(looks[1], 1, y, numbers, right_line.key) if right_line is not None else _NOTHING
            )
    return fragment(rows)


def _marked_whole(old: str | None, new: str | None) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return two lines with the changes marked. Nothing is cut, because the user has to see all of it."""
    if old is None or new is None or max(len(old), len(new)) > _LINE:
        return ((False, old or ""),), ((False, new or ""),)
    return _marked(old, new)


def changed_words(lines: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
    """Return the columns of changed words in a unified diff, by the index of the line. Lines are paired in order."""
    runs = [(sign, [*run]) for sign, run in groupby(range(len(lines)), lambda index: lines[index][:1])]
    words: dict[int, list[tuple[int, int]]] = {}
    for (removes, old), (adds, new) in pairwise(runs):
        for pair in zip(old, new, strict=False) if (removes, adds) == ("-", "+") else ():
            sides = _marked_whole(*(lines[index][1:] for index in pair))
            for index, pieces in zip(pair, sides, strict=True):
                ends = list(accumulate((len(text) for _, text in pieces), initial=1))
                words[index] = [
                    (ends[n], ends[n + 1]) for n, (differs, text) in enumerate(pieces) if differs and text
                ]
    return words


def _opcodes(left: list[str], right: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Return the steps from one text to the other; a single step if a comparison would take too long."""
    if max(len(left), len(right)) > _MOST_COMPARED:
        return [("replace", 0, len(left), 0, len(right))]
    return list(SequenceMatcher(None, left, right, autojunk=False).get_opcodes())


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NOTHING = element("div", class_="same-r")
"""A line that the other side does not have. A single column does not draw it."""


def _side_html(look: str, side: int, pieces: tuple[Piece, ...], numbers: list[int], key: str = "") -> Html:
    """Return a numbered line of one side, with changes marked."""
    numbers[side] += 1
    tag = "del" if side == 0 else "ins"
    text = fragment(element(tag, text_piece) if differs else text_piece for differs, text_piece in pieces)
    number = element("span", str(numbers[side]), class_="n")
    return element(
        "div", number, element("span", text or " ", class_="c", data_line=key or None), class_=look
    )


def _change_text(diff: MessageDiff, source: str) -> str:
    head = f"{_SIGNS[diff.kind]} {_speakers(diff)} {_commits(diff)}".rstrip()
    lines = [f"{head} · {show_delta(diff.token_delta, source)} tokens", *(f"    {d}" for d in _details(diff))]
    if diff.old is not None and diff.new is not None:
        changes = diff_lines(full_text(diff.old), full_text(diff.new))
        lines += [f"    {line.sign if line.sign != '@' else ' '} {line.text}".rstrip() for line in changes]
        return "\n".join(lines)
    text_lines = printable(full_text(diff.message), _WHOLE).split("\n")
    lines += [f"    {one_line(text, _PREVIEW)}".rstrip() for text in text_lines[:_TEXT_LINES]]
    more = len(text_lines) - _TEXT_LINES
    return "\n".join([*lines, *([f"    ⋮ {more:,} more line{'s' * (more != 1)}"] if more > 0 else [])])


def _speakers(diff: MessageDiff) -> str:
    names = dict.fromkeys(speaker(message) for message in (diff.old, diff.new) if message is not None)
    return " → ".join(names)


def _commits(diff: MessageDiff) -> str:
    hashes = dict.fromkeys(m.commit_hash[:8] for m in (diff.old, diff.new) if m is not None and m.commit_hash)
    return " → ".join(hashes)


def _details(diff: MessageDiff) -> list[str]:
    old, new = diff.old, diff.new
    if old is None or new is None:
        priority = diff.message.priority
        return [] if priority is Priority.NORMAL else [f"priority: {priority}"]
    pairs = [
        ("priority", old.priority.value, new.priority.value),
        ("type", old.content_type, new.content_type),
        ("answers the call", old.tool_call_id, new.tool_call_id),
        ("calls", [call.id for call in old.tool_calls], [call.id for call in new.tool_calls]),
    ]
    names = sorted(old.generation_config.keys() | new.generation_config.keys())
    pairs += [(name, old.generation_config.get(name), new.generation_config.get(name)) for name in names]
    return [f"{one_line(what, 60)}: {_plain(x)} → {_plain(y)}" for what, x, y in pairs if x != y]


def _plain(value: object) -> str:
    return one_line(value, 80) if isinstance(value, str) else _value(value)
