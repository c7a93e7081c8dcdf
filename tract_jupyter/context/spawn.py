"""The parents and children of a tract.

A spawned child has its own tract. Commit hashes include the tract, so inherited commits get new hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.context.commits import draft
from tract_jupyter.context.refs import DEFAULT_BRANCH
from tract_jupyter.context.timeline import Timeline
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import SessionError, UnknownTractError
from tract_jupyter.models import Inheritance, Priority, agent_id, brief_repr, canonical_json
from tract_jupyter.storage import MERGE, Draft, Entry, EventRows, Position, RefRows, SpawnRows, TagRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.models import Message, SpawnInfo


@dataclass(frozen=True, slots=True)
class InheritedContext:
    """The inheritance of a child: drafts for its tract, and the added tags of their sources."""

    parent_id: str
    head: str
    inheritance: Inheritance
    drafts: Sequence[Draft]
    tags: Mapping[str, Sequence[str]]
    descriptions: Mapping[str, str]


class Family:
    """The parents and children of one tract, or of an agent on one of its branches."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.tract_id = repository.rows.tract_id
        self.branch = repository.agent_branch
        """The branch, if the tract is open on one branch with its own HEAD."""
        self._tag_rows = TagRows(self.tract_id)
        self._spawns = SpawnRows(self.tract_id)

    @property
    def agent_id(self) -> str:
        """The id for `Session.get_tract`."""
        return agent_id(self.tract_id, self.branch)

    def parent(self) -> SpawnInfo | None:
        """Return the origin of this tract; None if it has no parent."""
        with self._repository.database.read() as connection:
            return self._spawns.parent(connection)

    def ancestors(self) -> list[str]:
        """Return the ids of this tract's ancestors, the parent first."""
        ancestors: list[str] = []
        with self._repository.database.read() as connection:
            parent = self._spawns.parent(connection)
            while parent is not None and parent.parent_tract_id not in ancestors:
                ancestors.append(parent.parent_tract_id)
                parent = SpawnRows(parent.parent_tract_id).parent(connection)
        return ancestors

    def children(self) -> list[SpawnInfo]:
        """Return the children of this tract, oldest first."""
        with self._repository.database.read() as connection:
            return self._spawns.children(connection)

    def standing(self, child: str | None = None) -> list[tuple[SpawnInfo, Position]]:
        """Return the children of this tract, oldest first, with their current branches and newest commits."""
        children = [info for info in self.children() if child in (None, info.child_tract_id)]
        if child is not None and not children:
            known = ", ".join(info.child_tract_id for info in self.children()) or "none"
            raise UnknownTractError(f"this tract has no child {brief_repr(child)}; its children are: {known}")
        with self._repository.database.read() as connection:
            return [(info, RefRows(info.child_tract_id).position(connection)) for info in children]

    def prepare_inheritance(
        self, inheritance: Inheritance, max_tokens: int | None = None
    ) -> InheritedContext:
        """Return the inheritance of a child. Writes nothing."""
        _check_options(inheritance, max_tokens)
        repository, is_snapshot = self._repository, inheritance is Inheritance.HEAD_SNAPSHOT
        with repository.database.read() as connection:
            head = repository.ref_rows.position(connection).commit_hash
            if head is None:
                raise SessionError(f"{self.agent_id} has no commits yet: nothing to inherit")
            lineage = repository.rows.lineage(connection, head, Entry)
            tags = repository.tags.added()
            descriptions = {} if is_snapshot else self._tag_rows.descriptions(connection)
        timeline = Timeline([row.step() for row in lineage.rows], lineage.merged)
        if is_snapshot:
            drafts = [self._snapshot(head, timeline.context().messages, max_tokens)]
        else:  # the merged commits are part of the history
            drafts = [Draft.of(row) for row in lineage.rows if row.operation != MERGE]
        if drafts and timeline.tools_hash is not None:
            drafts[-1] = drafts[-1]._replace(tools_hash=timeline.tools_hash)
        return InheritedContext(self.tract_id, head, inheritance, drafts, tags, descriptions)

    def inherit(self, inherited: InheritedContext, purpose: str) -> None:
        """Commit the inheritance to an empty tract, as one operation for `undo`."""
        source = f"{inherited.inheritance.value} of {inherited.parent_id[:8]}"
        start = Position(DEFAULT_BRANCH, None)
        plan = Plan(DEFAULT_BRANCH, None, start, inherited.drafts, "spawn", source)
        with self._repository.database.write() as connection:
            self._write(connection, plan, inherited.tags)
            for tag, description in inherited.descriptions.items():
                self._tag_rows.describe(connection, tag, description)
            self._spawns.add(connection, inherited.parent_id, inherited.head, purpose, inherited.inheritance)
            data = {"child": self.tract_id, "purpose": purpose, "inheritance": inherited.inheritance.value}
            EventRows(inherited.parent_id).append(connection, "spawn", "user", data)

    def note(self, event_type: str, data: dict[str, Any]) -> None:
        """Record an event."""
        with self._repository.database.write() as connection:
            EventRows(self.tract_id).append(connection, event_type, "user", data)

    def _snapshot(self, head: str, messages: Sequence[Message], max_tokens: int | None) -> Draft:
        if not messages:
            raise SessionError(f"the context of {self.agent_id} is empty: nothing to inherit")
        title = f"# Earlier conversation in {self.agent_id}, up to {head[:8]}"
        text, left_out = snapshot(messages, title, self._repository.corrections.count, max_tokens)
        source = {"tract_id": self.tract_id, "head": head, "left_out": left_out}
        content = {"content_type": "instruction", "text": text}
        return draft(content, self._repository.counter, metadata={"inherited_from": source})

    def _write(self, connection: Connection, plan: Plan, tags: Mapping[str, Sequence[str]]) -> None:
        """Execute a plan, and copy the added tags of the sources."""
        entries = self._repository.writer.write(plan)
        for placed, entry in zip(plan.drafts, entries, strict=True):
            for tag in tags.get(placed.source or "", ()):
                self._tag_rows.add(connection, entry.commit_hash, tag)


def _check_options(inheritance: Inheritance, max_tokens: int | None) -> None:
    if inheritance is Inheritance.NOTHING:
        raise SessionError("a spawned child inherits a context; use head_snapshot or full_clone")
    if max_tokens is not None and inheritance is not Inheritance.HEAD_SNAPSHOT:
        raise SessionError("max_tokens requires inheritance='head_snapshot', which creates one text")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise SessionError(f"max_tokens must be a positive number of tokens, not {max_tokens!r}")


class Snapshot(NamedTuple):
    """The text, and the number of omitted messages."""

    text: str
    left_out: int


def snapshot(
    messages: Sequence[Message], title: str, count: Callable[[str], int], max_tokens: int | None
) -> Snapshot:
    """Write messages as one text, each under a heading. Above `max_tokens`, the oldest go first, pinned ones last."""
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
