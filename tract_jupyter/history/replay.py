"""Carrying a rewritten history out: its commits, the tags of what was copied, the budget; all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.storage.entry import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tract_jupyter.engine.commits import Commits
    from tract_jupyter.engine.tags import Tags
    from tract_jupyter.engine.writer import Plan, Writer
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Entry, Step


class Replay:
    """Copies commits and writes plans."""

    def __init__(
        self, database: Database, rows: CommitRows, writer: Writer, tags: Tags, commits: Commits
    ) -> None:
        self._database = database
        self._rows = rows
        self._writer = writer
        self._tags = tags
        self._commits = commits

    def copies(self, head: str, steps: Sequence[Step]) -> list[Draft]:
        """Drafts of the last commits of a history without merges; `steps` are these, oldest first."""
        with self._database.read() as connection:
            chain = self._rows.chain(connection, head, len(steps))
        chain.reverse()
        return [
            Draft.of(entry._replace(payload=step.payload)) for entry, step in zip(chain, steps, strict=True)
        ]

    def write(self, plan: Plan, tokens_before: int) -> list[Entry]:
        """Write a plan, and give copies the tags that were added to their originals.

        Args:
            plan: what to write.
            tokens_before: the size of the context before; the budget is asked only about what makes it larger.

        Raises:
            BranchMovedError: somebody else moved the branch; nothing was written.
            BudgetExceededError: the budget refuses it; nothing was written.
        """

        def also(connection: Connection, entries: list[Entry]) -> None:
            moved = copied(plan.drafts, entries)
            if moved:
                self._tags.copy(connection, moved)
            tokens = entries[-1].context_tokens if entries else plan.base.context_tokens
            if tokens > tokens_before:
                self._commits.check_budget(tokens)

        return self._writer.write(plan, also)


def copied(drafts: Sequence[Draft], entries: Sequence[Entry]) -> dict[str, str]:
    """The copy of each commit that a draft is a copy of."""
    return {
        draft.source: entry.commit_hash
        for draft, entry in zip(drafts, entries, strict=True)
        if draft.source is not None
    }
