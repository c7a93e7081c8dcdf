"""The prompt of a run, message by message, compared with the prompt without operations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from tract_jupyter.models import cut, more_characters, one_line, printable, show_tokens
from tract_jupyter.notebook.views.diff import diff_lines, line_html
from tract_jupyter.notebook.views.html import OWN_KEYS, View, escaped, heading, root_html, style_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.models import Attachment
    from tract_jupyter.runs import MessagePiece, Run, RunMessage

    Count = Callable[[str], int]
    Attached = Callable[[Sequence[Attachment]], int]


class MessageChange(StrEnum):
    """The relation of a message to the prompt without operations."""

    SAME = "unchanged"
    INSERTED = "added"
    CHANGED = "changed"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class ComparedMessage:
    """A message. `before` is its text without operations, where it has changed; `number` counts what is sent from 1."""

    message: RunMessage
    change: MessageChange
    number: int | None
    before: str = ""
    tokens: int | None = None
    piece_tokens: tuple[int, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The operations that it comes from, each once."""
        inner = [piece.label for piece in self.message.pieces if piece.label]
        own = [self.message.label] if self.message.label else []
        return tuple(dict.fromkeys(inner or own))

    @property
    def pieces(self) -> tuple[MessagePiece, ...]:
        """The parts of its text, where several are known and make it up."""
        pieces = self.message.pieces
        return pieces if "".join(piece.text for piece in pieces) == self.message.content else ()


@dataclass(frozen=True)
class Inspection:
    """The effective prompt, message by message, with what was left out of it at its end."""

    run_id: str
    parts: tuple[ComparedMessage, ...]
    source: str = ""

    @property
    def tokens(self) -> int | None:
        """The tokens of what is sent; None where nothing counts them."""
        counts = [part.tokens for part in self.parts if part.number is not None]
        return None if None in counts or not counts else sum(count or 0 for count in counts)

    @property
    def summary(self) -> str:
        """The numbers of messages that are sent, and of those that are new, changed, left out and unchanged."""
        sent = sum(part.number is not None for part in self.parts)
        if not self.parts:
            return "no prompt was made"
        counts = {change: sum(part.change is change for part in self.parts) for change in MessageChange}
        told = [
            f"{counts[c]:,} {c.value}"
            for c in (
                MessageChange.INSERTED,
                MessageChange.CHANGED,
                MessageChange.LEFT_OUT,
                MessageChange.SAME,
            )
            if counts[c]
        ]
        return f"{sent:,} message{'s' * (sent != 1)}: {', '.join(told)}"


def inspect_prompt(
    run: Run,
    count: Count | None = None,
    source: str = "",
    attached: Attached = lambda _: 0,
) -> Inspection:
    """Compare the prompt of a run with the one without operations.

    Args:
        run: its messages have the same keys in both prompts.
        count: counts the tokens of a text; None where nothing does.
        source: what counted, as the context says it: `approximate` marks numbers as estimates.
        attached: counts the tokens of attachments.
    """
    plain: dict[str | None, RunMessage] = {m.key: m for m in run.plain_prompt if m.key is not None}
    return Inspection(run.run_id, tuple(_parts(run, plain, count, attached)), source)


def _parts(
    run: Run, plain: Mapping[str | None, RunMessage], count: Count | None, attached: Attached
) -> Iterator[ComparedMessage]:
    for number, message in enumerate(run.prompt, 1):
        before = plain.get(message.key)
        tokens = count(message.content) + attached(message.attachments) if count else None
        each = tuple(count(piece.text) for piece in message.pieces) if count else ()
        yield ComparedMessage(
            message, _change(message, before), number, before.content if before else "", tokens, each
        )
    if run.prompt:
        kept = {message.key for message in run.prompt}
        yield from (
            ComparedMessage(m, MessageChange.LEFT_OUT, None) for key, m in plain.items() if key not in kept
        )


def _change(message: RunMessage, before: RunMessage | None) -> MessageChange:
    if before is None:
        # one without a key cannot be compared; its label tells where it is from
        return MessageChange.INSERTED if message.key is not None or message.label else MessageChange.SAME
    same = before.content == message.content and before.role == message.role
    return MessageChange.SAME if same else MessageChange.CHANGED


_WHOLE = 10_000
_LONG = 400
_LONG_LINES = 8
_LINE = 100
_BLANK = "\n"  # around a part of a message: what joins it to the others
_NAME = 60
_NAMED = 6
_EDGE = 2  # of a run of messages that are as they were, so many are shown at either end
_TEXT_LINES = 6
_CSS = {
    MessageChange.SAME: "same",
    MessageChange.INSERTED: "added",
    MessageChange.CHANGED: "changed",
    MessageChange.LEFT_OUT: "removed",
}
_SIGNS = {
    MessageChange.SAME: " ",
    MessageChange.INSERTED: "+",
    MessageChange.CHANGED: "~",
    MessageChange.LEFT_OUT: "−",  # noqa: RUF001 # a minus
}
_ROLES = {"system", "user", "assistant", "tool"}


@dataclass(frozen=True)
class PromptView(View):
    """An inspection, shown."""

    inspection: Inspection

    def to_html(self) -> str:
        """Return a part of a page that stands alone, everything escaped."""
        title = heading(f"Prompt of run {self.inspection.run_id[:8]}", 3, self.headline)
        styles = style_tag("views/views.css", "views/runs.css")
        named = 'data-testid="tract-prompt" aria-label="Prompt"'
        return styles + root_html(
            f"{title}{self.body_html()}", "tract-views tract-run", tag="section", attributes=named
        )

    def body_html(self) -> str:
        """Return the messages alone."""
        return "".join(
            _folded_html(parts, self._source)
            if is_same
            else "".join(_part_html(p, self._source) for p in parts)
            for is_same, parts in _runs(self.inspection.parts)
        )

    def to_text(self) -> str:
        """Return the messages with the beginnings of their texts, and the lines that changed."""
        lines = [f"Prompt of run {self.inspection.run_id[:8]}: {self.headline}"]
        for is_same, parts in _runs(self.inspection.parts):
            shown = [_part_text(part, self._source) for part in parts]
            if is_same and len(parts) > 2 * _EDGE + 1:
                shown = [*shown[:_EDGE], f"  ⋮ {_fold_note(len(parts) - 2 * _EDGE)}", *shown[-_EDGE:]]
            lines += shown
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """The summary, with the tokens where they are known."""
        tokens = self.inspection.tokens
        return self.inspection.summary + (
            "" if tokens is None else f"; {show_tokens(tokens, self._source)} tokens"
        )

    @property
    def _source(self) -> str:
        return self.inspection.source


def _runs(parts: Sequence[ComparedMessage]) -> Iterator[tuple[bool, list[ComparedMessage]]]:
    for is_same, run in groupby(parts, lambda part: part.change is MessageChange.SAME):
        yield is_same, list(run)


def _fold_note(count: int) -> str:
    return f"{count:,} more unchanged messages"


def _folded_html(parts: list[ComparedMessage], source: str) -> str:
    drawn = [_part_html(part, source) for part in parts]
    if len(parts) <= 2 * _EDGE + 1:
        return "".join(drawn)
    inner = "".join(drawn[_EDGE:-_EDGE])
    note = _fold_note(len(parts) - 2 * _EDGE)
    fold = f'<details class="tract-fold"><summary {OWN_KEYS}>⋮ {note}</summary>{inner}</details>'
    return "".join([*drawn[:_EDGE], fold, *drawn[-_EDGE:]])


def _part_html(part: ComparedMessage, source: str) -> str:
    role = part.message.role if part.message.role in _ROLES else "other"
    number = "" if part.number is None else f'<span class="tract-dim">{part.number:,}</span>'
    tokens = (
        ""
        if part.tokens is None
        else f'<span class="tract-dim">{show_tokens(part.tokens, source)} tokens</span>'
    )
    head = (
        f'<div class="tract-head">{number}<span class="tract-role tract-{role}">'
        f"{escaped(one_line(part.message.role, _NAME))}</span>{_origin_html(part)}{tokens}</div>"
    )
    return f'<div class="tract-part tract-{_CSS[part.change]}">{head}{_body_html(part, source)}</div>'


def _origin_html(part: ComparedMessage) -> str:
    if part.change is MessageChange.SAME:
        return ""
    by = "".join(f" <code>{escaped(label)}</code>" for label in _labels(part))
    return f'<span class="tract-origin">{part.change.value}{" by" if by else ""}{by}</span>'


def _labels(part: ComparedMessage) -> list[str]:
    names = [one_line(label, _NAME) for label in part.labels]
    return names[:_NAMED] + ([f"and {len(names) - _NAMED:,} more"] if len(names) > _NAMED else [])


def _body_html(part: ComparedMessage, source: str) -> str:
    text = part.message.content
    named = "".join(f"<p><code>{escaped(str(one))}</code></p>" for one in part.message.attachments)
    if part.change is not MessageChange.CHANGED:
        return named + (_text_html(text) if text or not named else "")
    return named + _changed_html(part, text, source)


def _changed_html(part: ComparedMessage, text: str, source: str) -> str:
    pieces = _pieces_html(part, source)
    lines = "".join(map(line_html, diff_lines(part.before, text)))
    diff = (
        f'<div class="tract-lines" {OWN_KEYS} tabindex="0" role="region" aria-label="Difference">{lines}</div>'
        if lines
        else ""
    )
    if not pieces:
        return diff + _whole("Full text", text)
    summary = f"<summary {OWN_KEYS}>Difference from the prompt without operations</summary>"
    return f"{pieces}<details>{summary}{diff}</details>"


def _pieces_html(part: ComparedMessage, source: str) -> str:
    """Return the parts of the text one below the other, each with the operation it is from."""
    counts: Sequence[int | None] = part.piece_tokens or [None] * len(part.pieces)
    drawn = []
    for piece, count in zip(part.pieces, counts, strict=True):
        if not piece.text.strip():
            continue
        tokens = (
            "" if count is None else f'<span class="tract-dim"> {show_tokens(count, source)} tokens</span>'
        )
        label = f"<code>{escaped(one_line(piece.label, _NAME))}</code>" if piece.label else "unchanged"
        css = "tract-piece tract-by" if piece.label else "tract-piece"
        text = _text_html(piece.text.strip(_BLANK))
        drawn.append(f'<div class="{css}"><div class="tract-from">{label}{tokens}</div>{text}</div>')
    return "".join(drawn)


def _text_html(text: str) -> str:
    """Return the text; a long one opens."""
    if not text:
        return '<p class="tract-dim">empty</p>'
    if len(text) <= _LONG and text.count("\n") < _LONG_LINES:
        return f"<pre>{escaped(text)}</pre>"
    lines = text.strip().splitlines()
    return _whole(one_line(lines[0] if lines else "blank", _LINE), text)


def _whole(summary: str, text: str) -> str:
    more = more_characters(text, _WHOLE)
    note = f'<p class="tract-dim">{more}</p>' if more else ""
    count = f'<span class="tract-dim"> ({len(text):,} characters)</span>'
    return (
        f"<details><summary {OWN_KEYS}>{escaped(summary)}{count}</summary>"
        f"<pre>{escaped(text[:_WHOLE])}</pre>{note}</details>"
    )


def _part_text(part: ComparedMessage, source: str) -> str:
    number = "" if part.number is None else f"{part.number:,}"
    by = f" by {', '.join(_labels(part))}" if part.change is not MessageChange.SAME and part.labels else ""
    origin = "" if part.change is MessageChange.SAME else f"  {part.change.value}{by}"
    tokens = "" if part.tokens is None else f"  {show_tokens(part.tokens, source)} tokens"
    head = (
        f"{_SIGNS[part.change]} {number:>3} {one_line(part.message.role, _NAME):<9}{origin}{tokens}".rstrip()
    )
    if part.change is MessageChange.CHANGED:
        drawn = diff_lines(part.before, part.message.content)
        lines = [f"{line.sign if line.sign != '@' else ' '} {line.text}" for line in drawn]
    else:
        lines = printable(part.message.content, _WHOLE).strip().split("\n")
    lines = [*map(str, part.message.attachments), *lines]
    shown = [
        f"      {cut(text, _LINE)}".rstrip()
        for text in lines[: 4 * _TEXT_LINES if part.labels else _TEXT_LINES]
    ]
    more = len(lines) - len(shown)
    return "\n".join([head, *shown, *([f"      ⋮ {more:,} more line{'s' * (more != 1)}"] if more else [])])
