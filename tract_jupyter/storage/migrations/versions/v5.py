"""Version 5: runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Text, UniqueConstraint, column

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "5"
down_revision = "4"


def upgrade(operations: Operations) -> None:
    """Turn a store of version 4 into one of version 5."""
    _make_log(operations)
    _make_state(operations)


def _make_log(operations: Operations) -> None:
    operations.create_table(
        "run_events",
        *_id(),
        *_texts(run_id=32),
        Column("seq", Integer, nullable=False),
        *_texts(event_type=64, data_json=None, created_at=32),
        UniqueConstraint("run_id", "seq"),
    )
    is_first = column("seq") == 1
    operations.create_index(
        "ix_run_events_first", "run_events", ["tract_id", "id"],
        sqlite_where=is_first, postgresql_where=is_first,
    )  # fmt: skip
    operations.create_table("run_leases", *_key(run_id=32), *_texts(tract_id=32, process=255, held_until=32))
    operations.create_table(
        "run_commits", *_key(run_id=32, hook=32), *_texts(tract_id=32, report_json=None, created_at=32)
    )


def _make_state(operations: Operations) -> None:
    operations.create_table(
        "run_artifacts",
        *_key(tract_id=32, session_key=255, tag=64),
        *_texts(value_json=None, history_json=None, settings_json=None, created_at=32),
    )
    operations.create_table(
        "run_profiles",
        *_id(),
        *_texts(name=255, profile_json=None, signature=64),
        Column("is_active", Boolean, nullable=False),
        *_texts(created_at=32),
        UniqueConstraint("tract_id", "name"),
    )
    operations.create_table(
        "run_counters",
        *_key(tract_id=32, branch=255, profile=255, operation_id=255),
        Column("turns", BigInteger, nullable=False),
        Column("context_tokens", BigInteger, nullable=False),
    )


def _id() -> list[Column[Any]]:
    return [Column("id", Integer, primary_key=True, autoincrement=True), *_texts(tract_id=32)]


def _key(**lengths: int) -> list[Column[Any]]:
    return [Column(name, String(length), primary_key=True) for name, length in lengths.items()]


def _texts(**lengths: int | None) -> list[Column[Any]]:
    """Columns that must have a value. A length of None means any."""
    return [
        Column(name, Text if length is None else String(length), nullable=False)
        for name, length in lengths.items()
    ]
