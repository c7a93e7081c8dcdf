"""Rows of activation counters: turns, and tokens of context, since an operation was last due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, select

from tract_jupyter.storage.schema import run_counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection


class StoredCounter(NamedTuple):
    """The counters of an operation; tokens add the whole context of each turn."""

    turns: int
    context_tokens: int


_MOST: Final = 2**53  # more was never counted, and could not be added to
_TABLE = run_counters.c
_SCOPE = (
    _TABLE.tract_id == bindparam("tract"),
    _TABLE.branch == bindparam("of_branch"),
    _TABLE.profile == bindparam("of_profile"),
)
# made once: building a statement takes longer than running it
_OF = select(_TABLE.operation_id, _TABLE.turns, _TABLE.context_tokens).where(*_SCOPE)
_CLEAR = run_counters.delete().where(*_SCOPE)
_INSERT = run_counters.insert()


class RunCounterRows:
    """The activation counters of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def of(self, connection: Connection, branch: str, profile: str) -> dict[str, StoredCounter]:
        """The counters of a profile's operations on a branch; none if it was never used there.

        One that counts nothing, as SQLite keeps whatever is written into it, is left out like one that is missing.
        """
        rows = connection.execute(_OF, self._scope(branch, profile))
        found = {row.operation_id: StoredCounter(row.turns, row.context_tokens) for row in rows}
        return {name: one for name, one in found.items() if all(map(_is_count, one))}

    def replace(
        self, connection: Connection, branch: str, profile: str, counters: Mapping[str, StoredCounter]
    ) -> None:
        """Store all counters of a profile on a branch, in the place of those that there were."""
        connection.execute(_CLEAR, self._scope(branch, profile))
        if counters:
            scope = {"tract_id": self.tract_id, "branch": branch, "profile": profile}
            rows = [
                {**scope, "operation_id": name, **counter._asdict()} for name, counter in counters.items()
            ]
            connection.execute(_INSERT, rows)

    def _scope(self, branch: str, profile: str) -> dict[str, str]:
        return {"tract": self.tract_id, "of_branch": branch, "of_profile": profile}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= _MOST
