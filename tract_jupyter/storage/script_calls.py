"""Rows of the calls of scripts that did not complete. The oldest runs go once there are more than `KEPT` of a tract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, select

from tract_jupyter.storage.schema import script_calls

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

KEPT = 100
"""Runs of one tract."""


class StoredCalls(NamedTuple):
    """Some calls of one run, as they lie in the store: those from `position` on.

    `running` is the process that runs it, None once it has ended there; `created_at` is a text, as it is signed.
    """

    run_id: str
    position: int
    calls_json: str
    signature: str
    running: str | None
    created_at: str


_TABLE = script_calls.c
# made once: building a statement takes longer than running it
_OF = (
    select(*(_TABLE[name] for name in StoredCalls._fields))
    .where(
        _TABLE.tract_id == bindparam("tract"),
        _TABLE.script_hash == bindparam("script"),
        _TABLE.notebook_id == bindparam("notebook"),
    )
    .order_by(_TABLE.id)
)


class ScriptCallRows:
    """The calls of one tract's scripts."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def of(self, connection: Connection, script_hash: str, notebook_id: str) -> list[StoredCalls]:
        """All rows of a script in a notebook, oldest first."""
        values = {"tract": self.tract_id, "script": script_hash, "notebook": notebook_id}
        return [StoredCalls(*row) for row in connection.execute(_OF, values)]

    def add(self, connection: Connection, script_hash: str, notebook_id: str, stored: StoredCalls) -> None:
        """Add some calls of a run; with the first of them, the oldest runs go."""
        row = {"tract_id": self.tract_id, "script_hash": script_hash, "notebook_id": notebook_id}
        connection.execute(script_calls.insert(), {**row, **stored._asdict()})
        if stored.position == 0:
            self._shorten(connection)

    def release(self, connection: Connection, run_id: str) -> None:
        """Say that a run has ended."""
        connection.execute(script_calls.update().where(*self._those([run_id])).values(running=None))

    def remove(self, connection: Connection, run_ids: Collection[str]) -> None:
        """Forget some runs."""
        connection.execute(script_calls.delete().where(*self._those(run_ids)))

    def _those(self, run_ids: Collection[str]) -> tuple[Any, ...]:
        return _TABLE.tract_id == self.tract_id, _TABLE.run_id.in_(run_ids)

    def _shorten(self, connection: Connection) -> None:
        first = (_TABLE.tract_id == self.tract_id, _TABLE.position == 0)
        newest = select(_TABLE.run_id).where(*first).order_by(_TABLE.id.desc())
        oldest = list(connection.scalars(newest.offset(KEPT)))
        if oldest:
            self.remove(connection, oldest)
