"""Plans, costs and results of compression, expansion, and of skipping or shortening tool results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.commit import show_tokens
from tract_jupyter.models.text import counted

if TYPE_CHECKING:
    from tract_jupyter.models.context import CompiledContext, Message
    from tract_jupyter.models.diff import DiffResult


COMPRESSED_FROM: Final = "compressed_from"
"""The metadata of a summary that names the original history and commits."""


@dataclass(frozen=True, slots=True)
class CompressGroup:
    """Adjacent messages that one summary replaces."""

    commits: tuple[str, ...]
    """Their commits in order, with the skipped ones among them."""
    messages: tuple[Message, ...]
    """The compiled messages."""
    criteria: tuple[dict[str, Any], ...] = ()
    """The parts of important messages that the summary must keep: `instructions`, `match_patterns`, `match_mode`."""

    @property
    def tokens(self) -> int:
        """The tokens of the messages."""
        return sum(message.token_count for message in self.messages)


_CACHED_READ: Final = 0.1
"""The price of a cached token, as a fraction of the price of an input token: 0.1 with Anthropic
(https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching), and 0.1 to 0.5 with other providers, depending on
the model (https://platform.openai.com/docs/pricing)."""
_OUTPUT_PRICE: Final = 5.0
"""The price of an output token, as a multiple of the price of an input token: with Anthropic's models
(https://www.anthropic.com/pricing)."""


@dataclass(frozen=True, slots=True)
class Price:
    """The cost and the savings of a compression. All counts are tokens.

    Providers cache a prompt up to the first token that differs from the last request, and bill cached tokens at a
    fraction of the input price. A compression makes every request shorter, but the provider must read everything after
    the first summary again once.
    """

    saved_per_call: int
    cache_kept: int
    """The tokens before the first change, which are still read from the cache."""
    broken_index: int
    """The place of the first message that changes."""
    broken_commit: str
    """Its commit."""
    read_anew: int
    """The tokens that the next call reads at the full price: the first summary and all after it."""
    summarizer_input: int
    """The tokens that a summarizer reads; 0 if the caller provides the summaries."""
    summarizer_output: int
    """The tokens that a summarizer writes; an estimate."""
    token_source: str

    @property
    def once(self) -> float:
        """The cost of the compression, in input tokens at the full price."""
        reread = self.read_anew * (1 - _CACHED_READ)
        return reread + self.summarizer_input + self.summarizer_output * _OUTPUT_PRICE

    @property
    def pays_back_after(self) -> int | None:
        """The number of calls after which the savings exceed the cost; None if they never do."""
        gained = self.saved_per_call * _CACHED_READ
        return max(1, math.ceil(self.once / gained)) if gained > 0 else None

    def __str__(self) -> str:
        def shown(tokens: int) -> str:
            return show_tokens(tokens, self.token_source)

        if self.saved_per_call >= 0:
            saved = f"saves {shown(self.saved_per_call)} tokens per call"
        else:
            saved = f"costs {shown(-self.saved_per_call)} tokens more per call"
        parts = [
            saved,
            f"breaks the cache at message {self.broken_index} ({self.broken_commit[:8]})",
            f"{shown(self.read_anew)} tokens are read again once",
        ]
        if self.summarizer_input:
            parts.append(
                f"the summarizer reads {shown(self.summarizer_input)} and writes ≈{self.summarizer_output:,}"
            )
        calls = self.pays_back_after
        back = "never pays back" if calls is None else f"pays back after {calls:,} call{'s' * (calls > 1)}"
        return "; ".join([*parts, back])


@dataclass(frozen=True, slots=True)
class CompressPlan:
    """The plan of a compression. Nothing is written yet."""

    branch: str
    head: str
    groups: tuple[CompressGroup, ...]
    preserved: tuple[str, ...]
    """The commits of the range that stay word for word: pinned, or named in `preserve`."""
    skipped: tuple[str, ...]
    """The skipped commits that go with the groups. They stay addressable by hash, and in the original history."""
    price: Price
    before: CompiledContext
    after: CompiledContext
    """The context after the compression. A missing summary is a placeholder with an estimate of its tokens."""
    diff: DiffResult
    """The difference between `before` and `after`."""
    is_estimate: bool
    """True if summaries are not written yet."""

    def __str__(self) -> str:
        count = sum(len(group.messages) for group in self.groups)
        summaries = "1 summary" if len(self.groups) == 1 else f"{len(self.groups)} summaries"
        messages = "1 message becomes" if count == 1 else f"{count:,} messages become"
        preserved = f", {len(self.preserved)} preserved" if self.preserved else ""
        return f"{messages} {summaries}{preserved}: {self.price}"


@dataclass(frozen=True, slots=True)
class CompressResult:
    """The result of a compression."""

    branch: str
    old_head: str
    """The end of the original history. `checkout` it, or `expand` a summary."""
    new_head: str
    source_commits: tuple[tuple[str, ...], ...]
    """The original commits of each summary."""
    summary_commits: tuple[str, ...]
    """The commit of each summary."""
    preserved_commits: tuple[str, ...]
    """The original commits of the range that stayed. `copies` has their new hashes."""
    copies: dict[str, str]
    """The new hash of each copied commit."""
    tokens_before: int
    """The tokens of the whole context before."""
    tokens_after: int
    token_source: str

    @property
    def saved(self) -> int:
        """The tokens by which the context shrinks."""
        return self.tokens_before - self.tokens_after

    def __str__(self) -> str:
        before, after = (
            show_tokens(count, self.token_source) for count in (self.tokens_before, self.tokens_after)
        )
        count = sum(len(group) for group in self.source_commits)
        summaries = "1 summary" if len(self.source_commits) == 1 else f"{len(self.source_commits)} summaries"
        return f"{self.branch}: {counted(count, 'commit')} became {summaries}, {before} → {after} tokens"


@dataclass(frozen=True, slots=True)
class ExpandResult:
    """The messages that replaced a summary."""

    branch: str
    old_head: str
    new_head: str
    summary_commit: str
    """The commit that was expanded."""
    restored: tuple[str, ...]
    """The commits of the restored messages, in order. They are copies of the originals."""
    copies: dict[str, str]
    """The new hash of each copied commit, including originals."""
    tokens_before: int
    """The tokens of the whole context before."""
    tokens_after: int

    def __str__(self) -> str:
        restored = counted(len(self.restored), "message")
        tokens = f"{self.tokens_before:,} → {self.tokens_after:,} tokens"
        return f"{self.branch}: a summary became {restored} again, {tokens}"


@dataclass(frozen=True, slots=True)
class GCResult:
    """The removed commits; with `dry_run`, the commits to remove."""

    commits: tuple[str, ...]
    """The removed commits, oldest first."""
    blobs: int
    """The number of unused contents and tool schemas."""
    bytes: int
    """Their size. The store reuses the space, but its file does not shrink."""
    tokens: int
    """The tokens of the removed commits, as they were counted."""
    reflog_entries: int
    """The recorded moves that led to removed commits."""
    dry_run: bool = False

    def __str__(self) -> str:
        verb = "would remove" if self.dry_run else "removed"
        commits = f"{counted(len(self.commits), 'commit')} ({self.tokens:,} tokens)"
        return f"{verb} {commits} and {counted(self.blobs, 'content')} ({self.bytes:,} bytes)"


@dataclass(frozen=True, slots=True)
class ToolCompactResult:
    """The answers that are shorter now."""

    commits: tuple[str, ...]
    """The answers."""
    edits: tuple[str, ...]
    """The edit of each."""
    tokens: int
    """The tokens by which the context shrinks."""

    def __str__(self) -> str:
        return f"shortened {counted(len(self.commits), 'tool result')}, {self.tokens:,} tokens fewer"
