"""Version 4: the calls of scripts that did not complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Integer, String, Text, UniqueConstraint

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "4"
down_revision = "3"


def upgrade(operations: Operations) -> None:
    """Turn a store of version 3 into one of version 4."""
    operations.create_table(
        "script_calls",
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("tract_id", String(32), nullable=False),
        Column("run_id", String(32), nullable=False),
        Column("script_hash", String(64), nullable=False),
        Column("notebook_id", String(64), nullable=False),
        Column("position", Integer, nullable=False),
        Column("calls_json", Text, nullable=False),
        Column("signature", String(64), nullable=False),
        Column("running", String(255)),
        Column("created_at", String(32), nullable=False),
        UniqueConstraint("run_id", "position"),
    )
    operations.create_index(
        "ix_script_calls_script", "script_calls", ["tract_id", "script_hash", "notebook_id"]
    )
