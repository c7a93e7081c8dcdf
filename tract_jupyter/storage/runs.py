"""Rows of runs: commits, leases and objects.

A run's commit is written in the transaction of its effects, so the effects are applied once. A lease reserves a branch
for a run. If a run ends without a reply, its lease remains and names the open question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.exc import IntegrityError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.models import sha256
from tract_jupyter.storage.columns import batched, now_text
from tract_jupyter.storage.connections import Prepared
from tract_jupyter.storage.rows import Rows
from tract_jupyter.storage.schema import commits, run_commits, run_leases, run_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection


class StoredRunCommit(NamedTuple):
    """A stored report of one commit of a run."""

    run_id: str
    hook: str
    report_json: str


class RunCommitRows(Rows[StoredRunCommit]):
    """The commits of one tract's runs."""

    table = run_commits
    row = StoredRunCommit
    order = ()

    def add(self, connection: Connection, commit: StoredRunCommit) -> None:
        """Record the commit of a run, in the same transaction.

        Raises:
            StoreError: the run has committed at this hook already. The transaction must be rolled back.
        """
        try:
            self.insert(connection, commit, created_at=now_text())
        except IntegrityError as error:
            raise StoreError(
                f"run {commit.run_id} already committed at {commit.hook}, so nothing was committed again"
            ) from error


class StoredLease(NamedTuple):
    """A stored lease. `held_until` is a text, in the format of `clock`. `process` is empty after the end of the run."""

    run_id: str
    process: str
    held_until: str
    branch: str | None = None
    question: str | None = None


class RunLeaseRows(Rows[StoredLease]):
    """The leases of one tract's runs, the first to expire first."""

    table = run_leases
    row = StoredLease
    order = ("held_until", "run_id")

    def replace(self, connection: Connection, lease: StoredLease) -> None:
        """Store the lease of a run. The caller checks the previous lease in the same write transaction."""
        values = lease._asdict()
        self.put(connection, {"run_id": values.pop("run_id")}, values)


_ADD = Prepared(
    lambda dialect: dialect.insert(run_objects).on_conflict_do_nothing(), ("tract_id", "name", "body_json")
)
_NAME: Final = 32
# built once: building a statement takes longer than running it
_GET = select(run_objects.c.name, run_objects.c.body_json).where(
    run_objects.c.tract_id == bindparam("tract"), run_objects.c.name.in_(bindparam("names", expanding=True))
)
_OWN = (commits.c.tract_id == bindparam("tract"), commits.c.commit_hash == bindparam("of_commit"))
_STATE = Prepared(lambda _: select(commits.c.run_state).where(*_OWN))
_STATES = (
    select(commits.c.run_state, func.min(commits.c.commit_hash).label("commit_hash"))
    .where(commits.c.tract_id == bindparam("tract"), commits.c.run_state.is_not(None))
    .group_by(commits.c.run_state)
    .order_by(func.min(commits.c.id))
)
_ATTACH = commits.update().where(*_OWN).values(run_state=bindparam("state"))


def name_of(body_json: str) -> str:
    """Return the name of an object: the beginning of its sha256."""
    return sha256(body_json.encode())[:_NAME]


class RunObjectRows:
    """One tract's objects, and the state of runs at its commits."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(self, connection: Connection, objects: Mapping[str, str]) -> None:
        """Store objects by name. Skip existing ones: the same name means the same object."""
        if objects:
            _ADD.run_all(connection, [(self.tract_id, name, body) for name, body in objects.items()])

    def get(self, connection: Connection, names: Iterable[str]) -> dict[str, str]:
        """Return the existing objects with these names."""
        objects: dict[str, str] = {}
        for group in batched(dict.fromkeys(names)):
            values = {"tract": self.tract_id, "names": group}
            objects.update((row.name, row.body_json) for row in connection.execute(_GET, values))
        return objects

    def state_at(self, connection: Connection, commit_hash: str) -> str | None:
        """Return the state name of runs at a commit. A new commit has its parent's."""
        rows = _STATE.rows(connection, {"tract": self.tract_id, "of_commit": commit_hash})
        return rows[0][0] if rows else None

    def states(self, connection: Connection) -> dict[str, str]:
        """Return the name of each state and one commit with it, oldest first."""
        rows = connection.execute(_STATES, {"tract": self.tract_id})
        return {row.run_state: row.commit_hash for row in rows}

    def attach(self, connection: Connection, commit_hash: str, state: str) -> None:
        """Set the state of a commit. Later commits inherit it."""
        connection.execute(_ATTACH, {"tract": self.tract_id, "of_commit": commit_hash, "state": state})
