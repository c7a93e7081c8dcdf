"""A history as it is given to a child: what of it, in which order, with which tags.

Dropping a message is an annotation. Putting a summary in the place of messages, or messages in another order, rewrites
the branch from the first commit that is concerned; the commits before it stay the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tract_jupyter.context.ancestry import retained
from tract_jupyter.context.commits import annotation, draft
from tract_jupyter.context.summaries import Source, inherited
from tract_jupyter.context.timeline import Timeline
from tract_jupyter.exceptions import CommitNotFoundError, SessionError
from tract_jupyter.models.commit import CommitInfo
from tract_jupyter.models.compression import COMPRESSED_FROM, CompressGroup
from tract_jupyter.models.content import Priority
from tract_jupyter.storage.entry import APPEND, MERGE, Draft, Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import Message
    from tract_jupyter.models.spawn import Curation
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.storage.commits import Lineage

    Item = Entry | Draft


Selector: TypeAlias = Callable[[CommitInfo], object] | Collection[str]
"""The messages that are asked for: a function that says so of each, or names of tags and commits."""


class Heritage:
    """What one commit stands for, read once.

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
        """The priority in effect."""
        return self.timeline.priority(self.timeline.steps[self.timeline.place[entry.commit_hash]])

    def criteria(self, message: Message) -> dict[str, Any] | None:
        """What a summary must keep of a message. Only what is important has such."""
        return self._retention.get(message.commit_hash) if message.priority is Priority.IMPORTANT else None

    def with_tools(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts, the last of them linked to the tools that are in effect here."""
        tools = self.timeline.tools_hash
        if not drafts or tools is None:
            return drafts
        return [*drafts[:-1], drafts[-1]._replace(tools_hash=tools)]

    def tags(self) -> dict[str, set[str]]:
        """The tags of each message, with those of its edits."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for row in self.rows:
            of = row.edit_target or row.commit_hash
            found[of].update(row.tags, self.added.get(row.commit_hash, ()))
        return found

    def message(self, name: str, resolve: Callable[[str], str]) -> str:
        """The message that a name stands for; the name of an edit stands for what it edits.

        Raises:
            CommitNotFoundError: it is no message of this history.
        """
        entry = self._by_hash.get(resolve(name))
        target = self._by_hash.get(entry.edit_target) if entry and entry.edit_target else entry
        if target is None or target.operation != APPEND:
            raise CommitNotFoundError(f"{name!r} is no message of this history; log() lists them")
        return target.commit_hash

    def everything(self) -> list[Entry]:
        """All commits that count for the context. Merges are left out: what they brought stands in its place."""
        return [row for row in self.rows if row.operation != MERGE]

    def selected(self, select: Selector, resolve: Callable[[str], str]) -> list[Entry]:
        """The messages that are asked for, with their edits and annotations.

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


class Curated(NamedTuple):
    """The commits to be placed on `base`; None for before the first commit."""

    base: Entry | None
    drafts: list[Draft]


def curated(
    heritage: Heritage, curation: Curation, resolve: Callable[[str], str], counter: TokenCounter
) -> Curated:
    """Work out what a curation does to a history. Writes nothing.

    Raises:
        SessionError: a step of it cannot be done.
        CompressionError: the summary is none, or lacks what must be kept.
        CommitNotFoundError: it names what is no message of the history.
    """
    skipped = _skipped(heritage, curation, resolve)
    notes = [annotation(target, Priority.SKIP, reason, None) for target, reason in skipped.items()]
    items: list[Item] = [*heritage.rows, *notes]
    if curation.compact_before is not None:
        items = _compacted(heritage, curation, skipped, items, resolve, counter)
    if curation.reorder:
        items = _reordered(items, [heritage.message(name, resolve) for name in curation.reorder])
    return _from_first_change(heritage, items)


def _skipped(heritage: Heritage, curation: Curation, resolve: Callable[[str], str]) -> dict[str, str]:
    """The messages to skip that are not skipped yet, and why."""
    wanted, tags = set(curation.keep_tags), heritage.tags()
    unknown = wanted.difference(*tags.values()) if wanted else set()
    if unknown:
        raise SessionError(f"no message has the tag {', '.join(sorted(unknown))}; list_tags() lists the tags")
    dropped = {heritage.message(name, resolve) for name in curation.drop}
    found = {}
    for message in heritage.messages:
        name = message.commit_hash
        if name in dropped:
            found[name] = "dropped"
        elif wanted and message.priority is not Priority.PINNED and not wanted & tags[name]:
            found[name] = f"not tagged {' or '.join(sorted(wanted))}"
    return found


def _compacted(
    heritage: Heritage,
    curation: Curation,
    skipped: dict[str, str],
    items: list[Item],
    resolve: Callable[[str], str],
    counter: TokenCounter,
) -> list[Item]:
    place = heritage.timeline.place
    end = place[heritage.message(curation.compact_before or "", resolve)]
    before = [
        message
        for message in heritage.messages
        if place[message.commit_hash] < end and message.commit_hash not in skipped
    ]
    summed = [message for message in before if message.priority is not Priority.PINNED]
    if not summed:
        return items
    names = [message.commit_hash for message in summed]
    summary = _summary(heritage, curation, summed, counter)
    kept = {message.commit_hash for message in before} - set(names)
    gone = {
        row.commit_hash
        for row in heritage.rows[:end]
        if row.operation == APPEND and row.commit_hash not in kept
    }
    first = items.index(heritage.rows[place[names[0]]])
    return [
        item
        for item in [*items[:first], summary, *items[first:]]
        if (item.edit_target or _name(item)) not in gone
    ]


def _summary(
    heritage: Heritage, curation: Curation, messages: Sequence[Message], counter: TokenCounter
) -> Draft:
    """As a compression would write it, so that `expand` gives the messages back."""
    commits = tuple(message.commit_hash for message in messages)
    criteria = tuple(found for message in messages if (found := heritage.criteria(message)) is not None)
    group = CompressGroup(commits, tuple(messages), criteria)
    given = curation.summary
    source = Source(summarizer=given, count=counter.count_text) if callable(given) else Source(content=given)
    content = {"content_type": "dialogue", "role": "assistant", "text": source.texts([group])[0]}
    priority, retention = inherited(group)
    origin = {"head": heritage.head.commit_hash, "commits": list(commits)}
    return draft(content, counter, priority=priority, retention=retention, metadata={COMPRESSED_FROM: origin})


def _reordered(items: list[Item], first: list[str]) -> list[Item]:
    """The messages in their new order, then all changes to them."""
    messages = {_name(item) or id(item): item for item in items if item.operation == APPEND}
    missing = [name for name in first if name not in messages]
    if missing:
        raise SessionError(
            f"{missing[0][:8]} is no message any more after the steps before; leave it out of reorder"
        )
    order = list(dict.fromkeys([*first, *messages]))
    if order == list(messages):
        return items
    changes = [item for item in items if item.operation not in {APPEND, MERGE}]
    return [*(messages[key] for key in order), *changes]


def _from_first_change(heritage: Heritage, items: list[Item]) -> Curated:
    rows = heritage.rows
    if items[: len(rows)] == rows:
        return Curated(rows[-1], [item for item in items[len(rows) :] if isinstance(item, Draft)])
    same = 0
    while same < len(items) and items[same] is rows[same] and rows[same].commit_hash not in heritage.merged:
        same += 1
    rest = [Draft.of(item) if isinstance(item, Entry) else item for item in items[same:]]
    drafts = [item for item in rest if item.operation != MERGE]
    return Curated(rows[same - 1] if same else None, heritage.with_tools(drafts))


def _name(item: Item) -> str | None:
    """The hash of a commit; None for one that is yet to be."""
    return item.commit_hash if isinstance(item, Entry) else None
