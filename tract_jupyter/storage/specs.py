"""Rows of operation specs: the active version of each, with the signature of its approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from tract_jupyter.storage.clock import now_text
from tract_jupyter.storage.schema import operation_specs

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select


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
