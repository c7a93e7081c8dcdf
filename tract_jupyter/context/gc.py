"""Garbage collection: remove unreachable commits and unused contents.

The roots are branches, HEAD, their recent moves, open pendings, compile records and the commits of other tracts. The
parents of a reachable commit, its target and the originals of a summary are reachable as well.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import func, select, text

from tract_jupyter.context.splice import reference
from tract_jupyter.exceptions import HistoryError
from tract_jupyter.models import COMPRESSED_FROM, GCResult, working
from tract_jupyter.storage import attached_contents, attached_hashes, from_json, schema, to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository


_HASH = re.compile(r"[0-9a-f]{64}")
_AT_ONCE = 500  # SQLite bounds the number of variables
# columns that a database searches for references to each deleted row; only deletions need an index on them
_REFERENCES: Final = ("parent_hash", "content_hash", "tools_hash")


class Node(NamedTuple):
    """The columns of a commit that garbage collection needs."""

    commit_hash: str
    tract_id: str
    parent_hash: str | None
    edit_target: str | None
    content_hash: str
    tools_hash: str | None
    token_count: int
    metadata_json: str
    created_at: str


_BLOB: Final = schema.blobs.c
_COLUMNS = tuple(schema.commits.c[name] for name in Node._fields)


class Reach:
    """Reads and deletes rows of the full store for the collection of one tract. Tracts share contents."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def nodes(self, connection: Connection) -> dict[str, Node]:
        """Return every commit of all tracts, oldest first."""
        rows = connection.execute(select(*_COLUMNS).order_by(schema.commits.c.id))
        return {row.commit_hash: Node._make(row) for row in rows}

    def merge_parents(self, connection: Connection) -> dict[str, list[str]]:
        """Return the second and later parents of every merge of the store."""
        parents: dict[str, list[str]] = {}
        for row in connection.execute(
            select(schema.commit_parents.c.commit_hash, schema.commit_parents.c.parent_hash)
        ):
            parents.setdefault(row.commit_hash, []).append(row.parent_hash)
        return parents

    def roots(self, connection: Connection, since: str) -> set[str]:
        """Return the commits in refs, in moves after `since`, and in open pendings, compile records and spawns."""
        queries = [
            select(schema.refs.c.commit_hash),
            select(schema.compile_records.c.head_hash),
            select(schema.spawns.c.parent_commit_hash),
            select(schema.reflog.c.old).where(schema.reflog.c.created_at >= since),
            select(schema.reflog.c.new).where(schema.reflog.c.created_at >= since),
        ]
        hashes = {name for query in queries for name in connection.scalars(query) if name is not None}
        # except pendings of `gc`, which name the commits to remove
        is_waiting = (schema.pendings.c.settled_at.is_(None), schema.pendings.c.operation != "gc")
        waiting = select(schema.pendings.c.fields_json).where(*is_waiting)
        for fields in connection.scalars(waiting):
            hashes.update(_HASH.findall(fields))
        return hashes

    def stale_moves(self, connection: Connection, gone: Collection[str]) -> list[int]:
        """Return the ids of this tract's recorded moves to removed commits."""
        query = select(schema.reflog.c.id, schema.reflog.c.new).where(
            schema.reflog.c.tract_id == self.tract_id
        )
        return [row.id for row in connection.execute(query) if row.new in gone]

    def blobs(self, connection: Connection, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the stored bytes of each hash, if any."""
        payloads: dict[str, bytes] = {}
        for group in _groups(sorted(hashes)):
            query = select(_BLOB.content_hash, _BLOB.payload).where(_BLOB.content_hash.in_(group))
            payloads.update((row.content_hash, row.payload) for row in connection.execute(query))
        return payloads

    def attached(self, connection: Connection) -> dict[str, set[str]]:
        """Return the attachment hashes of each content with attachments."""
        return {name: attached_hashes(payload) for name, payload in attached_contents(connection)}

    def size(self, connection: Connection, hashes: Collection[str]) -> int:
        """Return the bytes of these blobs."""
        total = 0
        for group in _groups(sorted(hashes)):
            query = select(func.sum(func.length(_BLOB.payload))).where(_BLOB.content_hash.in_(group))
            total += connection.scalar(query) or 0
        return total

    @contextmanager
    def removing(self, connection: Connection) -> Iterator[None]:
        """Create temporary indexes. With them, the cost of a deletion does not grow with the store."""
        for name in _REFERENCES:
            connection.execute(text(f"CREATE INDEX ix_removing_{name} ON commits ({name})"))
        yield
        for name in _REFERENCES:
            connection.execute(text(f"DROP INDEX ix_removing_{name}"))

    def remove_blobs(self, connection: Connection, hashes: Collection[str]) -> None:
        """Delete unused blobs."""
        for group in _groups(sorted(hashes)):
            connection.execute(schema.blobs.delete().where(_BLOB.content_hash.in_(group)))

    def remove_moves(self, connection: Connection, ids: Sequence[int]) -> None:
        """Delete recorded moves."""
        for start in range(0, len(ids), _AT_ONCE):
            connection.execute(
                schema.reflog.delete().where(schema.reflog.c.id.in_(ids[start : start + _AT_ONCE]))
            )

    def remove_tags(self, connection: Connection, gone: Collection[str]) -> None:
        """Delete the tags that were added to commits. Call this before the commits are removed."""
        for group in _groups(sorted(gone)):
            connection.execute(
                schema.tag_annotations.delete().where(schema.tag_annotations.c.target_hash.in_(group))
            )


def _groups(hashes: Sequence[str]) -> Iterator[list[str]]:
    return (list(hashes[start : start + _AT_ONCE]) for start in range(0, len(hashes), _AT_ONCE))


@dataclass(frozen=True, slots=True)
class Retain:
    """Days to keep unreachable commits."""

    orphans: float = 7
    archives: float | None = None
    """Days to keep the originals of summaries; None keeps them forever."""

    def __post_init__(self) -> None:
        for name, days in (
            ("orphan_retention_days", self.orphans),
            ("archive_retention_days", self.archives),
        ):
            if days is None and name.startswith("archive"):
                continue
            if isinstance(days, bool) or not isinstance(days, int | float) or not days >= 0:
                raise HistoryError(f"{name} must be a number of days, 0 or more; got {days!r}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The unreachable commits to remove: all, or only the commits in `only`; never the commits in `keep`."""

    keep: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def keeps(self, commit_hash: str) -> bool:
        """Return True if the choice keeps a commit."""
        return commit_hash in self.keep or (self.only is not None and commit_hash not in self.only)


class _Garbage:
    """The removable commits and contents, collected in one transaction."""

    def __init__(self, connection: Connection, reach: Reach, retain: Retain, choice: Choice) -> None:
        self._connection = connection
        self._reach = reach
        self._choice = choice
        now = _now()
        self._since = _before(now, retain.orphans)
        self._archives_since = None if retain.archives is None else _before(now, retain.archives)
        self._nodes = reach.nodes(connection)
        self._parents = reach.merge_parents(connection)
        reachable = self._reachable()
        self.commits = tuple(name for name in self._nodes if name not in reachable)
        self.blobs = self._unused([self._nodes[name] for name in reachable])
        self.moves = reach.stale_moves(connection, frozenset(self.commits))
        self.bytes = reach.size(connection, self.blobs)
        self.tokens = sum(self._nodes[name].token_count for name in self.commits)

    def _reachable(self) -> set[str]:
        waiting = [name for name in self._reach.roots(self._connection, self._since) if name in self._nodes]
        tract_id = self._reach.tract_id
        waiting += [
            n.commit_hash
            for n in self._nodes.values()
            if n.tract_id != tract_id or n.created_at >= self._since or self._choice.keeps(n.commit_hash)
        ]
        reachable: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in reachable:
                reachable.add(name)
                waiting += self._next(self._nodes[name])
        return reachable

    def _next(self, node: Node) -> list[str]:
        """Return the dependencies of a commit: its parents, its target, and the summarized history."""
        names = [
            node.parent_hash,
            node.edit_target,
            *self._parents.get(node.commit_hash, ()),
            self._archive(node),
        ]
        return [name for name in names if name is not None and name in self._nodes]

    def _archive(self, node: Node) -> str | None:
        is_summary = COMPRESSED_FROM in node.metadata_json  # avoids parsing for other commits
        origin = reference(from_json(node.metadata_json, dict)) if is_summary else None
        head = self._nodes.get(origin[0]) if origin else None
        if head is None:
            return None
        old = self._archives_since is not None and head.created_at < self._archives_since
        return None if old else head.commit_hash

    def _unused(self, reachable: list[Node]) -> set[str]:
        """Return contents, attachments and tools that only removed commits use."""
        removed = [self._nodes[name] for name in self.commits]
        if not removed:
            return set()
        tools = {node.tools_hash for node in reachable if node.tools_hash}
        old_tools = {node.tools_hash for node in removed if node.tools_hash} - tools
        contents, old_contents = ({node.content_hash for node in each} for each in (reachable, removed))
        attached = self._reach.attached(self._connection)
        files, old_files = (
            {name for content in each & attached.keys() for name in attached[content]}
            for each in (contents, old_contents)
        )
        used = contents | files | tools | self._schemas(tools)
        return (old_contents | old_files | old_tools | self._schemas(old_tools)) - used

    def _schemas(self, tools: set[str]) -> set[str]:
        """Return the schemas in lists of tools."""
        lists = self._reach.blobs(self._connection, tools).values()
        return {name for payload in lists for name in json.loads(payload)["tools"]}


class GarbageCollector:
    """Removes unreachable commits of one tract."""

    def __init__(self, repository: Repository, reach: Reach) -> None:
        self._repository = repository
        self._reach = reach

    def run(self, retain: Retain, choice: Choice, *, dry_run: bool = False) -> GCResult:
        """Remove unreachable commits in one transaction."""
        with working("Looking for unreachable commits"):
            return self._run(retain, choice, dry_run=dry_run)

    def _run(self, retain: Retain, choice: Choice, *, dry_run: bool) -> GCResult:
        if dry_run:
            with self._repository.database.read() as connection:
                return _result(_Garbage(connection, self._reach, retain, choice), dry_run=True)
        with self._repository.database.write() as connection:
            garbage = _Garbage(connection, self._reach, retain, choice)
            if garbage.commits:
                self._remove(connection, garbage)
        if garbage.commits:
            self._repository.timelines.forget()
            self._repository.writer.forget_position()
        return _result(garbage, dry_run=False)

    def _remove(self, connection: Connection, garbage: _Garbage) -> None:
        self._reach.remove_moves(connection, garbage.moves)
        self._reach.remove_tags(connection, garbage.commits)
        with self._reach.removing(connection):
            self._repository.rows.remove(connection, garbage.commits)
            self._reach.remove_blobs(connection, garbage.blobs)
        data = {
            "commits": len(garbage.commits),
            "blobs": len(garbage.blobs),
            "bytes": garbage.bytes,
            "tokens": garbage.tokens,
        }
        self._repository.events.append(connection, "gc", "user", data)


def _result(garbage: _Garbage, *, dry_run: bool) -> GCResult:
    return GCResult(
        commits=garbage.commits,
        blobs=len(garbage.blobs),
        bytes=garbage.bytes,
        tokens=garbage.tokens,
        reflog_entries=len(garbage.moves),
        dry_run=dry_run,
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _before(now: datetime, days: float) -> str:
    try:
        return to_text(now - timedelta(days=days))
    except OverflowError:  # before year 1: all commits are newer
        return ""
