"""Making a branch smaller for the agent that works on it: on its own branch, so nobody else sees a difference.

Dropping a message is an annotation. Putting a summary in the place of messages, or messages in another order, rewrites
the branch from the first commit that is concerned; the commits before it stay the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.engine.drafts import annotation, draft
from tract_jupyter.exceptions import SessionError
from tract_jupyter.history.summaries import Source, inherited
from tract_jupyter.models.compression import COMPRESSED_FROM, CompressGroup
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.entry import APPEND, MERGE, Draft, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.history.heritage import Heritage
    from tract_jupyter.models.context import Message
    from tract_jupyter.models.spawn import Curation
    from tract_jupyter.protocols import TokenCounter

    Item = Entry | Draft


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
