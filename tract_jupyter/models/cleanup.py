"""What a garbage collection removed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GCResult:
    """What was removed, or with `dry_run` what would be."""

    commits: tuple[str, ...]
    """The removed commits, oldest first."""
    blobs: int
    """How many contents and tool schemas nobody uses any more."""
    bytes: int
    """Their size. The store uses the space again; its file does not shrink."""
    tokens: int
    """The tokens of the removed commits, as they were counted."""
    reflog_entries: int
    """The recorded moves that led to removed commits."""
    dry_run: bool = False

    def __str__(self) -> str:
        verb = "would remove" if self.dry_run else "removed"
        commits = f"{len(self.commits):,} commits ({self.tokens:,} tokens)"
        return f"{verb} {commits} and {self.blobs:,} contents ({self.bytes:,} bytes)"
