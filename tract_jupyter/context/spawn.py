"""Parents and children: what a tract gives to a child, how a child takes it, and agents on branches.

A spawned child has a tract of its own. Commits are hashed with their tract, so what it inherits has other hashes.

An agent on a branch shares its parent's tract, and what it inherits may be curated: dropping a message is an
annotation; putting a summary in the place of messages, or messages in another order, rewrites the branch from the first
commit that is concerned; the commits before it stay the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tract_jupyter.context.ancestry import retained
from tract_jupyter.context.commits import annotation, draft
from tract_jupyter.context.refs import DEFAULT_BRANCH, check_name
from tract_jupyter.context.summaries import Source, inherited, writer_options
from tract_jupyter.context.timeline import Timeline
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import (
    BranchExistsError,
    CommitNotFoundError,
    CompressionError,
    SessionError,
    UnknownTractError,
)
from tract_jupyter.models import (
    COMPRESSED_FROM,
    CommitInfo,
    CompressGroup,
    Inheritance,
    Priority,
    agent_id,
    brief_repr,
    canonical_json,
    listed,
)
from tract_jupyter.storage import (
    AGENT_HEAD,
    APPEND,
    MERGE,
    Draft,
    Entry,
    EventRows,
    Position,
    RefRows,
    SpawnRows,
    TagRows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel
    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.models import CompiledContext, Curation, Message, SpawnInfo, Summarizer, TokenCounter
    from tract_jupyter.storage import Lineage

    Item = Entry | Draft


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


_TRACT, _HEAD, _BRANCH = "collapse_source_tract_id", "collapse_source_head", "collapse_source_branch"


class Origin(NamedTuple):
    """The child that a commit came from."""

    tract_id: str
    branch: str | None


def check_outcome(content: object, summarizer: Summarizer | None) -> None:
    """Check that there is one way to the child's outcome.

    Raises:
        SessionError: there is none, both are given, or the summarizer is no function.
    """
    if (content is None) == (summarizer is None):
        raise SessionError(
            "a collapse needs what the child found out: give content, or a summarizer, not both; or configure a model, "
            "which writes it"
        )
    if not (summarizer is None or callable(summarizer)):
        raise SessionError(
            f"a summarizer is a function that writes the outcome, not {brief_repr(summarizer)}"
        )


def outcome_of(context: CompiledContext, source: Source) -> str:
    """Have the outcome of a child written, from all that it said.

    Raises:
        SessionError: no text was good; nothing was changed.
    """
    group = CompressGroup((context.head or "",), tuple(context.messages))
    try:
        return source.texts([group])[0]
    except CompressionError as error:
        raise SessionError(f"the outcome of the child is empty, or not good: {error}") from error


def as_content(given: str | dict[str, Any] | BaseModel) -> dict[str, Any] | BaseModel:
    """Return the outcome as a content; a text becomes an output.

    Raises:
        SessionError: it is empty.
    """
    if isinstance(given, str) and not given.strip():
        raise SessionError("the outcome of the child is empty; nothing was changed")
    return {"content_type": "output", "text": given} if isinstance(given, str) else given


def origin_metadata(child: Family, context: CompiledContext) -> dict[str, Any]:
    """Return the metadata of the parent's commit that says where it came from."""
    branch = {} if child.branch is None else {_BRANCH: child.branch}
    return {_TRACT: child.tract_id, _HEAD: context.head, **branch}


def source_of(metadata: dict[str, Any]) -> Origin | None:
    """Return the child that a commit came from; None if it is no outcome of one."""
    tract_id, branch = metadata.get(_TRACT), metadata.get(_BRANCH)
    return None if tract_id is None else Origin(tract_id, branch)


Selector: TypeAlias = Callable[[CommitInfo], object] | Collection[str]
"""The messages that are asked for: a function that says so of each, or names of tags and commits."""


class ParentHistory:
    """The history that one commit stands for, read once.

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
        """Return the criteria of what a summary must keep of a message; only important ones have them."""
        return self._retention.get(message.commit_hash) if message.priority is Priority.IMPORTANT else None

    def with_tools(self, drafts: list[Draft]) -> list[Draft]:
        """Return the drafts, the last of them linked to the tools that are in effect here."""
        tools = self.timeline.tools_hash
        if not drafts or tools is None:
            return drafts
        return [*drafts[:-1], drafts[-1]._replace(tools_hash=tools)]

    def tags(self) -> dict[str, set[str]]:
        """Return the tags of each message, with those of its edits."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for row in self.rows:
            of = row.edit_target or row.commit_hash
            found[of].update(row.tags, self.added.get(row.commit_hash, ()))
        return found

    def message(self, name: str, resolve: Callable[[str], str]) -> str:
        """Return the message that a name stands for; the name of an edit stands for what it edits.

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
        """Return the messages that are asked for, with their edits and annotations.

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
    history: ParentHistory, curation: Curation, resolve: Callable[[str], str], counter: TokenCounter
) -> Curated:
    """Apply a curation to a history, without writing anything.

    Raises:
        SessionError: a step of it cannot be done.
        CompressionError: the summary is not a text, or lacks what must be kept.
        CommitNotFoundError: it names what is no message of the history.
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
    """Return the messages to skip that are not skipped yet, and why."""
    wanted, tags = set(curation.keep_tags), history.tags()
    unknown = wanted.difference(*tags.values()) if wanted else set()
    if unknown:
        raise SessionError(f"no message has the tag {', '.join(sorted(unknown))}; tags.list() lists the tags")
    dropped = {history.message(name, resolve) for name in curation.drop}
    found = {}
    for message in history.messages:
        name = message.commit_hash
        if name in dropped:
            found[name] = "dropped"
        elif wanted and message.priority is not Priority.PINNED and not wanted & tags[name]:
            found[name] = f"not tagged {' or '.join(sorted(wanted))}"
    return found


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
    kept = {message.commit_hash for message in before} - set(names)
    gone = {
        row.commit_hash
        for row in history.rows[:end]
        if row.operation == APPEND and row.commit_hash not in kept
    }
    first = items.index(history.rows[place[names[0]]])
    return [
        item
        for item in [*items[:first], summary, *items[first:]]
        if (item.edit_target or _name(item)) not in gone
    ]


def _summary(
    history: ParentHistory, curation: Curation, messages: Sequence[Message], counter: TokenCounter
) -> Draft:
    """Return a summary as a compression would write it, so that `expand` gives the messages back."""
    commits = tuple(message.commit_hash for message in messages)
    criteria = tuple(found for message in messages if (found := history.criteria(message)) is not None)
    group = CompressGroup(commits, tuple(messages), criteria)
    given = curation.summary
    source = Source(summarizer=given, count=counter.count_text) if callable(given) else Source(content=given)
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
        raise SessionError(
            f"{missing[0][:8]} is no message any more after the steps before; leave it out of reorder"
        )
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
    """Return the hash of a commit; None for one that is yet to be."""
    return item.commit_hash if isinstance(item, Entry) else None


@dataclass(frozen=True, slots=True)
class InheritedContext:
    """The inheritance of a child: drafts for its tract, and the tags that were added to their sources."""

    parent_id: str
    head: str
    inheritance: Inheritance
    drafts: Sequence[Draft]
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)


class Family:
    """The parents and children of one tract, or of an agent on one of its branches."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.tract_id = repository.rows.tract_id
        self.branch = repository.agent_branch
        """The branch that this agent was deployed on; None for a tract."""
        self._tag_rows = TagRows(self.tract_id)
        self._spawns = SpawnRows(self.tract_id, self.branch)

    @property
    def agent_id(self) -> str:
        """The id that `Session.get_tract` takes."""
        return agent_id(self.tract_id, self.branch)

    def parent(self) -> SpawnInfo | None:
        """Return where this tract came from; None if it is nobody's child."""
        with self._repository.database.read() as connection:
            return self._spawns.parent(connection)

    def ancestors(self) -> list[str]:
        """Return the ids of the tracts that this one comes from, its parent first."""
        found: list[str] = []
        with self._repository.database.read() as connection:
            # a tract that was opened beside another one is its child on every branch
            parent = self._spawns.parent(connection) or SpawnRows(self.tract_id).parent(connection)
            while parent is not None and parent.parent_tract_id not in found:
                found.append(parent.parent_tract_id)
                parent = SpawnRows(parent.parent_tract_id).parent(connection)
        return found

    def children(self) -> list[SpawnInfo]:
        """Return the children of this tract, oldest first."""
        with self._repository.database.read() as connection:
            return self._spawns.children(connection)

    def standing(self, child: str | None = None) -> list[tuple[SpawnInfo, Position]]:
        """Return children of this tract, oldest first, each with its current branch and newest commit.

        Args:
            child: the id of one of them; all if left out.

        Raises:
            UnknownTractError: this tract has no such child.
        """
        found = [info for info in self.children() if child in (None, info.child_id)]
        if child is not None and not found:
            known = ", ".join(info.child_id for info in self.children()) or "none"
            raise UnknownTractError(f"this tract has no child {brief_repr(child)}; its children are: {known}")
        with self._repository.database.read() as connection:
            return [(info, _position(connection, info)) for info in found]

    def history(self, doing: str) -> ParentHistory:
        """Return all that HEAD stands for.

        Raises:
            SessionError: it has no commits.
        """
        with self._repository.database.read() as connection:
            head = self._repository.ref_rows.position(connection).commit_hash
            if head is None:
                raise SessionError(f"{self.agent_id} has no commits yet: nothing to {doing}")
            lineage = self._repository.rows.lineage(connection, head, Entry)
            return ParentHistory(lineage, self._added_tags(connection))

    def prepare_inheritance(
        self, inheritance: Inheritance, select: Selector | None = None, max_tokens: int | None = None
    ) -> InheritedContext:
        """Return what a child would be given. Writes nothing.

        Raises:
            SessionError: there is nothing to give, or an option does not go with the inheritance.
        """
        _check_options(inheritance, select, max_tokens)
        if select is not None and not callable(select):
            select = listed(select, "select", error=SessionError)
        history = self.history("inherit")
        if inheritance is Inheritance.HEAD_SNAPSHOT:
            drafts = [self._snapshot(history, max_tokens)]
        elif select is not None:
            drafts = [Draft.of(row) for row in history.selected(select, self._repository.refs.resolve)]
        else:
            drafts = [Draft.of(row) for row in history.everything()]
        with self._repository.database.read() as connection:
            descriptions = self._tag_rows.descriptions(connection)
        head, given = history.head.commit_hash, history.with_tools(drafts)
        return InheritedContext(self.tract_id, head, inheritance, given, history.added, descriptions)

    def inherit(self, inherited: InheritedContext, purpose: str) -> None:
        """Take what a parent gives, into a tract that is empty: one operation, which `undo` takes back."""
        source = f"{inherited.inheritance.value} of {inherited.parent_id[:8]}"
        start = Position(DEFAULT_BRANCH, None)
        plan = Plan(DEFAULT_BRANCH, None, start, inherited.drafts, "spawn", source)
        with self._repository.database.write() as connection:
            self._write(connection, plan, inherited.tags)
            if inherited.inheritance is not Inheritance.HEAD_SNAPSHOT:
                for tag, description in inherited.descriptions.items():
                    self._tag_rows.describe(connection, tag, description)
            self._spawns.add(connection, inherited.parent_id, inherited.head, purpose, inherited.inheritance)
            data = {"child": self.tract_id, "purpose": purpose, "inheritance": inherited.inheritance.value}
            EventRows(inherited.parent_id).append(connection, "spawn", "user", data)

    def branch_off(self, name: str, purpose: str) -> str:
        """Make a branch at HEAD with a HEAD of its own, for an agent; return the name of that HEAD.

        Raises:
            InvalidBranchNameError: git would refuse the name.
            BranchExistsError: there is such a branch.
            SessionError: there are no commits yet.
        """
        check_name(name)
        agent = RefRows(self.tract_id, AGENT_HEAD + name)
        with self._repository.database.write() as connection:
            head = self._repository.ref_rows.position(connection).commit_hash
            if head is None:
                raise SessionError(f"{self.agent_id} has no commits yet: nothing to deploy an agent on")
            if agent.exists(connection, name) or agent.was_made(connection):
                raise BranchExistsError(
                    f"there is a branch {name!r}, or an agent of that branch, already; choose another name, or "
                    f"get_tract({agent_id(self.tract_id, name)!r}) if the agent is meant"
                )
            agent.create(connection, name, head)
            agent.point_head(connection, name)
            SpawnRows(self.tract_id, name).add(connection, self.tract_id, head, purpose, Inheritance.BRANCH)
            self.note("deploy", {"branch": name, "purpose": purpose, "head": head})
        return agent.head_name

    def curate(self, curation: Curation) -> None:
        """Make the current branch smaller; one operation, which `undo` takes back.

        Raises:
            SessionError: a step cannot be done; nothing was changed.
        """
        history = self.history("curate")
        base, drafts = curated(history, curation, self._repository.refs.resolve, self._repository.counter)
        if not drafts:
            return
        here = self._repository.refs.on_branch("curate")
        start = Position(here.branch, None) if base is None else Position.of(here.branch, base)
        plan = Plan(
            here.branch or "", here.commit_hash, start, drafts, "curate", "", {"commits": len(drafts)}
        )
        with self._repository.database.write() as connection:
            self._write(connection, plan, history.added)

    def note(self, event_type: str, data: dict[str, Any]) -> None:
        """Record that something happened."""
        with self._repository.database.write() as connection:
            EventRows(self.tract_id).append(connection, event_type, "user", data)

    def _snapshot(self, history: ParentHistory, max_tokens: int | None) -> Draft:
        messages = history.messages
        if not messages:
            raise SessionError(f"the context of {self.agent_id} is empty: nothing to inherit")
        head = history.head.commit_hash
        title = f"# What was said before, in {self.agent_id} up to {head[:8]}"
        text, left_out = snapshot(messages, title, self._repository.corrections.count, max_tokens)
        source = {"tract_id": self.tract_id, "head": head, "left_out": left_out}
        content = {"content_type": "instruction", "text": text}
        return draft(content, self._repository.counter, metadata={"inherited_from": source})

    def _write(self, connection: Connection, plan: Plan, tags: Mapping[str, Sequence[str]]) -> None:
        """Carry a plan out, and give copies the tags that were added to their sources."""
        entries = self._repository.writer.write(plan)
        for placed, entry in zip(plan.drafts, entries, strict=True):
            for tag in tags.get(placed.source or "", ()):
                self._tag_rows.add(connection, entry.commit_hash, tag)

    def _added_tags(self, connection: Connection) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for commit_hash, tag in self._tag_rows.all(connection):
            found[commit_hash] = (*found.get(commit_hash, ()), tag)
        return found


def _check_options(inheritance: Inheritance, select: Selector | None, max_tokens: int | None) -> None:
    if inheritance in {Inheritance.BRANCH, Inheritance.NOTHING}:
        raise SessionError("a spawned child has a tract of its own; deploy makes an agent on a branch")
    if (select is not None) != (inheritance is Inheritance.SELECTIVE):
        raise SessionError(
            "inheritance='selective' and select go together: say which messages the child gets"
        )
    if max_tokens is not None and inheritance is not Inheritance.HEAD_SNAPSHOT:
        raise SessionError("max_tokens goes with inheritance='head_snapshot', which is one text")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise SessionError(f"max_tokens is a positive number of tokens, not {max_tokens!r}")


def _position(connection: Connection, info: SpawnInfo) -> Position:
    """Return where a child stands; a deployed one on its branch, which may be gone."""
    rows = RefRows(info.child_tract_id)
    if info.child_branch is None:
        return rows.position(connection)
    return rows.at_branch(connection, info.child_branch) or Position(None, None)
