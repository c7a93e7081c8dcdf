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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import func, select, text

from tract_jupyter.context.splice import reference
from tract_jupyter.exceptions import HistoryError
from tract_jupyter.models import COMPRESSED_FROM, GCResult, working
from tract_jupyter.storage import attached_contents, attached_hashes, batched, from_json, schema, to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sqlalchemy import Column, Connection

    from tract_jupyter.context.repository import Repository


_HASH = re.compile(r"[0-9a-f]{64}")
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


def _nodes(connection: Connection) -> dict[str, Node]:
    """Return every commit of all tracts, oldest first."""
    rows = connection.execute(select(*_COLUMNS).order_by(schema.commits.c.id))
    return {row.commit_hash: Node._make(row) for row in rows}


def _merge_parents(connection: Connection) -> dict[str, list[str]]:
    """Return the second and later parents of every merge of the store."""
    parents: dict[str, list[str]] = {}
    links = schema.commit_parents.c
    for row in connection.execute(select(links.commit_hash, links.parent_hash)):
        parents.setdefault(row.commit_hash, []).append(row.parent_hash)
    return parents


def _roots(connection: Connection, since: str) -> set[str]:
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
    for fields in connection.scalars(select(schema.pendings.c.fields_json).where(*is_waiting)):
        hashes.update(_HASH.findall(fields))
    return hashes


def _size(connection: Connection, hashes: Collection[str]) -> int:
    """Return the bytes of these blobs."""
    sizes = select(func.sum(func.length(_BLOB.payload)))
    return sum(
        connection.scalar(sizes.where(_BLOB.content_hash.in_(group))) or 0
        for group in batched(sorted(hashes))
    )


@contextmanager
def _removing(connection: Connection) -> Iterator[None]:
    """Create temporary indexes. With them, the cost of a deletion does not grow with the store."""
    for name in _REFERENCES:
        connection.execute(text(f"CREATE INDEX ix_removing_{name} ON commits ({name})"))
    yield
    for name in _REFERENCES:
        connection.execute(text(f"DROP INDEX ix_removing_{name}"))


def remove_rows(connection: Connection, column: Column[Any], values: Iterable[Any]) -> None:
    """Delete the rows with these values."""
    for group in batched(values):
        connection.execute(column.table.delete().where(column.in_(group)))


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

    def __init__(self, connection: Connection, tract_id: str, retain: Retain, choice: Choice) -> None:
        self._connection = connection
        self._tract_id = tract_id
        self._choice = choice
        now = _now()
        self._since = _before(now, retain.orphans)
        self._archives_since = None if retain.archives is None else _before(now, retain.archives)
        self._nodes = _nodes(connection)
        self._parents = _merge_parents(connection)
        reachable = self._reachable()
        self.commits = tuple(name for name in self._nodes if name not in reachable)
        self.blobs = self._unused([self._nodes[name] for name in reachable])
        self.moves = self._stale_moves()
        self.bytes = _size(connection, self.blobs)
        self.tokens = sum(self._nodes[name].token_count for name in self.commits)

    def _reachable(self) -> set[str]:
        waiting = [name for name in _roots(self._connection, self._since) if name in self._nodes]
        waiting += [
            n.commit_hash
            for n in self._nodes.values()
            if n.tract_id != self._tract_id
            or n.created_at >= self._since
            or self._choice.keeps(n.commit_hash)
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
        attached = {name: attached_hashes(payload) for name, payload in attached_contents(self._connection)}
        files, old_files = (
            {name for content in each & attached.keys() for name in attached[content]}
            for each in (contents, old_contents)
        )
        used = contents | files | tools | self._schemas(tools)
        return (old_contents | old_files | old_tools | self._schemas(old_tools)) - used

    def _schemas(self, tools: set[str]) -> set[str]:
        """Return the schemas in the stored lists of tools."""
        return {
            name
            for group in batched(sorted(tools))
            for payload in self._connection.scalars(
                select(_BLOB.payload).where(_BLOB.content_hash.in_(group))
            )
            for name in json.loads(payload)["tools"]
        }

    def _stale_moves(self) -> list[int]:
        """Return the ids of this tract's recorded moves to removed commits."""
        moves, gone = schema.reflog.c, frozenset(self.commits)
        query = select(moves.id, moves.new).where(moves.tract_id == self._tract_id)
        return [row.id for row in self._connection.execute(query) if row.new in gone]


def collect_garbage(
    repository: Repository, retain: Retain, choice: Choice, *, dry_run: bool = False
) -> GCResult:
    """Remove unreachable commits of one tract in one transaction."""
    with working("Looking for unreachable commits"):
        if dry_run:
            with repository.database.read() as connection:
                return _result(_Garbage(connection, repository.tract_id, retain, choice), dry_run=True)
        with repository.database.write() as connection:
            garbage = _Garbage(connection, repository.tract_id, retain, choice)
            if garbage.commits:
                _remove(repository, connection, garbage)
        if garbage.commits:
            repository.timelines.forget()
            repository.writer.forget_position()
        return _result(garbage, dry_run=False)


def _remove(repository: Repository, connection: Connection, garbage: _Garbage) -> None:
    remove_rows(connection, schema.reflog.c.id, garbage.moves)
    remove_rows(connection, schema.tag_annotations.c.target_hash, garbage.commits)
    with _removing(connection):
        repository.rows.remove(connection, garbage.commits)
        remove_rows(connection, _BLOB.content_hash, sorted(garbage.blobs))
    data = {
        "commits": len(garbage.commits),
        "blobs": len(garbage.blobs),
        "bytes": garbage.bytes,
        "tokens": garbage.tokens,
    }
    repository.events.append(connection, "gc", "user", data)


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
