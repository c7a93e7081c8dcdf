"""The reports of commits, stored in the transaction of the effects: what makes a commit happen once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.storage.run_commits import StoredRunCommit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.run_commits import RunCommitRows


class SqlCommitLog:
    """A `CommitLog` of one tract."""

    def __init__(self, database: Database, rows: RunCommitRows) -> None:
        self._database = database
        self._rows = rows

    def transaction(self) -> AbstractContextManager[object]:
        """Keep all that is written meanwhile on this thread, or nothing; within another one it is part of that."""
        return self._database.write()

    def find(self, run_id: str, hook: str) -> dict[str, Any] | None:
        """The report of a run's commit at a hook.

        Raises:
            StoreCorruptError: it is damaged.
        """
        with self._database.read() as connection:
            stored = self._rows.of(connection, run_id, hook)
        return None if stored is None else _report(stored)

    def add(self, run_id: str, hook: str, report: dict[str, Any]) -> None:
        """Keep the report, in the transaction of what it tells.

        Raises:
            StoreError: this run has committed at this hook already; the transaction must not go on.
        """
        with self._database.write() as connection:
            self._rows.add(connection, StoredRunCommit(run_id, hook, canonical_json(report)))


def _report(stored: StoredRunCommit) -> dict[str, Any]:
    try:
        report = json.loads(stored.report_json)
    except (ValueError, TypeError, RecursionError):
        report = None
    if not isinstance(report, dict):
        raise StoreCorruptError(
            f"what run {stored.run_id} committed at {stored.hook} is damaged in the store; restore a backup, so that "
            "it is not committed twice"
        )
    return report
