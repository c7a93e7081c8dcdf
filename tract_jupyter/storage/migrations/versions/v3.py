"""Version 3: decisions are signed and carried out once; what is shown is stored; grants, handlers and their log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Integer, String, Text, UniqueConstraint, text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "3"
down_revision = "2"

_UNSETTLED = text("settled_at IS NULL")


def upgrade(operations: Operations) -> None:
    """Turn a store of version 2 into one of version 3."""
    _widen_pendings(operations)
    _widen_decisions(operations)
    _make_tables(operations)
    _make_indexes(operations)


def _widen_pendings(operations: Operations) -> None:
    for column in (
        Column("identity", String(64)),
        Column("request_json", Text),
        Column("origin", String(255)),
        Column("waited_until", String(32)),
        Column("expires_at", String(32)),
        Column("on_timeout", String(8)),
        Column("settled_at", String(32)),
    ):
        operations.add_column("pendings", column)
    operations.execute("UPDATE pendings SET identity = fingerprint, on_timeout = 'wait'")
    # approved and not run: nothing can prove that approval, so it is asked about again
    operations.execute(
        "UPDATE pendings SET status = 'pending' WHERE status = 'approved' AND executed_at IS NULL"
    )
    operations.execute(
        "UPDATE pendings SET settled_at = COALESCE(executed_at, created_at) WHERE status NOT IN ('pending', 'failed')"
    )
    with operations.batch_alter_table("pendings") as pendings:
        pendings.alter_column("identity", existing_type=String(64), nullable=False)
        pendings.alter_column("on_timeout", existing_type=String(8), nullable=False)


def _widen_decisions(operations: Operations) -> None:
    for column in (
        Column("identity", String(64)),
        Column("signature", String(64)),
        Column("claimed_by", String(255)),
        Column("started_at", String(32)),
        Column("finished_at", String(32)),
        Column("error", Text),
    ):
        operations.add_column("decisions", column)
    # of what was decided before nothing can be verified, nor is it run again
    operations.execute(
        "UPDATE decisions SET signature = '', claimed_by = 'version 2', started_at = created_at, "
        "finished_at = created_at"
    )
    operations.execute(
        "UPDATE decisions SET identity = "
        "(SELECT pendings.identity FROM pendings WHERE pendings.pending_id = decisions.pending_id)"
    )
    with operations.batch_alter_table("decisions") as decisions:
        decisions.alter_column("identity", existing_type=String(64), nullable=False)
        decisions.alter_column("signature", existing_type=String(64), nullable=False)


def _make_tables(operations: Operations) -> None:
    operations.create_table(
        "hook_log",
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("tract_id", String(32), nullable=False),
        Column("pending_id", String(32), nullable=False),
        Column("operation", String(255), nullable=False),
        Column("handler", String(255), nullable=False),
        Column("outcome", String(16), nullable=False),
        Column("error", Text),
        Column("created_at", String(32), nullable=False),
    )
    operations.create_table(
        "grants",
        Column("grant_id", String(32), primary_key=True),
        Column("tract_id", String(32), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("name", String(255), nullable=False),
        Column("definition_hash", String(64), nullable=False),
        Column("pattern_json", Text, nullable=False),
        Column("scope", String(16), nullable=False),
        Column("session_id", String(64)),
        Column("most_uses", Integer),
        Column("uses", Integer, nullable=False),
        Column("reason", Text, nullable=False),
        Column("granted_by", String(128), nullable=False),
        Column("signature", String(64), nullable=False),
        Column("created_at", String(32), nullable=False),
        Column("revoked_at", String(32)),
    )
    operations.create_table(
        "handlers",
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("tract_id", String(32), nullable=False),
        Column("operation", String(255), nullable=False),
        Column("name", String(255), nullable=False),
        Column("spec_json", Text, nullable=False),
        Column("spec_hash", String(64), nullable=False),
        Column("signature", String(64), nullable=False),
        Column("created_at", String(32), nullable=False),
        UniqueConstraint("tract_id", "operation", "name"),
    )


def _make_indexes(operations: Operations) -> None:
    operations.drop_index("ix_pendings_status", "pendings")
    for name, columns in {
        "ix_pendings_unsettled": ["tract_id", "created_at", "pending_id"],
        "ix_pendings_identity": ["identity"],
    }.items():
        operations.create_index(
            name, "pendings", columns, sqlite_where=_UNSETTLED, postgresql_where=_UNSETTLED
        )
    operations.create_index("ix_hook_log_tract", "hook_log", ["tract_id", "id"])
    operations.create_index("ix_grants_name", "grants", ["tract_id", "kind", "name"])
