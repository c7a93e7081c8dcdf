"""Two branches that are to become one history: where they are, and how they compare."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import BranchMovedError, HistoryError
from tract_jupyter.history.ancestry import merge_bases
from tract_jupyter.history.comparison import Comparison
from tract_jupyter.models.compression import COMPRESSED_FROM
from tract_jupyter.storage.columns import from_json

if TYPE_CHECKING:
    from tract_jupyter.engine.refs import Refs
    from tract_jupyter.engine.timeline import Timeline
    from tract_jupyter.engine.timelines import Timelines
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.entry import Step
    from tract_jupyter.storage.refs import Position


class Tips(NamedTuple):
    """Which two branches a decision is about: the current one, and the other one's newest commit."""

    branch: str | None
    other: str | None


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

    def look(
        self,
        name: str,
        doing: str,
        *,
        ours_last: bool = False,
        strict: bool = False,
        expected: Tips | None = None,
    ) -> Sides:
        """Compare the current branch with the branch `name`.

        Args:
            name: the other branch.
            doing: what for, for errors.
            ours_last: the own changes come after the others'.
            strict: warnings block too.
            expected: what was decided about, if it was decided before. The current branch may have gone on since.

        Raises:
            BranchMovedError: another branch is the current one, or the other one is somewhere else.
            DetachedHeadError: there is no current branch.
            BranchNotFoundError: there is no such branch.
            HistoryError: one of them has no commits, they share none, or one has a summary of what the other still has.
        """
        here, there = self._here(name, doing), self._refs.at(name)
        if expected is not None and Tips(here.branch, there.commit_hash) != expected:
            raise BranchMovedError(
                f"cannot {doing}: that was decided on {expected.branch!r}, with {name!r} at "
                f"{(expected.other or 'no commit')[:8]}; the current branch is {here.branch!r}, and {name!r} is at "
                f"{(there.commit_hash or 'no commit')[:8]}. Nothing was changed; ask for it again"
            )
        if there.commit_hash is None:
            raise HistoryError(f"branch {name!r} has no commits yet: nothing to {doing}")
        with self._timelines.lock:
            ours, theirs = self._timelines.at(here.commit_hash), self._timelines.at(there.commit_hash)
            compared = Comparison(ours, theirs, ours_last=ours_last, strict=strict)
            _check_summaries((here.branch or "", ours), (name, theirs))
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


def _check_summaries(*sides: tuple[str, Timeline]) -> None:
    """Refuse what would show a summary beside the messages that it stands for."""
    for (name, one), (other_name, other) in permutations(sides):
        for step in one.steps:
            if COMPRESSED_FROM not in step.metadata_json or step.commit_hash in other.place:
                continue
            if any(commit in other.place and commit not in one.place for commit in _stands_for(step)):
                raise HistoryError(
                    f"{name!r} has a summary, {step.commit_hash[:8]}, of messages that {other_name!r} still has: "
                    "joined, both would show. Bring over single commits with import_commits(), or take a whole branch "
                    "with reset()"
                )


def _stands_for(step: Step) -> list[str]:
    """The commits that a summary names; anybody may write metadata, so it may name none."""
    origin = from_json(step.metadata_json, dict).get(COMPRESSED_FROM)
    named = origin.get("commits") if isinstance(origin, dict) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
