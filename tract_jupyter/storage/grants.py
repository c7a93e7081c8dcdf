"""Rows of grants: standing approvals, and how often each was used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import or_, select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.columns import unchecked
from tract_jupyter.storage.schema import grants

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


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
