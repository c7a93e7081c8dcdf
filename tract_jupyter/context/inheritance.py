"""The messages that a spawned child inherits: a history read once, a selection of it, or its text as a snapshot."""

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
"""The messages that are asked for: a function that says so of each, or names of tags and commits."""


class ParentHistory:
    """The history of one commit, read once.

    Args:
        lineage: its history.
        added: the tags that were added to commits later.
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
        """The context."""
        return self.timeline.context().messages

    def priority(self, entry: Entry) -> Priority:
        """Return the priority in effect."""
        return self.timeline.priority(self.timeline.steps[self.timeline.place[entry.commit_hash]])

    def criteria(self, message: Message) -> dict[str, Any] | None:
        """Return the retention criteria of a message; only important messages have them."""
        return self._retention.get(message.commit_hash) if message.priority is Priority.IMPORTANT else None

    def with_tools(self, drafts: list[Draft]) -> list[Draft]:
        """Return the drafts, the last of them linked to the tools that are in effect here."""
        tools = self.timeline.tools_hash
        if not drafts or tools is None:
            return drafts
        return [*drafts[:-1], drafts[-1]._replace(tools_hash=tools)]

    def tags(self) -> dict[str, set[str]]:
        """Return the tags of each message and of its edits."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for row in self.rows:
            of = row.edit_target or row.commit_hash
            found[of].update(row.tags, self.added.get(row.commit_hash, ()))
        return found

    def message(self, name: str, resolve: Callable[[str], str]) -> str:
        """Return the message for a name; for an edit, the edited message.

        Raises:
            CommitNotFoundError: it is no message of this history.
        """
        entry = self._by_hash.get(resolve(name))
        target = self._by_hash.get(entry.edit_target) if entry and entry.edit_target else entry
        if target is None or target.operation != APPEND:
            raise CommitNotFoundError(f"{name!r} is no message of this history; log() lists them")
        return target.commit_hash

    def everything(self) -> list[Entry]:
        """Return all commits that count for the context. Merges are left out: what they brought stands in its place."""
        return [row for row in self.rows if row.operation != MERGE]

    def selected(self, select: Selector, resolve: Callable[[str], str]) -> list[Entry]:
        """Return the selected messages with their edits and annotations.

        Args:
            select: a function that says whether a message is wanted, or names: of tags, or else of commits.
            resolve: gives the hash of a commit by its name.

        Raises:
            SessionError: nothing is selected.
            CommitNotFoundError: a name is neither a tag nor a message.
        """
        chosen = self._fitting(select) if callable(select) else self._named(select, resolve)
        if not chosen:
            raise SessionError(
                "nothing was selected, so the child would start with nothing; select some message"
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
    """The text, and how many messages are not in it."""

    text: str
    left_out: int


def snapshot(
    messages: Sequence[Message], title: str, count: Callable[[str], int], max_tokens: int | None
) -> Snapshot:
    """Write messages as one text, each under a heading with its number and role.

    Args:
        messages: at least one.
        title: the first line.
        count: counts the tokens of the text.
        max_tokens: how many it may have. Whole messages are left out, the oldest first and pinned ones last, and the
            text says how many.

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
            f"max_tokens={max_tokens} has no room for a single message; give at least {size(len(messages) - 1)}"
        )
    return Snapshot(_text(title, parts, order[:least]), least)


def _smallest(limit: int, fits: Callable[[int], bool]) -> int | None:
    """Return the smallest number below `limit` that fits, by halving; None if the largest does not."""
    if fits(0):  # asked on its own, as the text that says what is left out may be longer than that
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
    note = f"({len(gone)} of {len(parts)} messages are left out for want of room.)"
    kept = [part for place, part in enumerate(parts) if place not in gone]
    return "\n\n".join([title, *([note] if gone else []), *kept])


def _part(number: int, message: Message) -> str:
    who = f"{message.role} {message.name}" if message.name else message.role
    answer = f" (answer to {message.tool_call_id})" if message.tool_call_id else ""
    failed = " (failed)" if message.is_error else ""
    calls = [
        f"calls {call.name}({canonical_json(call.arguments)}) as {call.id}" for call in message.tool_calls
    ]
    text = [message.told] if message.told else []
    return "\n".join([f"## {number}. {who}{answer}{failed}", *text, *calls])
