"""Rows of spawns: which tract, or which agent on a branch, came from which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select

from tract_jupyter.models.spawn import Inheritance, SpawnInfo
from tract_jupyter.storage.clock import from_text, now_text
from tract_jupyter.storage.columns import optional
from tract_jupyter.storage.schema import spawns, tracts

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


class SpawnRows:
    """The parents and children of one tract.

    Args:
        tract_id: the tract.
        branch: for an agent that was deployed on a branch of it.
    """

    def __init__(self, tract_id: str, branch: str | None = None) -> None:
        self.tract_id = tract_id
        self.branch = branch

    def add(
        self, connection: Connection, parent_id: str, parent_hash: str, purpose: str, inheritance: Inheritance
    ) -> None:
        """Record where this one came from."""
        row = {
            "parent_tract_id": parent_id,
            "parent_commit_hash": parent_hash,
            "child_tract_id": self.tract_id,
            "child_branch": self.branch,
            "purpose": purpose,
            "inheritance": inheritance.value,
            "created_at": now_text(),
        }
        connection.execute(spawns.insert().values(**row))

    def parent(self, connection: Connection) -> SpawnInfo | None:
        """Where this one came from; None if it is nobody's child."""
        found = _found(connection, *self._own())
        return found[-1] if found else None

    def children(self, connection: Connection) -> list[SpawnInfo]:
        """Who came from this tract, oldest first; of an agent, without itself."""
        columns = spawns.c
        where: list[ColumnElement[bool]] = [columns.parent_tract_id == self.tract_id]
        if self.branch is not None:
            where.append(or_(columns.child_branch.is_(None), columns.child_branch != self.branch))
        return _found(connection, *where)

    def _own(self) -> tuple[ColumnElement[bool], ...]:
        columns = spawns.c
        return (
            columns.child_tract_id == self.tract_id,
            columns.child_branch.is_not_distinct_from(self.branch),
        )


def _found(connection: Connection, *where: ColumnElement[bool]) -> list[SpawnInfo]:
    joined = spawns.outerjoin(tracts, tracts.c.tract_id == spawns.c.child_tract_id)
    query = (
        select(spawns, optional(tracts.c.display_name))
        .select_from(joined)
        .where(*where)
        .order_by(spawns.c.id)
    )
    return [_info(row) for row in connection.execute(query)]


def _info(row: Any) -> SpawnInfo:
    return SpawnInfo(
        parent_tract_id=row.parent_tract_id,
        parent_commit_hash=row.parent_commit_hash,
        child_tract_id=row.child_tract_id,
        child_branch=row.child_branch,
        purpose=row.purpose,
        inheritance=Inheritance(row.inheritance),
        display_name=row.child_branch or row.display_name or "",
        created_at=from_text(row.created_at),
    )
