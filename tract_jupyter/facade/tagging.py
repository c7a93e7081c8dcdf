"""Tags of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.facade.parts import Parts

if TYPE_CHECKING:
    from tract_jupyter.context.refs import TagInfo


class Tagging(Parts):
    """The part of `Tract` that tags commits."""

    def tag(self, commit_hash: str, tag: str) -> None:
        """Add a tag to a commit. Unlike those it was made with, it can be removed.

        Raises:
            ContentError: this can be no tag.
            CommitNotFoundError: `commit_hash` names nothing.
        """
        self._tags.add(self._commits, commit_hash, tag)

    def untag(self, commit_hash: str, tag: str) -> bool:
        """Remove an added tag. False if it was not added, or is part of the commit.

        Raises:
            ContentError: the tag is no text.
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._tags.remove(self._commits, commit_hash, tag)

    def register_tag(self, name: str, description: str = "") -> None:
        """Say what a tag is for.

        Raises:
            ContentError: this can be no tag, or the description is no text.
        """
        self._tags.register(name, description)

    def get_tags(self, commit_hash: str) -> tuple[str, ...]:
        """All tags of a commit, sorted.

        Raises:
            CommitNotFoundError: `commit_hash` names nothing.
        """
        return self._tags.of(self._commits, commit_hash)

    def list_tags(self) -> list[TagInfo]:
        """Every tag that is registered or in use, by name, with its count."""
        return self._tags.list()
