"""Tags of commits, and their descriptions. A tag can be part of a commit or be added later."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models import check_tag, check_text, check_words
from tract_jupyter.storage import TagRows

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A tag, its description, and the number of its commits."""

    name: str
    description: str
    count: int


class Tags:
    """The tags of one tract: permanent tags of commits, and added ones."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._rows = TagRows(repository.tract_id)

    def add(self, commit_hash: str, tag: str) -> None:
        """Add a tag to a commit. Unlike a tag of the commit itself, it can be removed. Does nothing if the tag exists.

        Args:
            commit_hash: hash, prefix or branch of the commit.
            tag: 1 to 255 characters.

        Raises:
            ContentError: invalid tag.
            CommitNotFoundError: unknown commit.
        """
        check_tag(tag)
        entry = self._repository.commits.entry(commit_hash)
        with self._repository.database.write() as connection:
            if tag not in entry.tags:
                self._rows.add(connection, entry.commit_hash, tag)

    def remove(self, commit_hash: str, tag: str) -> bool:
        """Remove an added tag. Return False if it was not added, or is part of the commit.

        Raises:
            ContentError: the tag is not a text.
            CommitNotFoundError: unknown commit.
        """
        check_text(tag, "tag")
        entry = self._repository.commits.entry(commit_hash)
        with self._repository.database.write() as connection:
            return self._rows.remove(connection, entry.commit_hash, tag)

    def of(self, commit_hash: str) -> tuple[str, ...]:
        """Return all tags of a commit, sorted.

        Raises:
            CommitNotFoundError: unknown commit.
        """
        entry = self._repository.commits.entry(commit_hash)
        return tuple(sorted({*entry.tags, *self.added().get(entry.commit_hash, ())}))

    def added(self) -> dict[str, tuple[str, ...]]:
        """Return the added tags of commits."""
        by_commit: defaultdict[str, list[str]] = defaultdict(list)
        with self._repository.database.read() as connection:
            for commit_hash, tag in self._rows.all(connection):
                by_commit[commit_hash].append(tag)
        return {commit_hash: tuple(tags) for commit_hash, tags in by_commit.items()}

    def copy(self, connection: Connection, moved: dict[str, str]) -> None:
        """Copy the added tags of originals to their copies."""
        for commit_hash, tag in self._rows.all(connection):
            if commit_hash in moved:
                self._rows.add(connection, moved[commit_hash], tag)

    def register(self, name: str, description: str = "") -> None:
        """Store the description of a tag.

        Raises:
            ContentError: invalid tag, or the description is not a text.
        """
        check_tag(name)
        check_words(check_text(description, "description"))
        with self._repository.database.write() as connection:
            self._rows.describe(connection, name, description)

    def list(self) -> list[TagInfo]:
        """Return every tag that is registered or in use, by name, with its count."""
        with self._repository.database.read() as connection:
            described = self._rows.descriptions(connection)
            counts = Counter(tag for _, tag in self._rows.all(connection))
            counts.update(self._rows.permanent(connection))
        names = sorted({*described, *counts})
        return [TagInfo(name, described.get(name, ""), counts[name]) for name in names]
