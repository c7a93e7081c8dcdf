"""The prompt of a run, message by message, compared with the prompt without operations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from tract_jupyter.context import default_counter
from tract_jupyter.models import cut, one_line, printable, show_tokens
from tract_jupyter.notebook.runs.pictures import run_page
from tract_jupyter.notebook.views.context import unfolding
from tract_jupyter.notebook.views.diff import diff_lines, lines_html
from tract_jupyter.notebook.views.html import View, element, fragment, heading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tract_jupyter.models import Attachment
    from tract_jupyter.notebook.views.html import Html, HtmlPart
    from tract_jupyter.runs import MessagePiece, Run, RunMessage
    from tract_jupyter.tract import Tract

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
    """A message. `before` is its text without operations if it differs; `number` counts sent messages from 1."""

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
        label = [self.message.label] if self.message.label else []
        return tuple(dict.fromkeys(inner or label))

    @property
    def pieces(self) -> tuple[MessagePiece, ...]:
        """The parts of its text if they are known and complete."""
        pieces = self.message.pieces
        return pieces if "".join(piece.text for piece in pieces) == self.message.content else ()


@dataclass(frozen=True)
class Inspection:
    """The effective prompt, message by message. Omitted messages come last."""

    run_id: str
    parts: tuple[ComparedMessage, ...]
    source: str = ""

    @property
    def tokens(self) -> int | None:
        """The tokens of all sent messages; None without a counter."""
        counts = [part.tokens for part in self.parts if part.number is not None]
        return None if None in counts or not counts else sum(count or 0 for count in counts)

    @property
    def summary(self) -> str:
        """The number of sent messages, and the numbers of added, changed, omitted and unchanged ones."""
        sent = sum(part.number is not None for part in self.parts)
        if not self.parts:
            return "no prompt was made"
        counts = {change: sum(part.change is change for part in self.parts) for change in MessageChange}
        parts = [
            f"{counts[c]:,} {c.value}"
            for c in (
                MessageChange.INSERTED,
                MessageChange.CHANGED,
                MessageChange.LEFT_OUT,
                MessageChange.SAME,
            )
            if counts[c]
        ]
        return f"{sent:,} message{'s' * (sent != 1)}: {', '.join(parts)}"


def inspect_prompt(
    run: Run,
    count: Count | None = None,
    source: str = "",
    attached: Attached = lambda _: 0,
) -> Inspection:
    """Compare the prompt of a run with the prompt without operations.

    Args:
        run: the run. Messages have the same keys in both prompts.
        count: counts the tokens of a text; None for no counts.
        source: the name of the counter. `approximate` marks numbers as estimates.
        attached: counts the tokens of attachments.
    """
    plain: dict[str | None, RunMessage] = {m.key: m for m in run.plain_prompt if m.key is not None}
    return Inspection(run.run_id, tuple(_parts(run, plain, count, attached)), source)


def inspected(run: Run, tract: Tract | None = None) -> Inspection:
    """Return the prompt of a run, compared with the prompt without operations, with token counts."""
    if tract is None:
        counter = default_counter()
        return inspect_prompt(run, counter.count_text, counter.name)
    count = tract.tokenizer.count_text
    return inspect_prompt(
        run, lambda text: tract.corrected(count(text)), tract.tokenizer.name, tract.attachment_tokens
    )


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
        keys = {message.key for message in run.prompt}
        yield from (
            ComparedMessage(m, MessageChange.LEFT_OUT, None) for key, m in plain.items() if key not in keys
        )


def _change(message: RunMessage, before: RunMessage | None) -> MessageChange:
    if before is None:
        # a message without a key cannot be compared, but its label shows the origin
        return MessageChange.INSERTED if message.key is not None or message.label else MessageChange.SAME
    same = before.content == message.content and before.role == message.role
    return MessageChange.SAME if same else MessageChange.CHANGED


_WHOLE = 10_000
_LONG = 400
_LONG_LINES = 8
_LINE = 100
_BLANK = "\n"  # joins the parts of a message
_NAME = 60
_NAMED = 6
_EDGE = 2  # the number of unchanged messages at either end of a fold
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
    """The view of an inspection."""

    inspection: Inspection

    def to_html(self) -> Html:
        """Return the prompt as self-contained HTML."""
        title = heading(f"Prompt of run {self.inspection.run_id[:8]}", self.headline)
        return run_page((title, self.body_html()), "Prompt", "tract-prompt")

    def body_html(self) -> Html:
        """Return only the messages."""
        return fragment(
            _folded_html(parts, self._source) if is_same else [_part_html(p, self._source) for p in parts]
            for is_same, parts in _runs(self.inspection.parts)
        )

    def to_text(self) -> str:
        """Return the messages with the start of their texts, and the changed lines."""
        lines = [f"Prompt of run {self.inspection.run_id[:8]}: {self.headline}"]
        for is_same, parts in _runs(self.inspection.parts):
            texts = [_part_text(part, self._source) for part in parts]
            if is_same and len(parts) > 2 * _EDGE + 1:
                texts = [*texts[:_EDGE], f"  ⋮ {_fold_note(len(parts) - 2 * _EDGE)}", *texts[-_EDGE:]]
            lines += texts
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """The summary, with the tokens if they are known."""
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


def _folded_html(parts: list[ComparedMessage], source: str) -> HtmlPart:
    items = [_part_html(part, source) for part in parts]
    if len(parts) <= 2 * _EDGE + 1:
        return items
    summary = element("summary", f"⋮ {_fold_note(len(parts) - 2 * _EDGE)}")
    fold = element("details", summary, items[_EDGE:-_EDGE], class_="tract-fold")
    return [*items[:_EDGE], fold, *items[-_EDGE:]]


def _part_html(part: ComparedMessage, source: str) -> Html:
    role = part.message.role if part.message.role in _ROLES else "other"
    head = element(
        "div",
        None if part.number is None else element("span", f"{part.number:,}", class_="tract-dim"),
        element("span", one_line(part.message.role, _NAME), class_=f"tract-role tract-{role}"),
        _origin_html(part),
        None if part.tokens is None else _tokens_html(part.tokens, source),
        class_="tract-head",
    )
    return element("div", head, _body_html(part, source), class_=f"tract-part tract-{_CSS[part.change]}")


def _tokens_html(tokens: int, source: str, before: str = "") -> Html:
    return element("span", f"{before}{show_tokens(tokens, source)} tokens", class_="tract-dim")


def _origin_html(part: ComparedMessage) -> Html | None:
    if part.change is MessageChange.SAME:
        return None
    by = [(" ", element("code", label)) for label in _labels(part)]
    return element("span", part.change.value, " by" if by else None, by, class_="tract-origin")


def _labels(part: ComparedMessage) -> list[str]:
    names = [one_line(label, _NAME) for label in part.labels]
    return names[:_NAMED] + ([f"and {len(names) - _NAMED:,} more"] if len(names) > _NAMED else [])


def _body_html(part: ComparedMessage, source: str) -> HtmlPart:
    text = part.message.content
    named = [element("p", element("code", str(attachment))) for attachment in part.message.attachments]
    if part.change is not MessageChange.CHANGED:
        return named, _text_html(text) if text or not named else None
    return named, _changed_html(part, text, source)


def _changed_html(part: ComparedMessage, text: str, source: str) -> HtmlPart:
    pieces = _pieces_html(part, source)
    diff = lines_html(part.before, text, "Difference")
    if not pieces:
        return diff, _whole("Full text", text)
    summary = element("summary", "Difference from the prompt without operations")
    return pieces, element("details", summary, diff)


def _pieces_html(part: ComparedMessage, source: str) -> list[Html]:
    """Return the parts of the text, each with the operation that wrote it."""
    counts: Sequence[int | None] = part.piece_tokens or [None] * len(part.pieces)
    items = []
    for piece, count in zip(part.pieces, counts, strict=True):
        if not piece.text.strip():
            continue
        tokens = None if count is None else _tokens_html(count, source, " ")
        label = element("code", one_line(piece.label, _NAME)) if piece.label else "unchanged"
        head = element("div", label, tokens, class_="tract-from")
        look = ("tract-piece", "tract-by" if piece.label else "")
        items.append(element("div", head, _text_html(piece.text.strip(_BLANK)), class_=look))
    return items


def _text_html(text: str) -> Html:
    """Return the text. A long text unfolds."""
    if not text:
        return element("p", "empty", class_="tract-dim")
    if len(text) <= _LONG and text.count("\n") < _LONG_LINES:
        return element("pre", text)
    lines = text.strip().splitlines()
    return _whole(one_line(lines[0] if lines else "blank", _LINE), text)


def _whole(summary: str, text: str) -> Html:
    count = element("span", f" ({len(text):,} characters)", class_="tract-dim")
    return unfolding((summary, count), text, _WHOLE)


def _part_text(part: ComparedMessage, source: str) -> str:
    number = "" if part.number is None else f"{part.number:,}"
    by = f" by {', '.join(_labels(part))}" if part.change is not MessageChange.SAME and part.labels else ""
    origin = "" if part.change is MessageChange.SAME else f"  {part.change.value}{by}"
    tokens = "" if part.tokens is None else f"  {show_tokens(part.tokens, source)} tokens"
    head = (
        f"{_SIGNS[part.change]} {number:>3} {one_line(part.message.role, _NAME):<9}{origin}{tokens}".rstrip()
    )
    if part.change is MessageChange.CHANGED:
        changes = diff_lines(part.before, part.message.content)
        lines = [f"{line.sign if line.sign != '@' else ' '} {line.text}" for line in changes]
    else:
        lines = printable(part.message.content, _WHOLE).strip().split("\n")
    lines = [*map(str, part.message.attachments), *lines]
    change_lines = [
        f"      {cut(text, _LINE)}".rstrip()
        for text in lines[: 4 * _TEXT_LINES if part.labels else _TEXT_LINES]
    ]
    more = len(lines) - len(change_lines)
    return "\n".join(
        [head, *change_lines, *([f"      ⋮ {more:,} more line{'s' * (more != 1)}"] if more else [])]
    )
