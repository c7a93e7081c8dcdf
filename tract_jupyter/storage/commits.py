"""Rows of commits, their content and their annotations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from tract_jupyter.models.commit import CommitInfo, CommitOperation
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.clock import from_text, now_text
from tract_jupyter.storage.schema import annotations, blobs, commits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row


class CommitRows:
    """The commits of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def insert(self, connection: Connection, values: dict[str, Any], content_hash: str, payload: str) -> None:
        """Add a commit, and its content unless an equal one is there."""
        blob = {"content_hash": content_hash, "payload": payload.encode()}
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert(blobs).values(**blob).on_conflict_do_nothing())
        connection.execute(commits.insert().values(tract_id=self.tract_id, content_hash=content_hash, **values))

    def get(self, connection: Connection, commit_hash: str) -> CommitInfo | None:
        """One commit by its full hash."""
        query = select(commits, _priority()).where(*self._own(), commits.c.commit_hash == commit_hash)
        row = connection.execute(query).first()
        return _info(row) if row else None

    def starting_with(self, connection: Connection, prefix: str) -> list[str]:
        """At most two hashes that begin with `prefix`: enough to see that it is ambiguous."""
        query = select(commits.c.commit_hash).where(*self._own(), commits.c.commit_hash.startswith(prefix)).limit(2)
        return list(connection.scalars(query))

    def chain(self, connection: Connection, head: str, limit: int | None = None) -> list[CommitInfo]:
        """The commit `head` and its first parents, newest first, in one statement."""
        first = select(commits.c.commit_hash, commits.c.parent_hash, commits.c.generation).where(
            commits.c.commit_hash == head
        )
        walk = first.cte("walk", recursive=True)
        parent = commits.alias("parent")
        step = select(parent.c.commit_hash, parent.c.parent_hash, parent.c.generation).where(
            parent.c.commit_hash == walk.c.parent_hash
        )
        if limit is not None:
            newest = select(commits.c.generation).where(commits.c.commit_hash == head).scalar_subquery()
            step = step.where(parent.c.generation > newest - limit)
        walk = walk.union_all(step)
        query = select(commits, _priority()).join(walk, walk.c.commit_hash == commits.c.commit_hash)
        return [_info(row) for row in connection.execute(query.order_by(commits.c.generation.desc()))]

    def payloads(self, connection: Connection, hashes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The content of each content hash, as a dict."""
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(hashes), 500):  # SQLite bounds the number of variables
            query = select(blobs).where(blobs.c.content_hash.in_(hashes[start : start + 500]))
            found.update((row.content_hash, json.loads(row.payload)) for row in connection.execute(query))
        return found

    def annotate(self, connection: Connection, target: str, priority: Priority, reason: str) -> None:
        """Add an annotation; it replaces the earlier ones in effect."""
        row = {"target_hash": target, "priority": priority.value, "reason": reason, "created_at": now_text()}
        connection.execute(annotations.insert().values(tract_id=self.tract_id, **row))

    def _own(self) -> tuple[Any, ...]:
        return (commits.c.tract_id == self.tract_id,)


def _priority() -> Any:
    newest = (
        select(annotations.c.priority)
        .where(annotations.c.target_hash == commits.c.commit_hash)
        .order_by(annotations.c.id.desc())
        .limit(1)
    )
    return newest.scalar_subquery().label("priority")


def _info(row: Row[Any]) -> CommitInfo:
    return CommitInfo(
        commit_hash=row.commit_hash,
        tract_id=row.tract_id,
        parent_hash=row.parent_hash,
        content_hash=row.content_hash,
        content_type=row.content_type,
        operation=CommitOperation(row.operation),
        edit_target=row.edit_target,
        message=row.message,
        token_count=row.token_count,
        token_counter=row.token_counter,
        generation=row.generation,
        created_at=from_text(row.created_at),
        metadata=json.loads(row.metadata_json),
        generation_config=json.loads(row.generation_config_json),
        tags=tuple(json.loads(row.tags_json)),
        priority=Priority(row.priority or Priority.NORMAL),
    )
