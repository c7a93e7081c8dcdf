"""Version 2: priorities are history, contexts know their size, tracts have names; the reflog and other new tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, ForeignKey, Integer, String, Text

from tract_jupyter.storage.migrations.v1_data import convert

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "2"
down_revision = None  # of version 1 there is nothing to run


def upgrade(operations: Operations) -> None:
    """Turn a store of version 1 into one of version 2."""
    _make_tables(operations)
    _make_indexes(operations)
    operations.drop_index("ix_commits_tract", "commits")  # that of the hash serves as well
    for column in (
        Column("priority", String(16)),
        Column("retention_json", Text),
        Column("tools_hash", String(64)),
        Column("context_tokens", Integer),
        Column("context_messages", Integer),
    ):
        operations.add_column("commits", column)
    convert(operations.get_bind())
    # no default: a process of the old version that still runs must fail rather than write commits without them
    with operations.batch_alter_table("commits") as commits:
        commits.alter_column("context_tokens", existing_type=Integer, nullable=False)
        commits.alter_column("context_messages", existing_type=Integer, nullable=False)
        commits.create_foreign_key("commits_tools_hash_fkey", "blobs", ["tools_hash"], ["content_hash"])
    operations.drop_table("annotations")


def _make_tables(operations: Operations) -> None:
    operations.create_table(
        "tracts",
        Column("tract_id", String(64), primary_key=True),
        Column("display_name", String(255), nullable=False),
        Column("created_at", String(32), nullable=False),
    )
    operations.create_table(
        "reflog",
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("tract_id", String(64), nullable=False),
        Column("ref_name", String(255), nullable=False),
        Column("old", String(255)),
        Column("new", String(255)),
        Column("operation", String(32), nullable=False),
        Column("message", Text, nullable=False),
        Column("undoes", Integer),
        Column("created_at", String(32), nullable=False),
    )
    operations.create_table(
        "tag_annotations",
        Column("tract_id", String(64), primary_key=True),
        Column("target_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
        Column("tag", String(255), primary_key=True),
        Column("created_at", String(32), nullable=False),
    )
    operations.create_table(
        "tag_registry",
        Column("tract_id", String(64), primary_key=True),
        Column("tag", String(255), primary_key=True),
        Column("description", Text, nullable=False),
        Column("created_at", String(32), nullable=False),
    )
    operations.create_table(
        "compile_records",
        Column("record_id", String(32), primary_key=True),
        Column("tract_id", String(64), nullable=False),
        Column("head_hash", String(64), ForeignKey("commits.commit_hash")),
        Column("token_count", Integer, nullable=False),
        Column("message_count", Integer, nullable=False),
        Column("token_source", String(128), nullable=False),
        Column("params_json", Text, nullable=False),
        Column("created_at", String(32), nullable=False),
    )
    operations.create_table(
        "spawns",
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("parent_tract_id", String(64), nullable=False),
        Column("parent_commit_hash", String(64), ForeignKey("commits.commit_hash")),
        Column("child_tract_id", String(64), nullable=False),
        Column("child_branch", String(255)),
        Column("purpose", Text, nullable=False),
        Column("inheritance", String(16), nullable=False),
        Column("created_at", String(32), nullable=False),
    )


def _make_indexes(operations: Operations) -> None:
    operations.create_index("ix_commit_parents_parent", "commit_parents", ["parent_hash"])
    operations.create_index("ix_reflog_ref", "reflog", ["tract_id", "ref_name", "id"])
    operations.create_index("ix_spawns_parent", "spawns", ["parent_tract_id"])
    operations.create_index("ix_spawns_child", "spawns", ["child_tract_id"])
