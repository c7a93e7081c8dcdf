"""Rows of refs: HEAD and the branches. A ref moves by compare-and-swap, never blindly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from tract_jupyter.storage.schema import refs

if TYPE_CHECKING:
    from sqlalchemy import Connection

HEAD = "HEAD"
BRANCHES = "refs/heads/"


class RefRows:
    """The refs of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def current_branch(self, connection: Connection) -> str | None:
        """The name of the branch that HEAD points at, None in a new tract."""
        query = select(refs.c.symbolic_target).where(refs.c.tract_id == self.tract_id, refs.c.name == HEAD)
        target = connection.scalar(query)
        return target.removeprefix(BRANCHES) if target else None

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
        return {row.name.removeprefix(BRANCHES): row.commit_hash for row in connection.execute(query.order_by("name"))}

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
        unmoved = refs.c.commit_hash.is_(None) if old is None else refs.c.commit_hash == old
        update = refs.update().where(*self._named(branch), unmoved).values(commit_hash=new)
        return connection.execute(update).rowcount == 1

    def _named(self, branch: str) -> tuple[object, ...]:  # the columns' comparisons
        return (refs.c.tract_id == self.tract_id, refs.c.name == BRANCHES + branch)
