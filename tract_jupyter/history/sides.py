"""Two branches that are to become one history: where they are, and how they compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import HistoryError
from tract_jupyter.history.ancestry import merge_bases
from tract_jupyter.history.comparison import Comparison

if TYPE_CHECKING:
    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.refs import Position


@dataclass(frozen=True, slots=True)
class Sides:
    """The current branch and another one, both with commits and with a common beginning."""

    here: Position
    there: Position
    bases: tuple[str, ...]
    compared: Comparison

    @property
    def names(self) -> tuple[str, str]:
        """The two branches."""
        return self.here.branch or "", self.there.branch or ""

    @property
    def tips(self) -> tuple[str, str]:
        """The newest commit of each."""
        return self.here.commit_hash or "", self.there.commit_hash or ""

    @property
    def is_behind(self) -> bool:
        """Whether the other branch has everything of the current one."""
        return self.tips[0] in self.compared.common

    @property
    def is_ahead(self) -> bool:
        """Whether the current branch has everything of the other one."""
        return self.tips[1] in self.compared.common


class SideBySide:
    """Looks at the current branch and another one."""

    def __init__(self, database: Database, rows: CommitRows, refs: Refs, timelines: Timelines) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs
        self._timelines = timelines

    def look(self, name: str, doing: str, *, ours_last: bool = False, strict: bool = False) -> Sides:
        """Compare the current branch with the branch `name`.

        Raises:
            DetachedHeadError: there is no current branch.
            BranchNotFoundError: there is no such branch.
            HistoryError: one of them has no commits, or they share none.
        """
        here = self._here(name, doing)
        there = self._refs.at(name)
        if there.commit_hash is None:
            raise HistoryError(f"branch {name!r} has no commits yet: nothing to {doing}")
        with self._timelines.lock:
            ours, theirs = self._timelines.at(here.commit_hash), self._timelines.at(there.commit_hash)
            compared = Comparison(ours, theirs, ours_last=ours_last, strict=strict)
            common = [step for step in ours.steps if step.commit_hash in compared.common]
        if not common:
            raise HistoryError(
                f"{here.branch!r} and {name!r} have no commit in common: nothing says how they belong together. Bring "
                "over what you need with import_commits()"
            )
        with self._database.read() as connection:
            bases = merge_bases(connection, self._rows, common)
        return Sides(here, there, bases, compared)

    def _here(self, name: str, doing: str) -> Position:
        here = self._refs.position
        if here.branch is not None and here.commit_hash is None:
            raise HistoryError(
                f"branch {here.branch!r} has no commits yet, so it has none in common with {name!r}; reset({name!r}) "
                "makes it the same"
            )
        return self._refs.on_branch(doing)
