"""Curation: make the inherited context of an agent on a branch smaller.

Dropping a message is an annotation. A summary or another order rewrites the branch from the first changed commit on;
the commits before it keep their hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.context.commits import annotation, draft
from tract_jupyter.context.summaries import Source, inherited, writer_options
from tract_jupyter.exceptions import (
    SessionError,
)
from tract_jupyter.models import (
    COMPRESSED_FROM,
    CompressGroup,
    Priority,
)
from tract_jupyter.storage import (
    APPEND,
    MERGE,
    Draft,
    Entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.context.inheritance import ParentHistory
    from tract_jupyter.models import Curation, Message, TokenCounter

    Item = Entry | Draft


class Curated(NamedTuple):
    """The drafts to write after `base`. If `base` is None, they start the history."""

    base: Entry | None
    drafts: list[Draft]


def curated(
    history: ParentHistory, curation: Curation, resolve: Callable[[str], str], counter: TokenCounter
) -> Curated:
    """Apply a curation to a history, without writing anything.

    Raises:
        SessionError: a step cannot be applied.
        CompressionError: the summary is not a text, or violates a retention rule.
        CommitNotFoundError: a name is not a message of the history.
    """
    skipped = _skipped(history, curation, resolve)
    notes = [annotation(target, Priority.SKIP, reason, None) for target, reason in skipped.items()]
    items: list[Item] = [*history.rows, *notes]
    if curation.compact_before is not None:
        items = _compacted(history, curation, skipped, items, resolve, counter)
    if curation.reorder:
        items = _reordered(items, [history.message(name, resolve) for name in curation.reorder])
    return _from_first_change(history, items)


def _skipped(history: ParentHistory, curation: Curation, resolve: Callable[[str], str]) -> dict[str, str]:
    """Return the reason for each message to skip, without those that are skipped already."""
    wanted, tags = set(curation.keep_tags), history.tags()
    unknown = wanted.difference(*tags.values()) if wanted else set()
    if unknown:
        raise SessionError(f"no message has the tag {', '.join(sorted(unknown))}; tags.list() lists all tags")
    dropped = {history.message(name, resolve) for name in curation.drop}
    reasons = {}
    for message in history.messages:
        name = message.commit_hash
        if name in dropped:
            reasons[name] = "dropped"
        elif wanted and message.priority is not Priority.PINNED and not wanted & tags[name]:
            reasons[name] = f"not tagged {' or '.join(sorted(wanted))}"
    return reasons


def _compacted(
    history: ParentHistory,
    curation: Curation,
    skipped: dict[str, str],
    items: list[Item],
    resolve: Callable[[str], str],
    counter: TokenCounter,
) -> list[Item]:
    place = history.timeline.place
    end = place[history.message(curation.compact_before or "", resolve)]
    before = [
        message
        for message in history.messages
        if place[message.commit_hash] < end and message.commit_hash not in skipped
    ]
    summed = [message for message in before if message.priority is not Priority.PINNED]
    if not summed:
        return items
    names = [message.commit_hash for message in summed]
    summary = _summary(history, curation, summed, counter)
    remaining = {message.commit_hash for message in before} - set(names)
    removed = {
        row.commit_hash
        for row in history.rows[:end]
        if row.operation == APPEND and row.commit_hash not in remaining
    }
    first = items.index(history.rows[place[names[0]]])
    return [
        item
        for item in [*items[:first], summary, *items[first:]]
        if (item.edit_target or _name(item)) not in removed
    ]


def _summary(
    history: ParentHistory, curation: Curation, messages: Sequence[Message], counter: TokenCounter
) -> Draft:
    """Return a summary in the form of a compression: `expand` restores the messages."""
    commits = tuple(message.commit_hash for message in messages)
    criteria = tuple(
        criterion for message in messages if (criterion := history.criteria(message)) is not None
    )
    group = CompressGroup(commits, tuple(messages), criteria)
    written = curation.summary
    source = (
        Source(summarizer=written, count=counter.count_text) if callable(written) else Source(content=written)
    )
    (text,) = source.texts([group])
    content = {"content_type": "dialogue", "role": "assistant", "text": text}
    priority, retention = inherited(group)
    origin = {"head": history.head.commit_hash, "commits": list(commits)}
    options = writer_options(text, {COMPRESSED_FROM: origin})
    return draft(content, counter, priority=priority, retention=retention, **options)


def _reordered(items: list[Item], first: list[str]) -> list[Item]:
    """Return the messages in their new order, then all changes to them."""
    messages = {_name(item) or id(item): item for item in items if item.operation == APPEND}
    missing = [name for name in first if name not in messages]
    if missing:
        raise SessionError(f"the earlier steps removed message {missing[0][:8]}; remove it from reorder")
    order = list(dict.fromkeys([*first, *messages]))
    if order == list(messages):
        return items
    changes = [item for item in items if item.operation not in {APPEND, MERGE}]
    return [*(messages[key] for key in order), *changes]


def _from_first_change(history: ParentHistory, items: list[Item]) -> Curated:
    rows = history.rows
    if items[: len(rows)] == rows:
        return Curated(rows[-1], [item for item in items[len(rows) :] if isinstance(item, Draft)])
    same = 0
    while same < len(items) and items[same] is rows[same] and rows[same].commit_hash not in history.merged:
        same += 1
    rest = [Draft.of(item) if isinstance(item, Entry) else item for item in items[same:]]
    drafts = [item for item in rest if item.operation != MERGE]
    return Curated(rows[same - 1] if same else None, history.with_tools(drafts))


def _name(item: Item) -> str | None:
    """Return the hash of a commit; None for a draft."""
    return item.commit_hash if isinstance(item, Entry) else None
