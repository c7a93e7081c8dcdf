"""Rows of what a run committed, written in the transaction of the effects: so these are applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.exc import IntegrityError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import run_commits

if TYPE_CHECKING:
    from sqlalchemy import Connection


class StoredRunCommit(NamedTuple):
    """The report of one commit of a run, as it lies in the store."""

    run_id: str
    hook: str
    report_json: str


# made once: building a statement takes longer than running it
_MINE = select(*(run_commits.c[name] for name in StoredRunCommit._fields)).where(
    run_commits.c.tract_id == bindparam("tract")
)
_OF = _MINE.where(run_commits.c.run_id == bindparam("run"), run_commits.c.hook == bindparam("at"))
_INSERT = run_commits.insert()


class RunCommitRows:
    """The commits of one tract's runs."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(self, connection: Connection, commit: StoredRunCommit) -> None:
        """Say that a run has committed, in the transaction of what it commits.

        Raises:
            StoreError: it has committed at that hook already; so nothing of this transaction may be written.
        """
        values = {"tract_id": self.tract_id, "created_at": now_text(), **commit._asdict()}
        try:
            connection.execute(_INSERT, values)
        except IntegrityError as error:
            raise StoreError(
                f"run {commit.run_id} has committed at {commit.hook} already, and nothing is committed twice"
            ) from error

    def of(self, connection: Connection, run_id: str, hook: str) -> StoredRunCommit | None:
        """What a run committed at a hook, if it did."""
        row = connection.execute(_OF, {"tract": self.tract_id, "run": run_id, "at": hook}).first()
        return None if row is None else StoredRunCommit._make(row)

    def all(self, connection: Connection) -> list[StoredRunCommit]:
        """What all runs committed."""
        rows = connection.execute(_MINE, {"tract": self.tract_id})
        return [StoredRunCommit._make(row) for row in rows]
