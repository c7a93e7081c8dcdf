"""Rows of commits, their content and their annotations."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.models.canonical import canonical_json, sha256
from tract_jupyter.models.commit import CommitInfo, CommitOperation
from tract_jupyter.models.priority import Priority
from tract_jupyter.storage.clock import from_text, now_text, to_text
from tract_jupyter.storage.schema import blobs, commit_annotations, commits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import CTE, Connection, Row


class CommitRows:
    """The commits of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def insert(self, connection: Connection, info: CommitInfo, payload: bytes) -> None:
        """Add a commit and its content, each unless it is there: what has the same hash is the same thing."""
        add_blob, add_commit = _adding(connection.dialect.name)
        connection.execute(add_blob, {"content_hash": info.content_hash, "payload": payload})
        connection.execute(add_commit, _row(info))

    def get(self, connection: Connection, commit_hash: str) -> CommitInfo | None:
        """One commit by its full hash."""
        query = select(commits, _priority()).where(*self._own(), commits.c.commit_hash == commit_hash)
        row = connection.execute(query).first()
        return _info(row) if row else None

    def starting_with(self, connection: Connection, prefix: str) -> list[str]:
        """At most two hashes that begin with `prefix`: enough to see that it is ambiguous."""
        within = commits.c.commit_hash.between(
            prefix, prefix + "g"
        )  # past all hex digits; the index serves it
        return list(connection.scalars(select(commits.c.commit_hash).where(*self._own(), within).limit(2)))

    def chain(self, connection: Connection, head: str, limit: int | None = None) -> list[CommitInfo]:
        """The commit `head` and its first parents, newest first, in one statement."""
        oldest: Any = 0
        if limit is not None:
            newest = select(commits.c.generation).where(commits.c.commit_hash == head).scalar_subquery()
            oldest = newest - limit + 1
        walk = _walk(head, oldest)
        query = select(commits, _priority()).join(walk, walk.c.commit_hash == commits.c.commit_hash)
        chain = [_info(row) for row in connection.execute(query.order_by(commits.c.generation.desc()))]
        whole = chain[0].generation + 1 if chain else 1
        if len(chain) != (whole if limit is None else min(whole, limit)):
            raise StoreCorruptError(f"the history of {head[:12]} has a gap in the store; restore a backup")
        return chain

    def is_in_history(self, connection: Connection, head: str, commit: CommitInfo) -> bool:
        """Whether a commit is `head` or among its first parents."""
        walk = _walk(head, commit.generation)
        query = select(walk.c.commit_hash).where(walk.c.commit_hash == commit.commit_hash)
        return connection.scalar(query) is not None

    def payloads(self, connection: Connection, hashes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The content of each content hash, as a dict."""
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(hashes), 500):  # SQLite bounds the number of variables
            query = select(blobs).where(blobs.c.content_hash.in_(hashes[start : start + 500]))
            found.update((row.content_hash, _content(row)) for row in connection.execute(query))
        missing = set(hashes) - found.keys()
        if missing:
            raise StoreCorruptError(f"content {missing.pop()[:12]} is missing in the store; restore a backup")
        return found

    def annotate(self, connection: Connection, target: str, priority: Priority, reason: str) -> None:
        """Add an annotation; it replaces the earlier ones in effect."""
        row = {"target_hash": target, "priority": priority.value, "reason": reason, "created_at": now_text()}
        connection.execute(commit_annotations.insert().values(tract_id=self.tract_id, **row))

    def _own(self) -> tuple[Any, ...]:
        return (commits.c.tract_id == self.tract_id,)


@cache
def _adding(dialect_name: str) -> tuple[Any, Any]:
    """The two statements that add a blob and a commit and ignore known ones; each dialect imports slowly."""
    dialect = import_module(f"sqlalchemy.dialects.{dialect_name}")
    return tuple(dialect.insert(table).inline().on_conflict_do_nothing() for table in (blobs, commits))


def _walk(head: str, oldest: Any) -> CTE:
    """`head` and its first parents down to generation `oldest`."""
    columns = (commits.c.commit_hash, commits.c.parent_hash, commits.c.generation)
    walk = select(*columns).where(commits.c.commit_hash == head).cte("walk", recursive=True)
    parent = commits.alias("parent")
    step = select(parent.c.commit_hash, parent.c.parent_hash, parent.c.generation)
    return walk.union_all(
        step.where(parent.c.commit_hash == walk.c.parent_hash, parent.c.generation >= oldest)
    )


def _priority() -> Any:
    newest = (
        select(commit_annotations.c.priority)
        .where(commit_annotations.c.target_hash == commits.c.commit_hash)
        .order_by(commit_annotations.c.id.desc())
        .limit(1)
    )
    return newest.scalar_subquery().label("priority")


def _content(row: Row[Any]) -> dict[str, Any]:
    if sha256(row.payload) != row.content_hash:
        raise StoreCorruptError(f"content {row.content_hash[:12]} is damaged in the store; restore a backup")
    content: dict[str, Any] = json.loads(row.payload)
    return content


def _row(info: CommitInfo) -> dict[str, Any]:
    return {
        "commit_hash": info.commit_hash,
        "tract_id": info.tract_id,
        "parent_hash": info.parent_hash,
        "content_hash": info.content_hash,
        "content_type": info.content_type,
        "operation": info.operation.value,
        "edit_target": info.edit_target,
        "message": info.message,
        "token_count": info.token_count,
        "token_counter": info.token_counter,
        "generation": info.generation,
        "created_at": to_text(info.created_at),
        "metadata_json": canonical_json(info.metadata),
        "generation_config_json": canonical_json(info.generation_config),
        "tags_json": canonical_json(info.tags),
    }


def _info(row: Row[Any]) -> CommitInfo:
    try:
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
    except ValueError as error:
        raise StoreCorruptError(
            f"commit {row.commit_hash} is damaged in the store; restore a backup"
        ) from error
