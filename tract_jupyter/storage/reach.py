"""What a store holds and what points into it, for deciding what can go."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import func, select, text

from tract_jupyter.storage.schema import (
    blobs,
    commit_parents,
    commits,
    compile_records,
    pendings,
    reflog,
    refs,
    spawns,
    tag_annotations,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import Connection

_HASH = re.compile(r"[0-9a-f]{64}")
_AT_ONCE = 500  # SQLite bounds the number of variables
# what a database looks through for each row that is deleted, to see that nothing refers to it; nothing else needs these
_REFERENCES: Final = ("parent_hash", "content_hash", "tools_hash")


class Node(NamedTuple):
    """What of a commit counts here."""

    commit_hash: str
    tract_id: str
    parent_hash: str | None
    edit_target: str | None
    content_hash: str
    tools_hash: str | None
    token_count: int
    metadata_json: str
    created_at: str


_COLUMNS = tuple(commits.c[name] for name in Node._fields)


class Reach:
    """The whole store, as seen from one tract. Several tracts share commits' contents, and may point at each other."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def nodes(self, connection: Connection) -> dict[str, Node]:
        """Every commit of the store, of all tracts, oldest first."""
        rows = connection.execute(select(*_COLUMNS).order_by(commits.c.id))
        return {row.commit_hash: Node._make(row) for row in rows}

    def merge_parents(self, connection: Connection) -> dict[str, list[str]]:
        """The second and later parents of every merge of the store."""
        found: dict[str, list[str]] = {}
        for row in connection.execute(select(commit_parents.c.commit_hash, commit_parents.c.parent_hash)):
            found.setdefault(row.commit_hash, []).append(row.parent_hash)
        return found

    def roots(self, connection: Connection, since: str) -> set[str]:
        """What refs, later moves, open pendings, compile records and spawns name, of all tracts."""
        named = [
            select(refs.c.commit_hash),
            select(compile_records.c.head_hash),
            select(spawns.c.parent_commit_hash),
            select(reflog.c.old).where(reflog.c.created_at >= since),
            select(reflog.c.new).where(reflog.c.created_at >= since),
        ]
        found = {name for query in named for name in connection.scalars(query) if name is not None}
        # but for what waits to remove them
        is_waiting = (pendings.c.settled_at.is_(None), pendings.c.operation != "gc")
        waiting = select(pendings.c.fields_json).where(*is_waiting)
        for fields in connection.scalars(waiting):
            found.update(_HASH.findall(fields))
        return found

    def stale_moves(self, connection: Connection, gone: Collection[str]) -> list[int]:
        """The ids of the recorded moves of this tract that led to commits which are gone."""
        query = select(reflog.c.id, reflog.c.new).where(reflog.c.tract_id == self.tract_id)
        return [row.id for row in connection.execute(query) if row.new in gone]

    def blobs(self, connection: Connection, hashes: Collection[str]) -> dict[str, bytes]:
        """The bytes kept under each hash, where there are any."""
        found: dict[str, bytes] = {}
        for group in _groups(sorted(hashes)):
            query = select(blobs.c.content_hash, blobs.c.payload).where(blobs.c.content_hash.in_(group))
            found.update((row.content_hash, row.payload) for row in connection.execute(query))
        return found

    def size(self, connection: Connection, hashes: Collection[str]) -> int:
        """The bytes of these blobs."""
        total = 0
        for group in _groups(sorted(hashes)):
            query = select(func.sum(func.length(blobs.c.payload))).where(blobs.c.content_hash.in_(group))
            total += connection.scalar(query) or 0
        return total

    @contextmanager
    def removing(self, connection: Connection) -> Iterator[None]:
        """Have indexes for a while that make deleting cost the same for each row, however large the store is."""
        for name in _REFERENCES:
            connection.execute(text(f"CREATE INDEX ix_removing_{name} ON commits ({name})"))
        yield
        for name in _REFERENCES:
            connection.execute(text(f"DROP INDEX ix_removing_{name}"))

    def remove_blobs(self, connection: Connection, hashes: Collection[str]) -> None:
        """Delete blobs that nothing uses."""
        for group in _groups(sorted(hashes)):
            connection.execute(blobs.delete().where(blobs.c.content_hash.in_(group)))

    def remove_moves(self, connection: Connection, ids: Sequence[int]) -> None:
        """Delete recorded moves."""
        for start in range(0, len(ids), _AT_ONCE):
            connection.execute(reflog.delete().where(reflog.c.id.in_(ids[start : start + _AT_ONCE])))

    def remove_tags(self, connection: Connection, gone: Collection[str]) -> None:
        """Delete the tags that were added to commits which are to go."""
        for group in _groups(sorted(gone)):
            connection.execute(tag_annotations.delete().where(tag_annotations.c.target_hash.in_(group)))


def _groups(hashes: Sequence[str]) -> Iterator[list[str]]:
    return (list(hashes[start : start + _AT_ONCE]) for start in range(0, len(hashes), _AT_ONCE))
