"""What the commits of version 1 stand for: which of them a branch holds, and how large the context is at each."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.exceptions import StoreCorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SKIP: Final = "skip"
NORMAL: Final = "normal"
_DEFAULTS: Final = {"instruction": "pinned", "session": "pinned", "reasoning": SKIP}
# what a chat format adds around a message, and around all of them
_PER_MESSAGE: Final = 4
_PER_CONTEXT: Final = 3


class Commit(NamedTuple):
    """What of a commit matters here."""

    commit_hash: str
    parent_hash: str | None
    content_type: str
    operation: str
    edit_target: str | None
    token_count: int
    generation: int
    created_at: str
    priority: str | None = None


class Size(NamedTuple):
    """Of a context: bare tokens of its messages, and how many those are."""

    tokens: int = 0
    messages: int = 0

    @property
    def context_tokens(self) -> int:
        """With what a chat format adds."""
        return self.tokens + _PER_MESSAGE * self.messages + _PER_CONTEXT if self.messages else 0


class _Message(NamedTuple):
    tokens: int
    shows: bool


def default_priority(content_type: str) -> str:
    """The priority of a commit that nobody gave another."""
    return _DEFAULTS.get(content_type, NORMAL)


def history(commits: Mapping[str, Commit], tip: str) -> Iterator[Commit]:
    """The commit `tip` and its parents, newest first.

    Raises:
        StoreCorruptError: one of them is missing.
    """
    current: str | None = tip
    while current is not None:
        commit = commits.get(current)
        if commit is None:
            raise StoreCorruptError(
                f"the history of {tip[:12]} has a gap, so the store cannot be upgraded; nothing was changed. "
                "Restore a backup."
            )
        yield commit
        current = commit.parent_hash


def sizes(commits: Mapping[str, Commit]) -> Iterator[tuple[str, Size]]:
    """Give the size of the context at every commit.

    Walks the tree of histories once, taking changes back on the way from one branch to the next.
    """
    children: defaultdict[str | None, list[Commit]] = defaultdict(list)
    for commit in commits.values():
        children[commit.parent_hash].append(commit)
    messages: dict[str, _Message] = {}
    steps: list[tuple[Commit, Size] | tuple[str, _Message | None]] = [(c, Size()) for c in children[None]]
    while steps:
        step = steps.pop()
        if isinstance(step[0], Commit):
            commit, before = step
            key, old, new = _change(commit, messages)
            size = _resized(before, old, new)
            yield commit.commit_hash, size
            steps.append((key, old))
            if new is not None:
                messages[key] = new
            steps.extend((child, size) for child in children[commit.commit_hash])
        else:
            key, old = step
            messages.pop(key, None)
            if old is not None:
                messages[key] = old


def _change(commit: Commit, messages: Mapping[str, _Message]) -> tuple[str, _Message | None, _Message | None]:
    """Which message a commit changes: its key, what it was, what it becomes."""
    if commit.operation == "append":
        shows = (commit.priority or default_priority(commit.content_type)) != SKIP
        return commit.commit_hash, None, _Message(commit.token_count, shows)
    key = commit.edit_target or ""
    old = messages.get(key)
    if old is None:
        return key, None, None
    tokens = commit.token_count if commit.operation == "edit" else old.tokens
    return key, old, _Message(tokens, old.shows if commit.priority is None else commit.priority != SKIP)


def _resized(size: Size, old: _Message | None, new: _Message | None) -> Size:
    tokens, messages = size
    for message, sign in ((old, -1), (new, 1)):
        if message is not None and message.shows:
            tokens, messages = tokens + sign * message.tokens, messages + sign
    return Size(tokens, messages)
