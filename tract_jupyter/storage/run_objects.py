"""Rows of what runs remember: JSON under its hash, so that what stays the same is stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, func, select

from tract_jupyter.models.canonical import sha256
from tract_jupyter.storage.prepared import Prepared
from tract_jupyter.storage.schema import commits, run_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

_ADD = Prepared(
    lambda dialect: dialect.insert(run_objects).on_conflict_do_nothing(), ("tract_id", "name", "body_json")
)
_AT_ONCE: Final = 500  # SQLite bounds the number of variables
_NAME: Final = 32
# made once: building a statement takes longer than running it
_GET = select(run_objects.c.name, run_objects.c.body_json).where(
    run_objects.c.tract_id == bindparam("tract"), run_objects.c.name.in_(bindparam("names", expanding=True))
)
_OWN = (commits.c.tract_id == bindparam("tract"), commits.c.commit_hash == bindparam("of_commit"))
_STATE = select(commits.c.run_state).where(*_OWN)
_STATES = (
    select(commits.c.run_state, func.min(commits.c.commit_hash).label("commit_hash"))
    .where(commits.c.tract_id == bindparam("tract"), commits.c.run_state.is_not(None))
    .group_by(commits.c.run_state)
    .order_by(func.min(commits.c.id))
)
_ATTACH = commits.update().where(*_OWN).values(run_state=bindparam("state"))


def name_of(body_json: str) -> str:
    """The name of an object: the beginning of its sha256."""
    return sha256(body_json.encode())[:_NAME]


class RunObjectRows:
    """The objects of one tract, and the state of runs at its commits."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(self, connection: Connection, objects: Mapping[str, str]) -> None:
        """Store objects by name; those that are there are the same."""
        if objects:
            _ADD.run_all(connection, [(self.tract_id, name, body) for name, body in objects.items()])

    def get(self, connection: Connection, names: Iterable[str]) -> dict[str, str]:
        """The objects of these names, as far as they are there."""
        wanted = list(dict.fromkeys(names))
        found: dict[str, str] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            values = {"tract": self.tract_id, "names": wanted[start : start + _AT_ONCE]}
            found.update((row.name, row.body_json) for row in connection.execute(_GET, values))
        return found

    def state_at(self, connection: Connection, commit_hash: str) -> str | None:
        """The name of the state of runs at a commit: that of its parent, unless a run has given it another."""
        state: str | None = connection.scalar(_STATE, {"tract": self.tract_id, "of_commit": commit_hash})
        return state

    def states(self, connection: Connection) -> dict[str, str]:
        """The names of all states that commits have, the oldest first, each with one of these commits."""
        rows = connection.execute(_STATES, {"tract": self.tract_id})
        return {row.run_state: row.commit_hash for row in rows}

    def attach(self, connection: Connection, commit_hash: str, state: str) -> None:
        """Give a commit another state; those that come after it inherit it."""
        connection.execute(_ATTACH, {"tract": self.tract_id, "of_commit": commit_hash, "state": state})
