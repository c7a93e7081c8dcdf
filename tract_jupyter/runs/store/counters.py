"""Activation counters in the store of a tract, by branch and profile (X01)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.run_counters import RunCounterRows, StoredCounter


class SqlCounters:
    """The activation counters of one tract. They survive edits of the profile."""

    def __init__(self, database: Database, rows: RunCounterRows) -> None:
        self._database = database
        self._rows = rows

    def load(self, branch: str, profile: str) -> dict[str, StoredCounter]:
        """The counters by operation; empty at the first use, when they are to be rebuilt from the branch's history.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.read() as connection:
            return self._rows.of(connection, branch, profile)

    def save(self, branch: str, profile: str, counters: Mapping[str, StoredCounter]) -> None:
        """Store all counters of a profile on a branch; operations that are not among them are forgotten.

        Raises:
            StoreError: they cannot be stored.
        """
        with self._database.write() as connection:
            self._rows.replace(connection, branch, profile, counters)
