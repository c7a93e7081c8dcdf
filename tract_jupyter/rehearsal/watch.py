"""Watching a run in the kernel: copies of the variables and files that the code names, for an undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tract_jupyter.rehearsal.backups import Backups
    from tract_jupyter.rehearsal.change import Change


class Watch:
    """Copies of the state before a run in the kernel."""

    def finish(self) -> Change:
        """Return the change since the start, after the code ran."""
        raise NotImplementedError


def watch(code: str, namespace: dict[str, Any], workspace: Path, backups: Backups) -> Watch:
    """Save the variables and files that the code names. Call `finish` of the result after the code ran."""
    raise NotImplementedError
