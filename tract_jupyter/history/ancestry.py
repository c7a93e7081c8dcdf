"""The nearest common ancestors of two histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.storage.entry import MERGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.entry import Step


def merge_bases(connection: Connection, rows: CommitRows, common: Sequence[Step]) -> tuple[str, ...]:
    """The commits of a common history that no other one of it is built on, newest first.

    There are several after merges crosswise.

    Args:
        connection: to read the other parents of merges.
        rows: the commits of the tract.
        common: everything that both sides have, in the order of the context.
    """
    covered = {step.parent_hash for step in common}
    merges = [step.commit_hash for step in common if step.operation == MERGE]
    for others in (rows.merge_parents_of(connection, merges) if merges else {}).values():
        covered.update(others)
    return tuple(step.commit_hash for step in reversed(common) if step.commit_hash not in covered)
