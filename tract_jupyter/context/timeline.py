"""Timelines: the history of a commit in the order of its context, and the messages that it compiles to.

An edit replaces its target's content in the target's place; the last edit wins, and so does the last annotation.
What is `skip` is left out. Taking in one more commit costs the same however long the history is.
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
    """A view of the present items of a list that only grows.

    Made in no time whatever the length, so that a context of 100,000 messages costs nothing to hand out.

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
        """Return the same items, as a function shows them."""
        made = Prefix(self._items, view, self.rendering)
        made._length = self._length
        return made

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


# What OpenAI's chat format adds: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
PER_MESSAGE: Final = 4  # three around it, one for the role
PER_CONTEXT: Final = 3
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})  # one for all messages
_parse = json.JSONDecoder().raw_decode  # what we wrote ourselves has no space around it


class Totals(NamedTuple):
    """The size of a context: tokens of all messages, with what a chat format adds, and how many messages."""

    tokens: int
    messages: int


def totals_of(tokens: int, messages: int) -> Totals:
    """Return the size of a context, from the tokens of its texts and the number of messages."""
    return Totals(tokens + PER_MESSAGE * messages + PER_CONTEXT if messages else 0, messages)


def totals_after(tokens: int, messages: int, append: Draft | Entry) -> Totals:
    """Return the size of a context of that size after an append."""
    if not _shows(append, append):
        return Totals(tokens, messages)
    return Totals((tokens if messages else PER_CONTEXT) + append.token_count + PER_MESSAGE, messages + 1)


_BLOCKS: Final = '"provider_blocks"'  # a key of the metadata of such a reply


class Timeline:
    """The history of one commit.

    Args:
        steps: in the order of the context.
        merged: the commits that came by merges, which are not first parents.
        made: messages that are known already, by their commit.
    """

    def __init__(
        self,
        steps: Iterable[Step] = (),
        merged: frozenset[str] = frozenset(),
        made: dict[str, Message] | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.place: dict[str, int] = {}
        """Where each commit stands in `steps`."""
        self.merged = merged
        self.winners: dict[str, Step] = {}
        """The edit that counts, of each edited commit."""
        self._tokens = 0  # of the texts of all messages
        self._count = 0
        self.tools_hash: str | None = None
        self.has_blocks = False
        """True if a reply has what its provider made it of: reasoning that is bound to all that came before."""
        self._priorities: dict[str, Step] = {}
        self._counters: Counter[str] = Counter()
        self._made: dict[str, Message] = {} if made is None else made
        self._messages: list[Message] = []
        self._rendering = Rendering()  # of `_messages`
        self._rendered = 0  # so many steps are in `_messages`
        for step in steps:
            self.extend(step)

    @property
    def head(self) -> str | None:
        """The commit that this is the history of."""
        return self.steps[-1].commit_hash if self.steps else None

    def priority(self, step: Step) -> Priority:
        """Return the priority in effect."""
        given = self._priorities.get(step.commit_hash, step).priority
        return Priority(given) if given else default_priority(step.content_type)

    def priority_source(self, commit_hash: str) -> Step | None:
        """Return the commit that gave another one its priority."""
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
        """Take in the next commit of the branch."""
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
        """Return the history of an earlier commit of the branch; None if it is not one, or came by a merge."""
        place = self.place.get(commit_hash)
        if place is None or commit_hash in self.merged:
            return None
        changed = self.winners.keys() | self._priorities.keys()
        steps = self.steps[: place + 1]
        # not those of what comes later, which would be handed on from history to history
        keys = {step.commit_hash for step in steps} - changed
        made = {key: message for key, message in self._made.items() if key in keys}
        return Timeline(steps, self.merged, made)

    def fork(self) -> Timeline:
        """Return a copy that can be extended independently."""
        return Timeline(self.steps, self.merged, dict(self._made))

    def context(
        self,
        tools: tuple[dict[str, Any], ...] = (),
        max_tokens: int | None = None,
        read: Reader = no_reader,
    ) -> CompiledContext:
        """Return the messages. The cost grows with the commits that no context showed yet.

        Args:
            tools: that are offered here.
            max_tokens: the budget.
            read: gives the bytes of attachments.
        """
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
        message = self._made.get(step.commit_hash)
        if message is None:
            winner = self.winners.get(step.commit_hash, step)
            message = self._made[step.commit_hash] = message_of(step, winner, self.priority(step))
        return message

    @property
    def token_source(self) -> str:
        """The way in which the tokens were counted: an estimate, if in several ways."""
        used = [name for name, messages in self._counters.items() if messages]
        return used[0] if len(used) == 1 else APPROXIMATE

    def _difference(self, step: Step | Draft) -> tuple[int, int]:
        """Return how many tokens of text, and how many messages, one more commit adds."""
        if step.operation == APPEND:
            return (step.token_count, 1) if _shows(step, step) else (0, 0)
        target = self._target(step)
        if target is None:
            return 0, 0
        winner, given = self._heard(target)
        before = _shows(target, given)
        after = _shows(target, step if step.priority else given)
        tokens = (step if step.operation == EDIT else winner).token_count
        return tokens * after - winner.token_count * before, after - before

    def _change(self, step: Step) -> None:
        """Take in an edit or annotation."""
        target = self._target(step)
        if target is None:
            return
        tokens, messages = self._difference(step)
        self._tokens += tokens
        self._count += messages
        winner, given = self._heard(target)
        self._counters[winner.token_counter] -= _shows(target, given)
        if step.operation == EDIT:
            winner = self.winners[target.commit_hash] = step
        if step.priority:
            given = self._priorities[target.commit_hash] = step
        self._counters[winner.token_counter] += _shows(target, given)
        self._made.pop(target.commit_hash, None)
        # contexts that were handed out keep the old list
        self._messages, self._rendering, self._rendered = [], Rendering(), 0

    def _target(self, step: Step | Draft) -> Step | None:
        place = self.place.get(step.edit_target) if step.edit_target is not None else None
        return None if place is None else self.steps[place]

    def _heard(self, target: Step) -> tuple[Step, Step]:
        """Return the commit whose content counts, and the one whose priority counts."""
        name = target.commit_hash
        return self.winners.get(name, target), self._priorities.get(name, target)


def _shows(step: Step | Draft | Entry, given: Step | Draft | Entry) -> bool:
    """Return True if an append is compiled, with the priority that `given` gives it."""
    return given.priority != "skip" if given.priority else step.content_type not in SKIPPED


def message_of(step: Step, winner: Step, priority: Priority) -> Message:
    """Return the message of an append, with the content of the winning edit, or its own if there is none."""
    content, _ = _parse(winner.payload.decode())
    name, call_id, failed = content.get("name"), None, False
    calls: tuple[ToolCall, ...] = ()
    own: dict[str, Any] = {}
    if step.metadata_json != EMPTY or winner.metadata_json != EMPTY:
        own = from_json(winner.metadata_json, dict)
        metadata = {**from_json(step.metadata_json, dict), **own}
        calls = tuple(ToolCall.from_dict(call) for call in metadata.get("tool_calls") or ())
        call_id = metadata.get("tool_call_id")
        # an edit that answers the call itself says whether that failed
        failed = bool((own if "tool_call_id" in own else metadata).get("is_error"))
        name = name or (metadata.get("name") if call_id else None)
    direction, beside = None, own.get(PROVIDER_FIELDS)  # an edit is not what the provider sent
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
        beside if isinstance(beside, dict) else _NOTHING,
        attachments_of(content),
    )


_KEPT = 8


class Timelines:
    """The timelines of one tract, by the commit they end at."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows
        self._kept: OrderedDict[str | None, Timeline] = OrderedDict()
        self._base: str | None = None
        self._ahead: list[Entry] = []  # commits on top of `_base` that nobody looked at yet
        self.lock = database.lock
        """Held by whoever looks at a timeline, since another thread may extend it."""

    def at(self, head: str | None) -> Timeline:
        """Return the history of `head`, read from the store if need be. Use it under the lock, and never extend it.

        Raises:
            StoreCorruptError: the history in the store is damaged.
        """
        if head is None:
            return Timeline()
        with self.lock:
            if self._ahead:
                self._catch_up()
            found = self._kept.get(head)
            if found is None:
                found = self._within(head) or self._read(head)
                self._keep(found)
            else:
                self._kept.move_to_end(head)
            return found

    def newest(self, head: str | None) -> Iterator[tuple[str, str | None]]:
        """Yield the messages of a history that are sent, by the commits that said them, with their roles; newest first.

        Raises:
            StoreCorruptError: the history in the store is damaged.
        """
        with self.lock:
            timeline = self.at(head)
            for step in reversed(timeline.steps):
                if step.operation == APPEND and timeline.priority(step) is not Priority.SKIP:
                    yield step.commit_hash, role_of(json.loads(step.payload))

    def advance(self, old: str | None, entry: Entry) -> None:
        """Note that a commit was added on top of `old`. If the history of `old` is not kept, its own is not, either."""
        with self.lock:
            if self._ahead and self._ahead[-1].commit_hash == old:
                self._ahead.append(entry)
                return
            if self._ahead:
                self._catch_up()
            if old is None or old in self._kept:
                self._base, self._ahead = old, [entry]

    def is_kept(self, head: str | None) -> bool:
        """Return True if this history is in memory."""
        return head in self._kept

    def forget(self) -> None:
        """Drop everything, as after a transaction that was rolled back, or commits that were removed."""
        with self.lock:
            self._kept.clear()
            self._ahead.clear()

    def _catch_up(self) -> None:
        entries, self._ahead = self._ahead, []
        timeline = self._kept.pop(self._base) if self._base is not None else Timeline()
        if MERGE in [entry.operation for entry in entries]:
            return  # what a merge brings is read when it is needed
        for entry in entries:
            timeline.extend(entry.step())
        self._keep(timeline)

    def _keep(self, timeline: Timeline) -> None:
        head = timeline.head
        self._kept[head] = timeline
        self._kept.move_to_end(head)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def _within(self, head: str) -> Timeline | None:
        for timeline in reversed(self._kept.values()):
            earlier = timeline.upto(head)
            if earlier is not None:
                return earlier
        return None

    def _read(self, head: str) -> Timeline:
        with self._database.read() as connection:
            lineage = self._rows.lineage(connection, head, Step)
        return Timeline(lineage.rows, lineage.merged)
