"""What `verify` tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tract_jupyter.models.text import printable

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that a run without a person would not do, or that is odd about its recorded decisions.

    Attributes:
        path: of the notebook, or of the lock file.
        cell: which cell, counted from 1 among all cells; None if it is about the file.
        line: which line of the cell.
        what: what is asked.
        why: why it would be refused.
        kind: `refused`; `unknown`, where only a run tells; of entries of the lock file `unsigned`, `foreign` or
            `unused`.
    """

    path: Path
    cell: int | None
    line: int | None
    what: str
    why: str
    kind: Literal["refused", "unknown", "unsigned", "foreign", "unused"] = "refused"

    def __str__(self) -> str:
        place = "" if self.cell is None else f", cell {self.cell}, line {self.line}"
        return printable(f"{self.path}{place}: {self.kind}: {self.what}: {' '.join(self.why.split())}")
