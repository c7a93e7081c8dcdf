"""What a commit did with each effect (E8)."""

from __future__ import annotations

from typing import Literal

from tract_jupyter.runs.data import Data
from tract_jupyter.runs.model import OperationError
from tract_jupyter.runs.terms import EffectStatus, Hook


class CommitEntry(Data):
    """What became of one effect. `error` says why it was not applied."""

    operation_id: str
    effect_index: int
    effect_type: str
    status: EffectStatus
    error: OperationError | None = None


class Rewrite(Data):
    """A text of the turn that an operation wrote anew: the text and the part before, and those after."""

    operation_id: str
    target: Literal["user", "reply"]
    before: str
    after: str
    replaced: str | None = None
    part: str | None = None


class CommitReport(Data):
    """A commit: all entries in the order in which effects are applied, and the operations in theirs.

    Attributes:
        required_error: whether an effect of a required operation was not applied: then the run has failed (E6).
        status: `error` then, otherwise `done`.
    """

    hook: Hook
    entries: tuple[CommitEntry, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    order: tuple[str, ...] = ()
    required_error: bool = False

    @property
    def status(self) -> Literal["done", "error"]:
        """How the commit ended."""
        return "error" if self.required_error else "done"
