"""The rows of a store of version 1, as version 2 keeps them.

Version 1 had one priority per commit for all branches and all times, in a table. Now a priority is given by a commit:
where it was not the content type's own, every branch that holds the message gets such a commit at its tip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, LargeBinary, String, bindparam, column, select, table

from tract_jupyter.models.canonical import canonical_json, digest, sha256
from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.migrations.v1_contexts import Commit, default_priority, history, sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection


def _table(name: str, texts: str, integers: str = "", binary: str = "") -> Any:
    kinds = ((texts, String), (integers, Integer), (binary, LargeBinary))
    return table(name, *(column(title, kind) for titles, kind in kinds for title in titles.split()))


_TRACTS = _table("tracts", "tract_id display_name created_at")
_REFS = _table("refs", "tract_id name commit_hash")
_BLOBS = _table("blobs", "content_hash", binary="payload")
_ANNOTATIONS = _table("annotations", "tract_id target_hash priority reason created_at", "id")
_COMMITS = _table(
    "commits",
    "commit_hash tract_id parent_hash content_hash content_type operation edit_target message token_counter "
    "metadata_json generation_config_json tags_json priority created_at",
    "id token_count generation context_tokens context_messages",
)


def convert(connection: Connection) -> None:
    """Write what version 2 adds: tracts, annotating commits, the size of each context.

    Raises:
        StoreCorruptError: a history has a gap.
    """
    for tract_id in connection.scalars(select(_REFS.c.tract_id).distinct().order_by(_REFS.c.tract_id)).all():
        commits = _commits(connection, tract_id)
        first = min((commit.created_at for commit in commits.values()), default=now_text())
        row = {"tract_id": tract_id, "display_name": "", "created_at": first}
        connection.execute(_TRACTS.insert(), row)
        _annotate(connection, tract_id, commits)
        _measure(connection, commits)


def _commits(connection: Connection, tract_id: str) -> dict[str, Commit]:
    of = _COMMITS.c
    columns = (getattr(of, name) for name in Commit._fields)
    rows = connection.execute(select(*columns).where(of.tract_id == tract_id).order_by(of.id))
    return {row.commit_hash: Commit._make(row) for row in rows}


def _measure(connection: Connection, commits: Mapping[str, Commit]) -> None:
    rows = [
        {"of": commit_hash, "tokens": size.context_tokens, "messages": size.messages}
        for commit_hash, size in sizes(commits)
    ]
    if rows:
        found = _COMMITS.update().where(_COMMITS.c.commit_hash == bindparam("of"))
        values: dict[str, Any] = {
            "context_tokens": bindparam("tokens"),
            "context_messages": bindparam("messages"),
        }
        connection.execute(found.values(**values), rows)


def _annotate(connection: Connection, tract_id: str, commits: dict[str, Commit]) -> None:
    """Give each branch its annotating commits. Branches with the same tip share them."""
    wanted = _wanted(connection, tract_id, commits)
    branches = select(_REFS.c.name, _REFS.c.commit_hash).where(
        _REFS.c.tract_id == tract_id,
        _REFS.c.name.startswith("refs/heads/", autoescape=True),
        _REFS.c.commit_hash.is_not(None),
    )
    for name, tip in connection.execute(branches.order_by(_REFS.c.name)).all():
        held = {commit.commit_hash for commit in history(commits, tip)}
        new = tip
        for target, annotation in wanted.items():
            if target in held:
                new = _add(connection, tract_id, commits, commits[new], annotation)
        if new != tip:
            moved = _REFS.update().where(_REFS.c.tract_id == tract_id, _REFS.c.name == name)
            connection.execute(moved.values(commit_hash=new))


def _wanted(connection: Connection, tract_id: str, commits: Mapping[str, Commit]) -> dict[str, Any]:
    """The newest annotation of each commit, where it says something that the content type does not, oldest first."""
    of = _ANNOTATIONS.c
    newest: dict[str, Any] = {}
    for row in connection.execute(select(_ANNOTATIONS).where(of.tract_id == tract_id).order_by(of.id)):
        newest.pop(row.target_hash, None)  # so that the order is that of the newest
        newest[row.target_hash] = row
    return {
        target: row
        for target, row in newest.items()
        if target in commits
        and commits[target].operation == "append"
        and row.priority != default_priority(commits[target].content_type)
    }


def _add(
    connection: Connection, tract_id: str, commits: dict[str, Commit], parent: Commit, annotation: Any
) -> str:
    """Write the commit that gives a priority, and return its hash."""
    priority, reason, target = annotation.priority, annotation.reason, annotation.target_hash
    payload = canonical_json({"content_type": "annotation", "priority": priority, "reason": reason}).encode()
    hashed = {
        "tract_id": tract_id,
        "parent_hash": parent.commit_hash,
        "content_hash": sha256(payload),
        "content_type": "annotation",
        "operation": "annotate",
        "edit_target": target,
        "message": f"{priority} {target[:8]}{f': {reason}' if reason else ''}",
        # its own time, so that the past looks as it did; but never before its parent
        "created_at": max(annotation.created_at, parent.created_at),
        "priority": priority,
    }
    commit_hash = digest({**hashed, "metadata": {}, "generation_config": {}, "tags": []})
    if commit_hash not in commits:
        _insert(connection, {**hashed, "commit_hash": commit_hash}, payload, parent.generation + 1)
        commits[commit_hash] = Commit(
            commit_hash,
            parent.commit_hash,
            "annotation",
            "annotate",
            target,
            0,
            parent.generation + 1,
            hashed["created_at"],
            priority,
        )
    return commit_hash


def _insert(connection: Connection, row: dict[str, Any], payload: bytes, generation: int) -> None:
    known = select(_BLOBS.c.content_hash).where(_BLOBS.c.content_hash == row["content_hash"])
    if connection.execute(known).first() is None:
        connection.execute(_BLOBS.insert(), {"content_hash": row["content_hash"], "payload": payload})
    plain = {"metadata_json": "{}", "generation_config_json": "{}", "tags_json": "[]"}
    counted = {"token_count": 0, "token_counter": "", "generation": generation}
    connection.execute(_COMMITS.insert(), {**row, **plain, **counted})
