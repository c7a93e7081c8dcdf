"""Signed rows: specs, handlers, profiles, settings, policies and grants. Their users verify the signatures.

All are based on `SignedRows`: store, replace, unsign or delete the row of a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sqlalchemy import or_

from tract_jupyter.storage.columns import now_text
from tract_jupyter.storage.rows import Rows, Stored
from tract_jupyter.storage.schema import grants, handlers, operation_specs, policies, run_profiles, settings

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


class SignedRows(Rows[Stored]):
    """One tract's signed rows of one kind.

    Attributes:
        key: the columns that identify a row.
    """

    key: ClassVar[tuple[str, ...]] = ("name",)

    def all(self, connection: Connection) -> list[Stored]:
        """Return all rows in order."""
        return self.find(connection)

    def get(self, connection: Connection, *key: str) -> Stored | None:
        """Return the row of a key."""
        return self.find_one(connection, **self._keyed(key))

    def replace(self, connection: Connection, row: Stored) -> None:
        """Store a row, and replace the row with the same key."""
        values = row._asdict()
        key = {name: values.pop(name) for name in self.key}
        self.put(connection, key, {"created_at": now_text(), **values})

    def unsign(self, connection: Connection, *key: str) -> None:
        """Clear the signature of a row."""
        self.update(connection, self._keyed(key), signature="")

    def delete(self, connection: Connection, *key: str) -> bool:
        """Remove the row of a key, or all rows of a partial key. False if there is none."""
        return self.remove_where(connection, **self._keyed(key)) > 0

    def _keyed(self, key: tuple[str, ...]) -> dict[str, Any]:
        return dict(zip(self.key, key, strict=False))


class StoredSpec(NamedTuple):
    """A stored spec of an operation."""

    name: str
    spec_json: str
    spec_hash: str
    signature: str


class SpecRows(SignedRows[StoredSpec]):
    """The operation specs of one tract: the active version of each, by name."""

    table = operation_specs
    row = StoredSpec
    order = ("name",)


class StoredHandler(NamedTuple):
    """A stored handler."""

    operation: str
    name: str
    spec_json: str
    spec_hash: str
    signature: str
    beside_json: str | None
    """The names of the operation's handlers in order, at the time of the signature."""


class HandlerRows(SignedRows[StoredHandler]):
    """The handlers of one tract, in the order of their creation. A replaced handler keeps its position."""

    table = handlers
    row = StoredHandler
    key = ("operation", "name")


class StoredProfile(NamedTuple):
    """A stored profile."""

    name: str
    profile_json: str
    signature: str
    is_active: bool
    created_at: str


class RunProfileRows(SignedRows[StoredProfile]):
    """The profiles of one tract by name. At most one is active."""

    table = run_profiles
    row = StoredProfile
    order = ("name",)

    def active(self, connection: Connection) -> StoredProfile | None:
        """Return the active profile."""
        return self.find_one(connection, is_active=True)

    def replace(self, connection: Connection, row: StoredProfile) -> None:
        """Store a profile. An existing profile of this name keeps its active state."""
        values: dict[str, object] = {
            "profile_json": row.profile_json,
            "signature": row.signature,
            "created_at": row.created_at,
        }
        self.put(connection, {"name": row.name}, values, is_active=False)

    def activate(self, connection: Connection, name: str | None) -> None:
        """Set the active profile; None for no active profile."""
        self.update(connection, {}, is_active=False if name is None else self.table.c.name == name)


class StoredPolicy(NamedTuple):
    """A stored policy."""

    name: str
    policy_json: str
    signature: str
    memory_json: str
    firings: int


class PolicyRows(SignedRows[StoredPolicy]):
    """The policies of one tract, by name."""

    table = policies
    row = StoredPolicy
    order = ("name",)

    def any(self, connection: Connection) -> bool:
        """Return True if the tract has a policy."""
        return bool(self.find(connection))

    def replace(self, connection: Connection, row: StoredPolicy) -> None:
        """Store a policy. An existing policy keeps the results of its firings."""
        values: dict[str, object] = {"policy_json": row.policy_json, "signature": row.signature}
        self.put(
            connection, {"name": row.name}, values,
            memory_json=row.memory_json, firings=row.firings, created_at=now_text(),
        )  # fmt: skip

    def remember(self, connection: Connection, known: StoredPolicy, memory_json: str) -> bool:
        """Store the result of a firing. False if the policy changed, or fired in another process, since the read."""
        where = {"name": known.name, "firings": known.firings, "policy_json": known.policy_json}
        values = {"memory_json": memory_json, "firings": known.firings + 1}
        return self.update(connection, where, **values) == 1


class StoredSettings(NamedTuple):
    """Stored settings of one kind."""

    name: str
    settings_json: str
    signature: str


class SettingRows(SignedRows[StoredSettings]):
    """The settings of one tract by name: the autonomy, an orchestrator's settings, ..."""

    table = settings
    row = StoredSettings
    order = ("name",)


class StoredGrant(NamedTuple):
    """A stored grant."""

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


class GrantRows(SignedRows[StoredGrant]):
    """The grants of one tract, including revoked and used-up ones, oldest first."""

    table = grants
    row = StoredGrant
    key = ("grant_id",)
    order = ("created_at",)
    is_checked = False  # the signature of a damaged row is invalid

    def live(self, connection: Connection, kind: str, name: str) -> list[StoredGrant]:
        """Return the grants for one operation or tool that are not revoked or used up."""
        where = {"kind": kind, "name": name}
        rows = connection.execute(
            self._select(where).where(*_is_live()), {"tract_id": self.tract_id, **where}
        )
        return [StoredGrant._make(row) for row in rows]

    def use(self, connection: Connection, grant_id: str) -> bool:
        """Count a use. False if the grant is revoked or used up."""
        used = grants.update().where(grants.c.grant_id == grant_id, *_is_live())
        return connection.execute(used.values(uses=grants.c.uses + 1)).rowcount == 1

    def move(self, connection: Connection, grant: StoredGrant) -> None:
        """Store a grant's new definition hash and signature, after a change of its operation or tool."""
        values = {"definition_hash": grant.definition_hash, "signature": grant.signature}
        self.update(connection, self._keyed((grant.grant_id,)), **values)

    def revoke(self, connection: Connection, grant_id: str) -> bool:
        """Revoke a grant, and clear its signature. False if it does not exist or is revoked already."""
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
