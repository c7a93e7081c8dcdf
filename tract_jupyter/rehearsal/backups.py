"""Backups: the previous content of changed files, by SHA-256, with a journal of each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from tract_jupyter.rehearsal.change import Change

BUDGET: Final = 2 * 1024**3


class Backups:
    """The previous content of files, in a private folder next to the store.

    Args:
        folder: The folder. It is created at the first backup.
        budget: Bytes. The oldest changes are removed first.
    """

    def __init__(self, folder: Path, budget: int = BUDGET) -> None:
        self.folder = folder
        self.budget = budget

    def recover(self) -> None:
        """Complete or reverse changes that an ended process left unfinished."""
        raise NotImplementedError

    def change(self, change_id: str) -> Change:
        """Return an earlier change. After a restart, it has files only."""
        raise NotImplementedError
