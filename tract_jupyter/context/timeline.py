"""Timelines: the history of a commit in context order, and its messages.

An edit replaces the content of its target. The last edit and the last annotation of a message are in effect. The
context omits messages with the priority `skip`. Adding a commit takes constant time.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

from tract_jupyter.models import (
    APPROXIMATE,
    PROVIDER_FIELDS,
    SKIPPED,
    CompiledContext,
    Message,
    Priority,
    Rendering,
    ToolCall,
    attachments_of,
    default_priority,
    no_reader,
    repr_of_whole,
    role_of,
    text_of,
)
from tract_jupyter.storage import APPEND, EDIT, EMPTY, MERGE, Draft, Entry, Step, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tract_jupyter.models import Reader
    from tract_jupyter.storage import CommitRows, Database, Entry


T_co = TypeVar("T_co", covariant=True)


class Prefix(Sequence[T_co]):
    """A view of the current items of a list that only grows.

    Its creation takes constant time, even for a context of 100,000 messages.

    Args:
        items: the list.
        view: converts an item on each access.
        rendering: caches the request form of the items.
    """

    __slots__ = ("_items", "_length", "_view", "rendering")

    def __init__(
        self,
        items: list[T_co],
        view: Callable[[T_co], T_co] | None = None,
        rendering: Rendering | None = None,
    ) -> None:
        self._items = items
        self._length = len(items)
        self._view = view
        self.rendering = rendering

    def viewed(self, view: Callable[[T_co], T_co]) -> Prefix[T_co]:
        """Return a view of the same items that converts each with a function."""
        prefix = Prefix(self._items, view, self.rendering)
        prefix._length = self._length
        return prefix

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        item = self._items[index if index >= 0 else self._length + index]
        return item if self._view is None else self._view(item)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T_co]:
        items = islice(self._items, self._length)
        return items if self._view is None else map(self._view, items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prefix | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    @repr_of_whole
    def __repr__(self) -> str:
        return repr(tuple(self))


# Additional tokens of OpenAI's chat format: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
PER_MESSAGE: Final = 4  # three around it, one for the role
PER_CONTEXT: Final = 3
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})  # shared by all messages
_parse = json.JSONDecoder().raw_decode  # canonical JSON has no surrounding spaces


class Totals(NamedTuple):
    """The size of a context: its tokens, including the chat format's tokens, and its number of messages."""

    tokens: int
    messages: int


def totals_of(tokens: int, messages: int) -> Totals:
    """Return the size of a context, from the tokens of its texts and the number of messages."""
    return Totals(tokens + PER_MESSAGE * messages + PER_CONTEXT if messages else 0, messages)


def totals_after(tokens: int, messages: int, append: Draft | Entry) -> Totals:
    """Return the size of a context after an append."""
    if not _shows(append, append):
        return Totals(tokens, messages)
    return Totals((tokens if messages else PER_CONTEXT) + append.token_count + PER_MESSAGE, messages + 1)


_BLOCKS: Final = '"provider_blocks"'  # a key of the metadata of such a reply


class Timeline:
    """The history of one commit.

    Args:
        steps: the commits in context order.
        merged: the merged commits, which are not first parents.
        cache: compiled messages from another timeline, by commit.
    """

    def __init__(
        self,
        steps: Iterable[Step] = (),
        merged: frozenset[str] = frozenset(),
        cache: dict[str, Message] | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.place: dict[str, int] = {}
        """The index of each commit in `steps`."""
        self.merged = merged
        self.winners: dict[str, Step] = {}
        """The last edit of each edited commit."""
        self._tokens = 0  # of the texts of all messages
        self._count = 0
        self.tools_hash: str | None = None
        self.has_blocks = False
        """True if a reply has the provider's own blocks: reasoning that is bound to all earlier messages."""
        self._priorities: dict[str, Step] = {}
        self._counters: Counter[str] = Counter()
        self._cache: dict[str, Message] = {} if cache is None else cache
        self._messages: list[Message] = []
        self._rendering = Rendering()  # of `_messages`
        self._rendered = 0  # the number of steps in `_messages`
        for step in steps:
            self.extend(step)

    @property
    def head(self) -> str | None:
        """The newest commit."""
        return self.steps[-1].commit_hash if self.steps else None

    def priority(self, step: Step) -> Priority:
        """Return the effective priority."""
        priority = self._priorities.get(step.commit_hash, step).priority
        return Priority(priority) if priority else default_priority(step.content_type)

    def priority_source(self, commit_hash: str) -> Step | None:
        """Return the commit that changed another one's priority; None if there is none."""
        return self._priorities.get(commit_hash)

    @property
    def totals(self) -> Totals:
        """The size of the context."""
        return totals_of(self._tokens, self._count)

    def effect(self, step: Step | Draft) -> Totals:
        """Return the totals after one more commit."""
        tokens, messages = self._difference(step)
        return totals_of(self._tokens + tokens, self._count + messages)

    def extend(self, step: Step) -> None:
        """Add the next commit of the branch."""
        if step.operation == APPEND:
            if _shows(step, step):
                self._tokens += step.token_count
                self._count += 1
                self._counters[step.token_counter] += 1
        else:
            self._change(step)
        self.place[step.commit_hash] = len(self.steps)
        self.steps.append(step)
        self.tools_hash = step.tools_hash or self.tools_hash
        if _BLOCKS in step.metadata_json:
            self.has_blocks = True

    def absorb(self, steps: Iterable[Step]) -> None:
        """Add the commits of a merge that are missing."""
        new = [step for step in steps if step.commit_hash not in self.place]
        self.merged |= {step.commit_hash for step in new}
        for step in new:
            self.extend(step)

    def upto(self, commit_hash: str) -> Timeline | None:
        """Return the history of an earlier commit of the branch; None for unknown and merged commits."""
        place = self.place.get(commit_hash)
        if place is None or commit_hash in self.merged:
            return None
        changed = self.winners.keys() | self._priorities.keys()
        steps = self.steps[: place + 1]
        # without messages of later commits, which would accumulate from history to history
        keys = {step.commit_hash for step in steps} - changed
        cache = {key: message for key, message in self._cache.items() if key in keys}
        return Timeline(steps, self.merged, cache)

    def fork(self) -> Timeline:
        """Return a copy that can be extended independently."""
        return Timeline(self.steps, self.merged, dict(self._cache))

    def context(
        self,
        tools: tuple[dict[str, Any], ...] = (),
        max_tokens: int | None = None,
        read: Reader = no_reader,
    ) -> CompiledContext:
        """Return the context. The cost grows only with the number of commits since the last call."""
        priority_of = self._priorities.get
        for step in self.steps[self._rendered :]:
            if step.operation == APPEND and _shows(step, priority_of(step.commit_hash, step)):
                self._messages.append(self.message(step))
        self._rendered = len(self.steps)
        messages = Prefix(self._messages, rendering=self._rendering)
        return CompiledContext(
            messages, self.totals.tokens, self.token_source, self.head, tools, max_tokens, read=read
        )

    def message(self, step: Step) -> Message:
        """Return the message of an append."""
        message = self._cache.get(step.commit_hash)
        if message is None:
            winner = self.winners.get(step.commit_hash, step)
            message = self._cache[step.commit_hash] = message_of(step, winner, self.priority(step))
        return message

    @property
    def token_source(self) -> str:
        """The counter of the tokens; an estimate if there were several counters."""
        used = [name for name, messages in self._counters.items() if messages]
        return used[0] if len(used) == 1 else APPROXIMATE

    def _difference(self, step: Step | Draft) -> tuple[int, int]:
        """Return the text tokens and the messages that one more commit adds."""
        if step.operation == APPEND:
            return (step.token_count, 1) if _shows(step, step) else (0, 0)
        target = self._target(step)
        if target is None:
            return 0, 0
        winner, source = self._effective(target)
        before = _shows(target, source)
        after = _shows(target, step if step.priority else source)
        tokens = (step if step.operation == EDIT else winner).token_count
        return tokens * after - winner.token_count * before, after - before

    def _change(self, step: Step) -> None:
        """Apply an edit or annotation."""
        target = self._target(step)
        if target is None:
            return
        tokens, messages = self._difference(step)
        self._tokens += tokens
        self._count += messages
        winner, source = self._effective(target)
        self._counters[winner.token_counter] -= _shows(target, source)
        if step.operation == EDIT:
            winner = self.winners[target.commit_hash] = step
        if step.priority:
            source = self._priorities[target.commit_hash] = step
        self._counters[winner.token_counter] += _shows(target, source)
        self._cache.pop(target.commit_hash, None)
        # existing contexts keep the old list
        self._messages, self._rendering, self._rendered = [], Rendering(), 0

    def _target(self, step: Step | Draft) -> Step | None:
        place = self.place.get(step.edit_target) if step.edit_target is not None else None
        return None if place is None else self.steps[place]

    def _effective(self, target: Step) -> tuple[Step, Step]:
        """Return the commit with the effective content, and the one with the effective priority."""
        name = target.commit_hash
        return self.winners.get(name, target), self._priorities.get(name, target)


def _shows(step: Step | Draft | Entry, source: Step | Draft | Entry) -> bool:
    """Return True if the context includes an append. `source` is the commit with its effective priority."""
    return source.priority != "skip" if source.priority else step.content_type not in SKIPPED


def message_of(step: Step, winner: Step, priority: Priority) -> Message:
    """Return the message of an append. `winner` is its last edit, or the append itself."""
    content, _ = _parse(winner.payload.decode())
    name, call_id, failed = content.get("name"), None, False
    calls: tuple[ToolCall, ...] = ()
    edited: dict[str, Any] = {}
    if step.metadata_json != EMPTY or winner.metadata_json != EMPTY:
        edited = from_json(winner.metadata_json, dict)
        metadata = {**from_json(step.metadata_json, dict), **edited}
        calls = tuple(ToolCall.from_dict(call) for call in metadata.get("tool_calls") or ())
        call_id = metadata.get("tool_call_id")
        # an edit with a `tool_call_id` has its edited `is_error`
        failed = bool((edited if "tool_call_id" in edited else metadata).get("is_error"))
        name = name or (metadata.get("name") if call_id else None)
    # not the original's: an edit does not come from the provider
    direction, fields = (None, edited.get(PROVIDER_FIELDS))
    if content["content_type"] == "tool_io":
        name, direction = name or content.get("tool_name"), content.get("direction")
    config = winner.generation_config_json
    config = step.generation_config_json if config == EMPTY else config
    return Message(
        role_of(content),
        text_of(content),
        name if isinstance(name, str) else None,
        step.commit_hash,
        priority,
        winner.token_count + PER_MESSAGE,
        winner.content_type,
        calls,
        call_id,
        failed,
        _NOTHING if config == EMPTY else from_json(config, dict),
        direction if isinstance(direction, str) else None,
        fields if isinstance(fields, dict) else _NOTHING,
        attachments_of(content),
    )


_CACHED = 8


class Timelines:
    """The timelines of one tract, by their newest commit."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows
        self._cached: OrderedDict[str | None, Timeline] = OrderedDict()
        self._base: str | None = None
        self._ahead: list[Entry] = []  # commits after `_base` that are not in a timeline yet
        self.lock = database.lock
        """Protects reads of a timeline, since another thread may extend it."""

    def at(self, head: str | None) -> Timeline:
        """Return the history of `head`, from the cache or the store. Use it under the lock, and never extend it.

        Raises:
            StoreCorruptError: the history in the store is damaged.
        """
        if head is None:
            return Timeline()
        with self.lock:
            if self._ahead:
                self._catch_up()
            timeline = self._cached.get(head)
            if timeline is None:
                timeline = self._within(head) or self._read(head)
                self._add_to_cache(timeline)
            else:
                self._cached.move_to_end(head)
            return timeline

    def newest(self, head: str | None) -> Iterator[tuple[str, str | None]]:
        """Yield (commit, role) of the messages in the context of `head`, newest first."""
        with self.lock:
            timeline = self.at(head)
            for step in reversed(timeline.steps):
                if step.operation == APPEND and timeline.priority(step) is not Priority.SKIP:
                    yield step.commit_hash, role_of(json.loads(step.payload))

    def advance(self, old: str | None, entry: Entry) -> None:
        """Add a commit after `old` to the cached history of `old`. Does nothing if that history is not cached."""
        with self.lock:
            if self._ahead and self._ahead[-1].commit_hash == old:
                self._ahead.append(entry)
                return
            if self._ahead:
                self._catch_up()
            if old is None or old in self._cached:
                self._base, self._ahead = old, [entry]

    def is_cached(self, head: str | None) -> bool:
        """Return True if this history is cached."""
        return head in self._cached

    def forget(self) -> None:
        """Clear the cache, for example after a rollback or a removal of commits."""
        with self.lock:
            self._cached.clear()
            self._ahead.clear()

    def _catch_up(self) -> None:
        entries, self._ahead = self._ahead, []
        timeline = self._cached.pop(self._base) if self._base is not None else Timeline()
        if MERGE in [entry.operation for entry in entries]:
            return  # the next use reads the merged commits
        for entry in entries:
            timeline.extend(entry.step())
        self._add_to_cache(timeline)

    def _add_to_cache(self, timeline: Timeline) -> None:
        head = timeline.head
        self._cached[head] = timeline
        self._cached.move_to_end(head)
        while len(self._cached) > _CACHED:
            self._cached.popitem(last=False)

    def _within(self, head: str) -> Timeline | None:
        for timeline in reversed(self._cached.values()):
            earlier = timeline.upto(head)
            if earlier is not None:
                return earlier
        return None

    def _read(self, head: str) -> Timeline:
        with self._database.read() as connection:
            lineage = self._rows.lineage(connection, head, Step)
        return Timeline(lineage.rows, lineage.merged)
