"""Parents and children: what a tract gives to a child, how a child takes it, and agents on branches.

A spawned child has a tract of its own. Commits are hashed with their tract, so what it inherits has other hashes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.context.commits import draft
from tract_jupyter.context.heritage import Heritage, curated
from tract_jupyter.context.refs import DEFAULT_BRANCH, check_name
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import BranchExistsError, CompressionError, SessionError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.checks import listed
from tract_jupyter.models.compression import CompressGroup
from tract_jupyter.models.content import Priority
from tract_jupyter.models.spawn import Inheritance, agent_id
from tract_jupyter.models.text import brief_repr
from tract_jupyter.storage.entry import Draft, Entry
from tract_jupyter.storage.journal import EventRows
from tract_jupyter.storage.refs import AGENT_HEAD, Position, RefRows, TagRows
from tract_jupyter.storage.tracts import SpawnRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pydantic import BaseModel
    from sqlalchemy import Connection

    from tract_jupyter.context.heritage import Selector
    from tract_jupyter.context.refs import Refs
    from tract_jupyter.context.summaries import Source
    from tract_jupyter.context.tokens import Corrections
    from tract_jupyter.context.writer import Writer
    from tract_jupyter.models.context import CompiledContext, Message
    from tract_jupyter.models.spawn import Curation, SpawnInfo
    from tract_jupyter.protocols import Summarizer, TokenCounter
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database


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
    """The smallest number below `limit` that fits, by halving; None if the largest does not."""
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
    text = [message.content] if message.content else []
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


def metadata_of(child: Family, context: CompiledContext) -> dict[str, Any]:
    """What the parent's commit says about where it came from."""
    branch = {} if child.branch is None else {_BRANCH: child.branch}
    return {_TRACT: child.tract_id, _HEAD: context.head, **branch}


def source_of(metadata: dict[str, Any]) -> Origin | None:
    """The child that a commit came from; None if it is no outcome of one."""
    tract_id, branch = metadata.get(_TRACT), metadata.get(_BRANCH)
    return None if tract_id is None else Origin(tract_id, branch)


@dataclass(frozen=True, slots=True)
class Bequest:
    """What a child is given: drafts for its tract, and the tags that were added to their sources."""

    parent_id: str
    head: str
    inheritance: Inheritance
    drafts: Sequence[Draft]
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)


class Family:
    """The parents and children of one tract, or of an agent on one of its branches."""

    def __init__(
        self,
        database: Database,
        rows: CommitRows,
        refs: Refs,
        ref_rows: RefRows,
        writer: Writer,
        counter: TokenCounter,
        corrections: Corrections,
    ) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs
        self._ref_rows = ref_rows
        self._writer = writer
        self._counter = counter
        self._corrections = corrections
        head_name = ref_rows.head_name
        self.tract_id = rows.tract_id
        self.branch = head_name.removeprefix(AGENT_HEAD) if head_name.startswith(AGENT_HEAD) else None
        """The branch that this agent was deployed on; None for a tract."""
        self._tag_rows = TagRows(self.tract_id)
        self._spawns = SpawnRows(self.tract_id, self.branch)

    @property
    def agent_id(self) -> str:
        """What `Session.get_tract` takes."""
        return agent_id(self.tract_id, self.branch)

    def parent(self) -> SpawnInfo | None:
        """Where this one came from."""
        with self._database.read() as connection:
            return self._spawns.parent(connection)

    def children(self) -> list[SpawnInfo]:
        """Who came from this tract, oldest first."""
        with self._database.read() as connection:
            return self._spawns.children(connection)

    def heritage(self, doing: str) -> Heritage:
        """All that HEAD stands for.

        Raises:
            SessionError: it has no commits.
        """
        with self._database.read() as connection:
            head = self._ref_rows.position(connection).commit_hash
            if head is None:
                raise SessionError(f"{self.agent_id} has no commits yet: nothing to {doing}")
            lineage = self._rows.lineage(connection, head, Entry)
            return Heritage(lineage, self._added_tags(connection))

    def bequest(
        self, inheritance: Inheritance, select: Selector | None = None, max_tokens: int | None = None
    ) -> Bequest:
        """What a child is given. Writes nothing.

        Raises:
            SessionError: there is nothing to give, or an option does not go with the inheritance.
        """
        _check_options(inheritance, select, max_tokens)
        if select is not None and not callable(select):
            select = listed(select, "select", error=SessionError)
        heritage = self.heritage("inherit")
        if inheritance is Inheritance.HEAD_SNAPSHOT:
            drafts = [self._snapshot(heritage, max_tokens)]
        elif select is not None:
            drafts = [Draft.of(row) for row in heritage.selected(select, self._refs.resolve)]
        else:
            drafts = [Draft.of(row) for row in heritage.everything()]
        with self._database.read() as connection:
            descriptions = self._tag_rows.descriptions(connection)
        head, given = heritage.head.commit_hash, heritage.with_tools(drafts)
        return Bequest(self.tract_id, head, inheritance, given, heritage.added, descriptions)

    def inherit(self, bequest: Bequest, purpose: str) -> None:
        """Take what a parent gives, into a tract that is empty: one operation, which `undo` takes back."""
        source = f"{bequest.inheritance.value} of {bequest.parent_id[:8]}"
        start = Position(DEFAULT_BRANCH, None)
        plan = Plan(DEFAULT_BRANCH, None, start, bequest.drafts, "spawn", source)
        with self._database.write() as connection:
            self._write(connection, plan, bequest.tags)
            if bequest.inheritance is not Inheritance.HEAD_SNAPSHOT:
                for tag, description in bequest.descriptions.items():
                    self._tag_rows.describe(connection, tag, description)
            self._spawns.add(connection, bequest.parent_id, bequest.head, purpose, bequest.inheritance)
            data = {"child": self.tract_id, "purpose": purpose, "inheritance": bequest.inheritance.value}
            EventRows(bequest.parent_id).append(connection, "spawn", "user", data)

    def branch_off(self, name: str, purpose: str) -> str:
        """Make a branch at HEAD with a HEAD of its own, for an agent; return the name of that HEAD.

        Raises:
            InvalidBranchNameError: git would refuse the name.
            BranchExistsError: there is such a branch.
            SessionError: there are no commits yet.
        """
        check_name(name)
        agent = RefRows(self.tract_id, AGENT_HEAD + name)
        with self._database.write() as connection:
            head = self._ref_rows.position(connection).commit_hash
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
        heritage = self.heritage("curate")
        base, drafts = curated(heritage, curation, self._refs.resolve, self._counter)
        if not drafts:
            return
        here = self._refs.on_branch("curate")
        start = Position(here.branch, None) if base is None else Position.of(here.branch, base)
        plan = Plan(
            here.branch or "", here.commit_hash, start, drafts, "curate", "", {"commits": len(drafts)}
        )
        with self._database.write() as connection:
            self._write(connection, plan, heritage.added)

    def note(self, event_type: str, data: dict[str, Any]) -> None:
        """Record that something happened."""
        with self._database.write() as connection:
            EventRows(self.tract_id).append(connection, event_type, "user", data)

    def _snapshot(self, heritage: Heritage, max_tokens: int | None) -> Draft:
        messages = heritage.messages
        if not messages:
            raise SessionError(f"the context of {self.agent_id} is empty: nothing to inherit")
        head = heritage.head.commit_hash
        title = f"# What was said before, in {self.agent_id} up to {head[:8]}"
        text, left_out = snapshot(messages, title, self._corrections.count, max_tokens)
        source = {"tract_id": self.tract_id, "head": head, "left_out": left_out}
        content = {"content_type": "instruction", "text": text}
        return draft(content, self._counter, metadata={"inherited_from": source})

    def _write(self, connection: Connection, plan: Plan, tags: Mapping[str, Sequence[str]]) -> None:
        """Carry a plan out, and give copies the tags that were added to their sources."""
        entries = self._writer.write(plan)
        for placed, entry in zip(plan.drafts, entries, strict=True):
            for tag in tags.get(placed.source or "", ()):
                self._tag_rows.add(connection, entry.commit_hash, tag)

    def _added_tags(self, connection: Connection) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for commit_hash, tag in self._tag_rows.all(connection):
            found[commit_hash] = (*found.get(commit_hash, ()), tag)
        return found


def _check_options(inheritance: Inheritance, select: Selector | None, max_tokens: int | None) -> None:
    if inheritance is Inheritance.BRANCH:
        raise SessionError("a spawned child has a tract of its own; deploy makes an agent on a branch")
    if (select is not None) != (inheritance is Inheritance.SELECTIVE):
        raise SessionError(
            "inheritance='selective' and select go together: say which messages the child gets"
        )
    if max_tokens is not None and inheritance is not Inheritance.HEAD_SNAPSHOT:
        raise SessionError("max_tokens goes with inheritance='head_snapshot', which is one text")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise SessionError(f"max_tokens is a positive number of tokens, not {max_tokens!r}")
