"""Version 6: each subject that changed has a function of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import Column, String, column, table

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "6"
down_revision = "5"


def upgrade(operations: Operations) -> None:
    """Turn a store of version 5 into one of version 6."""
    _name_the_store(operations)
    _tell_where_it_was_asked(operations)


def _name_the_store(operations: Operations) -> None:
    """Signatures name their store and tract from now on. None of before does, so that each is to be approved again."""
    meta = table("tract_meta", column("key"), column("value"))
    operations.execute(meta.insert().values(key="store_id", value=uuid4().hex))


def _tell_where_it_was_asked(operations: Operations) -> None:
    """Of what was asked before, nobody knows on which branch."""
    operations.add_column("pendings", Column("branch", String(255)))
