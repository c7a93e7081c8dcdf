"""The inherited messages of a spawned child: a full history, a selection, or a snapshot as one text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tract_jupyter.context.ancestry import retained
from tract_jupyter.context.timeline import Timeline
from tract_jupyter.exceptions import (
    CommitNotFoundError,
    SessionError,
)
from tract_jupyter.models import (
    CommitInfo,
    Priority,
    canonical_json,
)
from tract_jupyter.storage import (
    APPEND,
    MERGE,
    Draft,
    Entry,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models import Message
    from tract_jupyter.storage import Lineage

    Item = Entry | Draft


Selector: TypeAlias = Callable[[CommitInfo], object] | Collection[str]
"""The messages to inherit: a function of a `CommitInfo` that returns True or False, or names of tags and commits."""


class ParentHistory:
    """The history of one commit, read once.

    Args:
        lineage: the commit's history.
        added: the tags that were added after the commits.
    """

    def __init__(self, lineage: Lineage[Entry], added: dict[str, tuple[str, ...]]) -> None:
        self.rows = lineage.rows
        self.merged = lineage.merged
        self.timeline = Timeline([row.step() for row in self.rows], lineage.merged)
        self.added = added
        self._by_hash = {row.commit_hash: row for row in self.rows}
        self._retention = retained(self.rows)

    @property
    def head(self) -> Entry:
        """The newest commit."""
        return self.rows[-1]

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the context."""
        return self.timeline.context().messages

    def priority(self, entry: Entry) -> Priority:
        """Return the effective priority."""
        return self.timeline.priority(self.timeline.steps[self.timeline.place[entry.commit_hash]])

    def criteria(self, message: Message) -> dict[str, Any] | None:
        """Return the retention criteria of an important message; None for others."""
        return self._retention.get(message.commit_hash) if message.priority is Priority.IMPORTANT else None

    def with_tools(self, drafts: list[Draft]) -> list[Draft]:
        """Return the drafts, with the current tools linked to the last one."""
        tools = self.timeline.tools_hash
        if not drafts or tools is None:
            return drafts
        return [*drafts[:-1], drafts[-1]._replace(tools_hash=tools)]

    def tags(self) -> dict[str, set[str]]:
        """Return the tags of each message and of its edits."""
        tags: defaultdict[str, set[str]] = defaultdict(set)
        for row in self.rows:
            of = row.edit_target or row.commit_hash
            tags[of].update(row.tags, self.added.get(row.commit_hash, ()))
        return tags

    def message(self, name: str, resolve: Callable[[str], str]) -> str:
        """Return the message for a name; for an edit, the edited message.

        Raises:
            CommitNotFoundError: the name is not a message of this history.
        """
        entry = self._by_hash.get(resolve(name))
        target = self._by_hash.get(entry.edit_target) if entry and entry.edit_target else entry
        if target is None or target.operation != APPEND:
            raise CommitNotFoundError(f"{name!r} is not a message of this history; log() lists its messages")
        return target.commit_hash

    def everything(self) -> list[Entry]:
        """Return all commits except merges. The merged commits are part of the history."""
        return [row for row in self.rows if row.operation != MERGE]

    def selected(self, select: Selector, resolve: Callable[[str], str]) -> list[Entry]:
        """Return the selected messages with their edits and annotations.

        Args:
            select: a function that returns True for the messages to inherit, or names of tags or commits.
            resolve: returns the hash for a name of a commit.

        Raises:
            SessionError: nothing is selected.
            CommitNotFoundError: a name is neither a tag nor a message.
        """
        chosen = self._fitting(select) if callable(select) else self._named(select, resolve)
        if not chosen:
            raise SessionError(
                "no message is selected, so the child would inherit nothing; select at least one message"
            )
        return [row for row in self.everything() if (row.edit_target or row.commit_hash) in chosen]

    def _fitting(self, fits: Callable[[CommitInfo], object]) -> set[str]:
        tags = self.tags()
        infos = [
            row.info(self.priority(row))._replace(tags=tuple(sorted(tags[row.commit_hash])))
            for row in self.rows
            if row.operation == APPEND
        ]
        return {info.commit_hash for info in infos if fits(info)}

    def _named(self, names: Collection[str], resolve: Callable[[str], str]) -> set[str]:
        tags = self.tags()
        chosen: set[str] = set()
        for name in [names] if isinstance(names, str) else names:
            tagged = {commit_hash for commit_hash, of in tags.items() if name in of}
            chosen |= tagged or {self.message(name, resolve)}
        return {name for name in chosen if self._by_hash[name].operation == APPEND}


class Snapshot(NamedTuple):
    """The text, and the number of omitted messages."""

    text: str
    left_out: int


def snapshot(
    messages: Sequence[Message], title: str, count: Callable[[str], int], max_tokens: int | None
) -> Snapshot:
    """Write messages as one text, each under a heading with its number and role.

    Args:
        messages: at least one message.
        title: the first line.
        count: counts the tokens of the text.
        max_tokens: the maximum length. If the text is longer, the oldest messages are omitted, and pinned ones last.
            The text contains their number.

    Raises:
        SessionError: not even one message fits.
    """
    parts = [_part(number, message) for number, message in enumerate(messages, 1)]
    if max_tokens is None:
        return Snapshot(_text(title, parts, ()), 0)
    order = _least_wanted_first(messages)

    def size(left_out: int) -> int:
        return count(_text(title, parts, order[:left_out]))

    least = _smallest(len(messages), lambda left_out: size(left_out) <= max_tokens)
    if least is None:
        raise SessionError(
            f"max_tokens={max_tokens} is too small for one message; use at least {size(len(messages) - 1)}"
        )
    return Snapshot(_text(title, parts, order[:least]), least)


def _smallest(limit: int, fits: Callable[[int], bool]) -> int | None:
    """Return the smallest number below `limit` that fits, by bisection; None if the largest does not."""
    if fits(0):  # a separate check: the note about omitted messages may be longer than one of them
        return 0
    low, high = 1, limit - 1
    if high < low or not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _least_wanted_first(messages: Sequence[Message]) -> list[int]:
    return sorted(range(len(messages)), key=lambda place: messages[place].priority is Priority.PINNED)


def _text(title: str, parts: Sequence[str], left_out: Collection[int]) -> str:
    gone = set(left_out)
    note = f"({len(gone)} of {len(parts)} messages are omitted, because the length is limited.)"
    rest = [part for place, part in enumerate(parts) if place not in gone]
    return "\n\n".join([title, *([note] if gone else []), *rest])


def _part(number: int, message: Message) -> str:
    who = f"{message.role} {message.name}" if message.name else message.role
    answer = f" (answer to {message.tool_call_id})" if message.tool_call_id else ""
    failed = " (failed)" if message.is_error else ""
    calls = [
        f"calls {call.name}({canonical_json(call.arguments)}) as {call.id}" for call in message.tool_calls
    ]
    text = [message.told] if message.told else []
    return "\n".join([f"## {number}. {who}{answer}{failed}", *text, *calls])
