"""A garbage collection that awaits a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from tract_jupyter.exceptions import CommitNotFoundError
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.builtin.base import BuiltinPending, Field
from tract_jupyter.hooks.marks import reading

if TYPE_CHECKING:
    from collections.abc import Mapping


class PendingGC(BuiltinPending):
    """Remove commits that nothing leads to, for good."""

    name = "gc"
    label = "Garbage collection"
    about: ClassVar[Mapping[str, str]] = {
        "commits_to_remove": "Hashes of the commits that would go.",
        "tokens_to_free": "How many tokens they have together.",
        "excluded": "Hashes of commits that stay, with all that they need.",
        "orphan_retention_days": "What is younger stays, in days.",
        "archive_retention_days": "Originals of summaries that ended longer ago go too, in days; none do if empty.",
    }
    commits_to_remove = Field()
    tokens_to_free = Field()
    excluded = Field()

    @action
    def exclude(self, commit_hash: Annotated[str, "Of a candidate; its first digits suffice."]) -> None:
        """Keep a commit, with all that it needs."""
        found = self.tract.get_commit(commit_hash).commit_hash
        if found not in self.commits_to_remove:
            raise CommitNotFoundError(
                f"{commit_hash!r} is no candidate, and stays anyway; list_candidates() lists what would go"
            )
        self.excluded = sorted([*self.excluded, found])
        left = self.tract.gc(
            orphan_retention_days=self.fields["orphan_retention_days"],
            archive_retention_days=self.fields["archive_retention_days"],
            keep=self.excluded,
            dry_run=True,
        )
        self.commits_to_remove = [name for name in self.commits_to_remove if name in left.commits]
        self.tokens_to_free = left.tokens

    @reading
    def list_candidates(self) -> list[dict[str, object]]:
        """The commits that would be removed, oldest first, with their messages and sizes."""
        infos = [self.tract.get_commit(name) for name in self.commits_to_remove]
        return [
            {"commit_hash": info.commit_hash, "message": info.message, "token_count": info.token_count}
            for info in infos
        ]

    def summary(self) -> str:
        """What would go."""
        count = len(self.commits_to_remove)
        return f"Remove {count:,} commits ({self.tokens_to_free:,} tokens) that nothing leads to. There is no undo."
