"""Version 1: who is an actor, tags have descriptions, there are profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Boolean, Column, Integer, String, Text, UniqueConstraint

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "1"
down_revision = None


def upgrade(operations: Operations) -> None:
    """Turn a store of version 0 into one of version 1."""
    operations.alter_column("events", "who", new_column_name="actor")
    operations.create_table(
        "new_tags",
        Column("tract_id", String(64), primary_key=True),
        Column("tag", String(255), primary_key=True),
        Column("description", Text, nullable=False),
        Column("created_at", String(32), nullable=False),
    )
    operations.execute("INSERT INTO new_tags SELECT tract_id, tag, '', created_at FROM tag_registry")
    operations.drop_table("tag_registry")
    operations.rename_table("new_tags", "tag_registry")
    operations.create_table(
        "run_profiles",
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("tract_id", String(32), nullable=False),
        Column("name", String(255), nullable=False),
        Column("profile_json", Text, nullable=False),
        Column("signature", String(64), nullable=False),
        Column("is_active", Boolean, nullable=False),
        Column("created_at", String(32), nullable=False),
        UniqueConstraint("tract_id", "name"),
    )
