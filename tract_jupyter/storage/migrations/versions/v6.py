"""Version 6: each subject that changed has a function of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "6"
down_revision = "5"


def upgrade(operations: Operations) -> None:
    """Turn a store of version 5 into one of version 6."""
    del operations
