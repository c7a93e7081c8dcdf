"""Differences between two compiled contexts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.commit import APPROXIMATE

if TYPE_CHECKING:
    from tract_jupyter.models.context import Message

DiffKind = Literal["added", "removed", "changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class MessageDiff:
    """The change of one message. `old` is None if it was added, `new` if it was removed."""

    kind: DiffKind
    old: Message | None
    new: Message | None

    @property
    def message(self) -> Message:
        """The new message, or the old one if it was removed."""
        message = self.old if self.new is None else self.new
        if message is None:
            raise ContentError("a difference needs at least one message; pass `old`, `new` or both")
        return message

    @property
    def token_delta(self) -> int:
        """The new message's tokens minus the old message's tokens."""
        return (self.new.token_count if self.new else 0) - (self.old.token_count if self.old else 0)


@dataclass(frozen=True, slots=True)
class DiffStat:
    """The number of messages of each kind, and the difference in tokens."""

    added: int
    removed: int
    changed: int
    unchanged: int
    token_delta: int
    token_source: str

    def __str__(self) -> str:
        counts = [f"+{self.added:,}", f"−{self.removed:,}", f"~{self.changed:,} changed"]  # noqa: RUF001 # a minus
        named = [
            text
            for text, count in zip(counts, (self.added, self.removed, self.changed), strict=True)
            if count
        ]
        if named and (self.added or self.removed):
            first = self.added or self.removed
            named[0] += " message" if first == 1 else " messages"
        return ", ".join(
            [*(named or ["no changes"]), f"{show_delta(self.token_delta, self.token_source)} tokens"]
        )


@dataclass(frozen=True, slots=True)
class DiffResult:
    """The difference between the contexts at `commit_a` and `commit_b`.

    The `old` messages of `message_diffs`, in order, are the context at `commit_a`; the `new` ones are at `commit_b`.
    """

    commit_a: str | None
    """The commit hash of the one context; None if it is empty."""
    commit_b: str | None
    message_diffs: tuple[MessageDiff, ...]
    token_delta: int
    """The tokens of the whole context at `commit_b`, less those at `commit_a`."""
    generation_config_changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """The differences in the model and parameters last used: before and after, None where not set."""
    token_source: str = APPROXIMATE
    """How the tokens were counted."""

    @property
    def stat(self) -> DiffStat:
        """The sums; its text is a line such as `+3 messages, −1, ~2 changed, +123 tokens`."""  # noqa: RUF002 # a minus
        kinds = Counter(diff.kind for diff in self.message_diffs)
        return DiffStat(
            kinds["added"],
            kinds["removed"],
            kinds["changed"],
            kinds["unchanged"],
            self.token_delta,
            self.token_source,
        )

    def __bool__(self) -> bool:
        return bool(self.generation_config_changes) or any(d.kind != "unchanged" for d in self.message_diffs)


def show_delta(delta: int, source: str) -> str:
    """Return a token difference for display, with its sign. An estimate begins with `≈`."""
    if delta == 0:
        return "±0"
    sign = "+" if delta > 0 else "−"  # noqa: RUF001 # a minus
    return f"{'≈' if source == APPROXIMATE else ''}{sign}{abs(delta):,}"
