"""Rows of tracts, and queries over all tracts of a store."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, literal, select

from tract_jupyter.storage.columns import from_text, now_text, optional
from tract_jupyter.storage.refs import BRANCHES, HEAD
from tract_jupyter.storage.schema import commits, refs, spawns, tracts

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select

    from tract_jupyter.models import Inheritance, SpawnInfo, TractInfo


_DEEPEST = 1_000  # generations; limits the search in a damaged store with a cycle


class TractRows:
    """The tracts of a store."""

    def add(self, connection: Connection, tract_id: str, display_name: str) -> None:
        """Add a tract with its name."""
        row = {"tract_id": tract_id, "display_name": display_name, "created_at": now_text()}
        connection.execute(tracts.insert().values(**row))

    def ids(self, connection: Connection) -> list[str]:
        """Return the ids of all tracts, the oldest first."""
        return list(connection.scalars(select(tracts.c.tract_id).order_by(tracts.c.created_at)))

    def all(self, connection: Connection) -> list[TractInfo]:
        """Return all tracts with their positions, oldest first."""
        from tract_jupyter.models import TractInfo

        infos = []
        for row in connection.execute(_positions()):
            target, generation = row.symbolic_target, row.generation
            infos.append(
                TractInfo(
                    tract_id=row.tract_id,
                    display_name=row.display_name,
                    created_at=from_text(row.created_at),
                    branch=target.removeprefix(BRANCHES) if target else None,
                    head=row.commit_hash,
                    commit_count=0 if generation is None else generation + 1,
                    token_count=row.context_tokens or 0,
                )
            )
        return infos

    def last_worked_on(self, connection: Connection) -> str | None:
        """Return the tract with the newest commit, or else the newest tract. For a child, return its first ancestor."""
        newest = select(commits.c.tract_id).order_by(commits.c.id.desc()).limit(1)
        newest_tract = select(tracts.c.tract_id).order_by(tracts.c.created_at.desc()).limit(1)
        tract_id = connection.scalar(newest) or connection.scalar(newest_tract)
        return None if tract_id is None else _root(connection, tract_id)


def _root(connection: Connection, tract_id: str) -> str:
    """Return the first ancestor of a tract, in one statement; the tract itself if it has no parent."""
    line = select(literal(tract_id).label("tract_id"), literal(0).label("depth")).cte(recursive=True)
    is_child = spawns.c.child_tract_id == line.c.tract_id
    parents = select(spawns.c.parent_tract_id, line.c.depth + 1).where(is_child, line.c.depth < _DEEPEST)
    line = line.union_all(parents)
    root = connection.scalar(select(line.c.tract_id).order_by(line.c.depth.desc()).limit(1))
    return tract_id if root is None else str(root)


class SpawnRows:
    """The parents and children of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(
        self,
        connection: Connection,
        parent_id: str,
        parent_hash: str | None,
        purpose: str,
        inheritance: Inheritance,
    ) -> None:
        """Record the origin of this tract."""
        row = {
            "parent_tract_id": parent_id,
            "parent_commit_hash": parent_hash,
            "child_tract_id": self.tract_id,
            "purpose": purpose,
            "inheritance": inheritance.value,
            "created_at": now_text(),
        }
        connection.execute(spawns.insert().values(**row))

    def parent(self, connection: Connection) -> SpawnInfo | None:
        """Return the origin of this tract; None if it has no parent."""
        origins = _spawn_infos(connection, spawns.c.child_tract_id == self.tract_id)
        return origins[-1] if origins else None

    def children(self, connection: Connection) -> list[SpawnInfo]:
        """Return the children of this tract, oldest first."""
        return _spawn_infos(connection, spawns.c.parent_tract_id == self.tract_id)


@cache
def _positions() -> Select[Any]:
    """Select each tract with its branch and tip, oldest first."""
    head, tip = refs.alias("head"), refs.alias("tip")
    columns = (tracts, head.c.symbolic_target)
    at_tip = (
        optional(commits.c.commit_hash),
        optional(commits.c.generation),
        optional(commits.c.context_tokens),
    )
    return (
        select(*columns, *at_tip)
        .outerjoin(head, and_(head.c.tract_id == tracts.c.tract_id, head.c.name == HEAD))
        .outerjoin(tip, and_(tip.c.tract_id == tracts.c.tract_id, tip.c.name == head.c.symbolic_target))
        .outerjoin(commits, commits.c.commit_hash == func.coalesce(tip.c.commit_hash, head.c.commit_hash))
        .order_by(tracts.c.created_at, tracts.c.tract_id)
    )


def _spawn_infos(connection: Connection, where: ColumnElement[bool]) -> list[SpawnInfo]:
    joined = spawns.outerjoin(tracts, tracts.c.tract_id == spawns.c.child_tract_id)
    query = (
        select(spawns, optional(tracts.c.display_name)).select_from(joined).where(where).order_by(spawns.c.id)
    )
    return [_info(row) for row in connection.execute(query)]


def _info(row: Any) -> SpawnInfo:
    from tract_jupyter.models import Inheritance, SpawnInfo  # imported late, for a fast start

    return SpawnInfo(
        parent_tract_id=row.parent_tract_id,
        parent_commit_hash=row.parent_commit_hash,
        child_tract_id=row.child_tract_id,
        purpose=row.purpose,
        inheritance=Inheritance(row.inheritance),
        display_name=row.display_name or "",
        created_at=from_text(row.created_at),
    )
