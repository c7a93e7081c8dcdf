"""Rows of profiles: which operations belong to a run, with the signature of who saved them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import run_profiles

if TYPE_CHECKING:
    from sqlalchemy import Connection


class StoredProfile(NamedTuple):
    """A profile as it lies in the store: text that nobody has vouched for until its signature is checked."""

    name: str
    profile_json: str
    signature: str
    is_active: bool
    created_at: str


_TABLE = run_profiles.c
_MINE = _TABLE.tract_id == bindparam("tract")
_NAMED = (_MINE, _TABLE.name == bindparam("named"))
# made once: building a statement takes longer than running it
_ALL = select(*(_TABLE[name] for name in StoredProfile._fields)).where(_MINE).order_by(_TABLE.name)
_GET = _ALL.where(_TABLE.name == bindparam("named"))
_ACTIVE = _ALL.where(_TABLE.is_active)
_ACTIVATE = run_profiles.update().where(_MINE).values(is_active=_TABLE.name == bindparam("named"))
_DEACTIVATE = run_profiles.update().where(_MINE).values(is_active=False)
_UPDATE = run_profiles.update().where(*_NAMED)
_DELETE = run_profiles.delete().where(*_NAMED)
_INSERT = run_profiles.insert()


class RunProfileRows:
    """The profiles of one tract, of which at most one is active."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def all(self, connection: Connection) -> list[StoredProfile]:
        """Every stored profile, by name."""
        return [StoredProfile._make(row) for row in connection.execute(_ALL, {"tract": self.tract_id})]

    def get(self, connection: Connection, name: str) -> StoredProfile | None:
        """A stored profile."""
        row = connection.execute(_GET, self._named(name)).first()
        return None if row is None else StoredProfile._make(row)

    def active(self, connection: Connection) -> StoredProfile | None:
        """The active one."""
        row = connection.execute(_ACTIVE, {"tract": self.tract_id}).first()
        return None if row is None else StoredProfile._make(row)

    def replace(self, connection: Connection, name: str, profile_json: str, signature: str) -> None:
        """Store a profile; one of the same name stays as active as it was."""
        values = {"profile_json": profile_json, "signature": signature, "created_at": now_text()}
        changed = connection.execute(_UPDATE, {**self._named(name), **values})
        if changed.rowcount == 0:
            row = {"tract_id": self.tract_id, "name": name, "is_active": False, **values}
            connection.execute(_INSERT, row)

    def activate(self, connection: Connection, name: str | None) -> None:
        """Make one the active profile, or none."""
        if name is None:
            connection.execute(_DEACTIVATE, {"tract": self.tract_id})
        else:
            connection.execute(_ACTIVATE, self._named(name))

    def remove(self, connection: Connection, name: str) -> bool:
        """Forget a profile; false if there is none."""
        return connection.execute(_DELETE, self._named(name)).rowcount > 0

    def _named(self, name: str) -> dict[str, str]:
        return {"tract": self.tract_id, "named": name}
