"""What a run's prompt is made of: each message against the prompt without operations, and who put in what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.runs.model import Piece, Run, RunMessage

    Count = Callable[[str], int]


class Change(StrEnum):
    """How a message relates to the prompt without operations."""

    SAME = "as it was"
    INSERTED = "inserted"
    CHANGED = "changed"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class Part:
    """A message. `before` is its text without operations, where it has changed; `number` counts what is sent from 1."""

    message: RunMessage
    change: Change
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
    def pieces(self) -> tuple[Piece, ...]:
        """The parts of its text, where several are known and make it up."""
        pieces = self.message.pieces
        return pieces if "".join(piece.text for piece in pieces) == self.message.content else ()


@dataclass(frozen=True)
class Inspection:
    """The effective prompt, message by message, with what was left out of it at its end."""

    run_id: str
    parts: tuple[Part, ...]
    source: str = ""

    @property
    def tokens(self) -> int | None:
        """Of what is sent; None where nothing counts them."""
        counts = [part.tokens for part in self.parts if part.number is not None]
        return None if None in counts or not counts else sum(count or 0 for count in counts)

    @property
    def summary(self) -> str:
        """How many messages are new, changed, as they were."""
        sent = sum(part.number is not None for part in self.parts)
        if not self.parts:
            return "no prompt was made"
        counts = {change: sum(part.change is change for part in self.parts) for change in Change}
        told = [
            f"{counts[c]:,} {c.value}"
            for c in (Change.INSERTED, Change.CHANGED, Change.LEFT_OUT)
            if counts[c]
        ]
        same = counts[Change.SAME]
        told += [f"{same:,} as {'it was' if same == 1 else 'they were'}"] if same else []
        return f"{sent:,} message{'s' * (sent != 1)}: {', '.join(told)}"


def inspect_prompt(run: Run, count: Count | None = None, source: str = "") -> Inspection:
    """Compare the prompt of a run with the one without operations.

    Args:
        run: its messages have the same keys in both prompts.
        count: counts the tokens of a text; None where nothing does.
        source: what counted, as the context says it: `approximate` marks numbers as estimates.
    """
    plain: dict[str | None, RunMessage] = {m.key: m for m in run.plain_prompt if m.key is not None}
    return Inspection(run.run_id, tuple(_parts(run, plain, count)), source)


def _parts(run: Run, plain: Mapping[str | None, RunMessage], count: Count | None) -> Iterator[Part]:
    for number, message in enumerate(run.prompt, 1):
        before = plain.get(message.key)
        tokens = count(message.content) if count else None
        each = tuple(count(piece.text) for piece in message.pieces) if count else ()
        yield Part(message, _change(message, before), number, before.content if before else "", tokens, each)
    if run.prompt:
        kept = {message.key for message in run.prompt}
        yield from (Part(m, Change.LEFT_OUT, None) for key, m in plain.items() if key not in kept)


def _change(message: RunMessage, before: RunMessage | None) -> Change:
    if before is None:
        # one without a key cannot be compared; its label tells where it is from
        return Change.INSERTED if message.key is not None or message.label else Change.SAME
    same = before.content == message.content and before.role == message.role
    return Change.SAME if same else Change.CHANGED
