"""Version 6: each subject that changed has a function of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import Column, String, Text, column, table

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "6"
down_revision = "5"


def upgrade(operations: Operations) -> None:
    """Turn a store of version 5 into one of version 6."""
    _name_the_store(operations)
    _tell_where_it_was_asked(operations)
    _tie_runs_to_commits(operations)
    _keep_handlers_together(operations)


def _name_the_store(operations: Operations) -> None:
    """Signatures name their store and tract from now on. None of before does, so that each is to be approved again."""
    meta = table("tract_meta", column("key"), column("value"))
    operations.execute(meta.insert().values(key="store_id", value=uuid4().hex))


def _tie_runs_to_commits(operations: Operations) -> None:
    """What runs remember belongs to commits from now on. What they had until now names none, so it begins anew."""
    operations.add_column("commits", Column("run_state", String(32)))
    operations.create_table(
        "run_objects",
        Column("tract_id", String(32), primary_key=True),
        Column("name", String(32), primary_key=True),
        Column("body_json", Text, nullable=False),
    )
    operations.drop_table("run_artifacts")
    operations.drop_table("run_counters")
    operations.add_column("run_leases", Column("branch", String(255)))
    operations.add_column("run_leases", Column("question", String(64)))


def _tell_where_it_was_asked(operations: Operations) -> None:
    """Of what was asked before, nobody knows on which branch."""
    operations.add_column("pendings", Column("branch", String(255)))


def _keep_handlers_together(operations: Operations) -> None:
    """A handler is signed with those beside it from now on, and each is to be approved again anyway."""
    operations.add_column("handlers", Column("beside_json", Text))
