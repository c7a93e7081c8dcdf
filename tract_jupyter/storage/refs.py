"""Rows of refs: HEAD and the branches. A ref moves by compare-and-swap, never blindly."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, bindparam, select

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.storage.schema import commits, refs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

HEAD = "HEAD"
BRANCHES = "refs/heads/"

_head, _tip = refs.alias("head"), refs.alias("tip")
_POSITION = (
    select(_head.c.symbolic_target, _tip.c.commit_hash, commits.c.generation)
    .outerjoin(_tip, and_(_tip.c.tract_id == _head.c.tract_id, _tip.c.name == _head.c.symbolic_target))
    .outerjoin(commits, commits.c.commit_hash == _tip.c.commit_hash)
    .where(_head.c.tract_id == bindparam("tract_id"), _head.c.name == HEAD)
)
# built once, as these two are part of every commit
_MOVE = (
    refs.update()
    .where(refs.c.tract_id == bindparam("of_tract"), refs.c.name == bindparam("branch"))
    .where(refs.c.commit_hash.is_not_distinct_from(bindparam("old")))
    .values(commit_hash=bindparam("new"))
)


class Position(NamedTuple):
    """The current branch and its newest commit: None, and generation -1, before the first one."""

    branch: str
    commit_hash: str | None
    generation: int


class RefRows:
    """The refs of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def was_made(self, connection: Connection) -> bool:
        """Whether the tract has a HEAD, which it gets when it is made."""
        query = select(refs.c.name).where(refs.c.tract_id == self.tract_id, refs.c.name == HEAD)
        return connection.scalar(query) is not None

    def position(self, connection: Connection) -> Position:
        """Where HEAD is, in one statement."""
        row = connection.execute(_POSITION, {"tract_id": self.tract_id}).first()
        if row is None:
            raise StoreCorruptError(f"tract {self.tract_id} has no HEAD in the store; restore a backup")
        target, commit_hash, generation = row
        return Position(target.removeprefix(BRANCHES), commit_hash, -1 if generation is None else generation)

    def tip(self, connection: Connection, branch: str) -> str | None:
        """The commit that a branch points at, None before its first commit."""
        return connection.scalar(select(refs.c.commit_hash).where(*self._named(branch)))

    def exists(self, connection: Connection, branch: str) -> bool:
        """Whether there is such a branch."""
        return connection.scalar(select(refs.c.name).where(*self._named(branch))) is not None

    def branches(self, connection: Connection) -> dict[str, str | None]:
        """Each branch and its commit, by name."""
        query = select(refs.c.name, refs.c.commit_hash).where(
            refs.c.tract_id == self.tract_id, refs.c.name.startswith(BRANCHES, autoescape=True)
        )
        return {
            row.name.removeprefix(BRANCHES): row.commit_hash
            for row in connection.execute(query.order_by("name"))
        }

    def create(self, connection: Connection, branch: str, commit_hash: str | None) -> None:
        """Add a branch."""
        values = {"tract_id": self.tract_id, "name": BRANCHES + branch, "commit_hash": commit_hash}
        connection.execute(refs.insert().values(**values))

    def point_head(self, connection: Connection, branch: str) -> None:
        """Make `branch` the current one."""
        target = {"symbolic_target": BRANCHES + branch}
        where = (refs.c.tract_id == self.tract_id, refs.c.name == HEAD)
        if connection.execute(refs.update().where(*where).values(**target)).rowcount == 0:
            connection.execute(refs.insert().values(tract_id=self.tract_id, name=HEAD, **target))

    def move(self, connection: Connection, branch: str, old: str | None, new: str) -> bool:
        """Point a branch from `old` to `new`; False if it does not point at `old` any more."""
        names = {"of_tract": self.tract_id, "branch": BRANCHES + branch, "old": old, "new": new}
        return connection.execute(_MOVE, names).rowcount == 1

    def _named(self, branch: str) -> tuple[ColumnElement[bool], ...]:
        return (refs.c.tract_id == self.tract_id, refs.c.name == BRANCHES + branch)
