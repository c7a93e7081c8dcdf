"""Rows of operation specs: the active version of each, with the signature of its approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, or_, select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.columns import unchecked
from tract_jupyter.storage.schema import grants, handlers, operation_specs, run_profiles

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select


_table = operation_specs.c


class StoredSpec(NamedTuple):
    """A spec as it lies in the store: text that nobody has vouched for until its signature is checked."""

    name: str
    spec_json: str
    spec_hash: str
    signature: str


class SpecRows:
    """The operation specs of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def all(self, connection: Connection) -> list[StoredSpec]:
        """Every stored spec, by name."""
        return [StoredSpec._make(row) for row in connection.execute(self._mine().order_by(_table.name))]

    def get(self, connection: Connection, name: str) -> StoredSpec | None:
        """A stored spec."""
        row = connection.execute(self._mine().where(_table.name == name)).first()
        return None if row is None else StoredSpec._make(row)

    def replace(self, connection: Connection, spec: StoredSpec) -> None:
        """Store a spec in the place of the one of the same name."""
        self.delete(connection, spec.name)
        values = {"tract_id": self.tract_id, "created_at": now_text(), **spec._asdict()}
        connection.execute(operation_specs.insert().values(**values))

    def unsign(self, connection: Connection, name: str) -> None:
        """Take the signature of a spec away."""
        mine = (_table.tract_id == self.tract_id, _table.name == name)
        connection.execute(operation_specs.update().where(*mine).values(signature=""))

    def delete(self, connection: Connection, name: str) -> None:
        """Remove a spec."""
        mine = (_table.tract_id == self.tract_id, _table.name == name)
        connection.execute(operation_specs.delete().where(*mine))

    def _mine(self) -> Select[Any]:
        columns = [_table[name] for name in StoredSpec._fields]
        return select(*columns).where(_table.tract_id == self.tract_id)


class StoredHandler(NamedTuple):
    """A handler as it lies in the store: text that nobody has vouched for until its signature is checked."""

    operation: str
    name: str
    spec_json: str
    spec_hash: str
    signature: str
    beside_json: str | None
    """The names of the handlers of its operation in their order, when it was signed."""


class HandlerRows:
    """The handlers of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def all(self, connection: Connection, operation: str | None = None) -> list[StoredHandler]:
        """Every stored handler, or those of an operation, in the order in which they were stored."""
        query = self._mine() if operation is None else self._mine().where(handlers.c.operation == operation)
        return [StoredHandler._make(row) for row in connection.execute(query.order_by(handlers.c.id))]

    def get(self, connection: Connection, operation: str, name: str) -> StoredHandler | None:
        """A stored handler."""
        query = self._mine().where(handlers.c.operation == operation, handlers.c.name == name)
        row = connection.execute(query).first()
        return None if row is None else StoredHandler._make(row)

    def replace(self, connection: Connection, handler: StoredHandler) -> None:
        """Store a handler; one of the same name keeps its place."""
        values = {"tract_id": self.tract_id, "created_at": now_text(), **handler._asdict()}
        changed = connection.execute(handlers.update().where(*self._is(handler)).values(**values))
        if changed.rowcount == 0:
            connection.execute(handlers.insert().values(**values))

    def delete(self, connection: Connection, operation: str, name: str | None = None) -> None:
        """Remove a handler, or all of an operation."""
        where = [handlers.c.tract_id == self.tract_id, handlers.c.operation == operation]
        if name is not None:
            where.append(handlers.c.name == name)
        connection.execute(handlers.delete().where(*where))

    def _mine(self) -> Select[Any]:
        columns = [handlers.c[name] for name in StoredHandler._fields]
        return select(*columns).where(handlers.c.tract_id == self.tract_id)

    def _is(self, handler: StoredHandler) -> tuple[ColumnElement[bool], ...]:
        table = handlers.c
        return (
            table.tract_id == self.tract_id,
            table.operation == handler.operation,
            table.name == handler.name,
        )


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


class StoredGrant(NamedTuple):
    """A grant as it lies in the store: data that nobody has vouched for until its signature is checked."""

    grant_id: str
    kind: str
    name: str
    definition_hash: str
    pattern_json: str
    scope: str
    session_id: str | None
    most_uses: int | None
    uses: int
    reason: str
    granted_by: str
    signature: str
    created_at: str
    revoked_at: str | None


_COLUMNS = tuple(unchecked(grants.c[name]) for name in StoredGrant._fields)


class GrantRows:
    """The grants of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def insert(self, connection: Connection, grant: StoredGrant) -> None:
        """Add a grant."""
        connection.execute(grants.insert().values(tract_id=self.tract_id, **grant._asdict()))

    def all(self, connection: Connection) -> list[StoredGrant]:
        """Every grant, revoked and used up ones too, oldest first."""
        query = select(*_COLUMNS).where(grants.c.tract_id == self.tract_id)
        return [StoredGrant._make(row) for row in connection.execute(query.order_by(grants.c.created_at))]

    def live(self, connection: Connection, kind: str, name: str) -> list[StoredGrant]:
        """Those for one operation or tool that are neither revoked nor used up, oldest first."""
        table = grants.c
        where = (table.tract_id == self.tract_id, table.kind == kind, table.name == name, *_is_live())
        rows = connection.execute(select(*_COLUMNS).where(*where).order_by(table.created_at))
        return [StoredGrant._make(row) for row in rows]

    def use(self, connection: Connection, grant_id: str) -> bool:
        """Count a use. False if it was revoked or used up meanwhile."""
        where = (grants.c.grant_id == grant_id, *_is_live())
        values = {"uses": grants.c.uses + 1}
        return connection.execute(grants.update().where(*where).values(**values)).rowcount == 1

    def move(self, connection: Connection, grant: StoredGrant) -> None:
        """Have a grant be for another version, as it is signed now."""
        values = {"definition_hash": grant.definition_hash, "signature": grant.signature}
        connection.execute(grants.update().where(grants.c.grant_id == grant.grant_id).values(**values))

    def revoke(self, connection: Connection, grant_id: str) -> bool:
        """Revoke a grant for good: its signature goes too. False if there is none, or it was revoked before."""
        where = (
            grants.c.tract_id == self.tract_id,
            grants.c.grant_id == grant_id,
            grants.c.revoked_at.is_(None),
        )
        values = {"revoked_at": now_text(), "signature": ""}
        return connection.execute(grants.update().where(*where).values(**values)).rowcount == 1


def _is_live() -> tuple[ColumnElement[bool], ...]:
    table = grants.c
    return table.revoked_at.is_(None), or_(table.most_uses.is_(None), table.uses < table.most_uses)
