"""Rows of operation specs: the active version of each, with the signature of its approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import operation_specs

if TYPE_CHECKING:
    from sqlalchemy import Connection


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
        table = operation_specs.c
        query = select(table.name, table.spec_json, table.spec_hash, table.signature)
        rows = connection.execute(query.where(table.tract_id == self.tract_id).order_by(table.name))
        return [StoredSpec(*row) for row in rows]

    def replace(self, connection: Connection, spec: StoredSpec) -> None:
        """Store a spec in the place of the one of the same name."""
        self.delete(connection, spec.name)
        values = {"tract_id": self.tract_id, "created_at": now_text(), **spec._asdict()}
        connection.execute(operation_specs.insert().values(**values))

    def unsign(self, connection: Connection, name: str) -> None:
        """Take the signature of a spec away."""
        mine = (operation_specs.c.tract_id == self.tract_id, operation_specs.c.name == name)
        connection.execute(operation_specs.update().where(*mine).values(signature=""))

    def delete(self, connection: Connection, name: str) -> None:
        """Remove a spec."""
        mine = (operation_specs.c.tract_id == self.tract_id, operation_specs.c.name == name)
        connection.execute(operation_specs.delete().where(*mine))
