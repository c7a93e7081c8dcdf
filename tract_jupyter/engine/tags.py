"""Tags: those a commit was made with are part of it; others are added and removed later."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.engine.drafts import check_tag, check_words
from tract_jupyter.models.checks import check_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.engine.commits import Commits
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.tags import TagRows


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A tag, what it is for, and how many commits have it."""

    name: str
    description: str
    count: int


class Tags:
    """The tags of one tract."""

    def __init__(self, database: Database, rows: TagRows) -> None:
        self._database = database
        self._rows = rows

    def add(self, commits: Commits, name: str, tag: str) -> None:
        """Add a tag to a commit; a second time changes nothing."""
        check_tag(tag)
        entry = commits.entry(name)
        with self._database.write() as connection:
            if tag not in entry.tags:
                self._rows.add(connection, entry.commit_hash, tag)

    def remove(self, commits: Commits, name: str, tag: str) -> bool:
        """Remove an added tag. False if it was not added, or is part of the commit."""
        check_text(tag, "tag")
        entry = commits.entry(name)
        with self._database.write() as connection:
            return self._rows.remove(connection, entry.commit_hash, tag)

    def of(self, commits: Commits, name: str) -> tuple[str, ...]:
        """All tags of a commit, sorted."""
        entry = commits.entry(name)
        return tuple(sorted({*entry.tags, *self.added().get(entry.commit_hash, ())}))

    def added(self) -> dict[str, tuple[str, ...]]:
        """The added tags of each commit that has any."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        with self._database.read() as connection:
            for commit_hash, tag in self._rows.all(connection):
                found[commit_hash].append(tag)
        return {commit_hash: tuple(tags) for commit_hash, tags in found.items()}

    def copy(self, connection: Connection, moved: dict[str, str]) -> None:
        """Give copies of commits the tags that were added to the originals."""
        for commit_hash, tag in self._rows.all(connection):
            if commit_hash in moved:
                self._rows.add(connection, moved[commit_hash], tag)

    def register(self, tag: str, description: str) -> None:
        """Say what a tag is for."""
        check_tag(tag)
        check_words(check_text(description, "description"))
        with self._database.write() as connection:
            self._rows.describe(connection, tag, description)

    def list(self) -> list[TagInfo]:
        """Every tag that is registered or in use, by name."""
        with self._database.read() as connection:
            described = self._rows.descriptions(connection)
            counts = Counter(tag for _, tag in self._rows.all(connection))
            counts.update(self._rows.made_with(connection))
        names = sorted({*described, *counts})
        return [TagInfo(name, described.get(name, ""), counts[name]) for name in names]
