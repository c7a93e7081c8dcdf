"""Rows of leases: which process works on a run, and until when that counts unless it says so again.

A run holds a branch. The row of one that ended without a reply stays: it names the question that is still open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, select

from tract_jupyter.storage.schema import run_leases

if TYPE_CHECKING:
    from sqlalchemy import Connection


class StoredLease(NamedTuple):
    """A lease as it lies in the store; `held_until` is a text, as `clock` writes it; `process` is empty once over."""

    run_id: str
    process: str
    held_until: str
    branch: str | None = None
    question: str | None = None


_ON = (run_leases.c.tract_id == bindparam("tract"), run_leases.c.run_id == bindparam("run"))
# made once: building a statement takes longer than running it
_OF = select(*(run_leases.c[name] for name in StoredLease._fields)).where(*_ON)
_ON_BRANCH = (
    select(*(run_leases.c[name] for name in StoredLease._fields))
    .where(run_leases.c.tract_id == bindparam("tract"), run_leases.c.branch == bindparam("named"))
    .order_by(run_leases.c.held_until, run_leases.c.run_id)
)
_DELETE = run_leases.delete().where(*_ON)
_INSERT = run_leases.insert()


class RunLeaseRows:
    """The leases of one tract's runs."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def of(self, connection: Connection, run_id: str) -> StoredLease | None:
        """Who holds a run, if anybody does."""
        row = connection.execute(_OF, self._on(run_id)).first()
        return None if row is None else StoredLease._make(row)

    def on_branch(self, connection: Connection, branch: str) -> list[StoredLease]:
        """All leases of a branch, the oldest first."""
        rows = connection.execute(_ON_BRANCH, {"tract": self.tract_id, "named": branch})
        return [StoredLease._make(row) for row in rows]

    def put(self, connection: Connection, lease: StoredLease) -> None:
        """Say who holds a run, whoever did before: the caller has looked, in the same write transaction."""
        self.remove(connection, lease.run_id)
        connection.execute(_INSERT, {"tract_id": self.tract_id, **lease._asdict()})

    def remove(self, connection: Connection, run_id: str) -> None:
        """Say that nobody holds it."""
        connection.execute(_DELETE, self._on(run_id))

    def _on(self, run_id: str) -> dict[str, str]:
        return {"tract": self.tract_id, "run": run_id}
