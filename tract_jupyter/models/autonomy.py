"""Autonomy: how many actions of a policy or an orchestrator run without approval."""

from __future__ import annotations

from enum import StrEnum

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.text import brief_repr


class AutonomyLevel(StrEnum):
    """The levels, lowest first."""

    MANUAL = "manual"
    """The action is reported, but it does not run."""
    COLLABORATIVE = "collaborative"
    """The action needs the user's approval. A read-only action runs freely."""
    AUTONOMOUS = "autonomous"
    """The action runs. A destructive action still needs the user's approval, unless the ceiling's owner waived it."""

    @property
    def rank(self) -> int:
        """The place among the levels, 0 for the lowest."""
        return list(AutonomyLevel).index(self)

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ContentError(f"{brief_repr(value)} is not a level of autonomy; use one of {', '.join(cls)}")


def effective_autonomy(*levels: AutonomyLevel) -> AutonomyLevel:
    """Return the lowest of several levels: a ceiling, and the levels below it."""
    return min(levels, key=lambda level: level.rank)
