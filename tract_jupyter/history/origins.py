"""What a message is where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Entry
    from tract_jupyter.storage.refs import RefRows


class Origins:
    """Looks at the branches that a commit is on."""

    def __init__(self, database: Database, rows: CommitRows, refs: RefRows) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs

    def annotation(self, commit_hash: str) -> Entry | None:
        """The newest commit of any branch that gives this one another priority; None if there is none.

        Those that no branch holds, such as undone ones, do not count.
        """
        with self._database.read() as connection:
            changes = [change for _, change in self._rows.changes_to(connection, [commit_hash])]
            if not changes:
                return None
            held: set[str] = set()
            for tip in {tip for tip in self._refs.branches(connection).values() if tip}:
                held |= self._rows.ancestors(connection, tip)
            newest = next((change for change in reversed(changes) if change in held), None)
            return self._rows.get(connection, newest) if newest else None
