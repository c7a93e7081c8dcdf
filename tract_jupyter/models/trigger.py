"""Triggers that start a policy, an operation or the orchestrator automatically, and the levels of autonomy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Literal, get_args

from tract_jupyter.exceptions import ContentError, nearest
from tract_jupyter.models.text import brief_repr

Moment = Literal["commit", "compile", "turn"]
MOMENTS: Final[tuple[Moment, ...]] = get_args(Moment)
"""When triggers and policies are checked: after commits, before the context is compiled, after a turn."""
_MOMENT_TEXTS: Final = {
    "commit": "after a commit",
    "compile": "before the context is compiled",
    "turn": "after a turn",
    None: "after a commit, a compile or a turn",
}


@dataclass(frozen=True)
class Trigger:
    """Conditions for an automatic start. Each condition that is not None must hold.

    Attributes:
        moment: when the conditions are checked: after a `commit`, before a `compile` or after a `turn`. The default is
            after a commit; with `seconds`, at each of the three.
        commits: minimum number of commits on the branch since the last start.
        tokens: minimum size of the context in tokens. A fraction such as 0.8 is a part of the budget. It triggers once,
            until the context is smaller again.
        content_type: type of the newest message, such as `tool_io`.
        seconds: minimum number of seconds since the last start. No thread waits for them.

    Raises:
        ContentError: a condition is invalid.
    """

    moment: Moment | None = None
    commits: int | None = None
    tokens: int | float | None = None  # reading keeps a whole number whole
    content_type: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check the parts."""
        if self.moment is None and self.seconds is None:
            object.__setattr__(self, "moment", "commit")
        if self.moment not in (*MOMENTS, None):
            raise ContentError(
                f"moment must be {', '.join(MOMENTS)}, not {brief_repr(self.moment)}."
                f"{nearest(str(self.moment), MOMENTS)}"
            )
        if not (self.commits is None or (type(self.commits) is int and self.commits >= 1)):
            raise ContentError(
                f"commits must be a whole number of at least 1, not {brief_repr(self.commits)}"
            )
        is_part = type(self.tokens) is float and 0 < self.tokens < 1
        if not (self.tokens is None or is_part or (type(self.tokens) is int and self.tokens >= 1)):
            raise ContentError(
                f"tokens must be a whole number of at least 1, not {brief_repr(self.tokens)}. "
                "For a part of the budget, use a fraction such as 0.8"
            )
        if not isinstance(self.content_type, str | None):
            raise ContentError(f"content_type must be a string, not {type(self.content_type).__name__}")
        if not (
            self.seconds is None or (type(self.seconds) in {int, float} and 0 < self.seconds < float("inf"))
        ):
            raise ContentError(f"seconds must be a number above 0, not {brief_repr(self.seconds)}")

    def __str__(self) -> str:
        conditions = [
            f"at every {self.commits:,} commits" if self.commits is not None else "",
            f"when it has {self.tokens_text} or more" if self.tokens is not None else "",
            f"when the newest message is of type {self.content_type!r}" if self.content_type else "",
            f"after {self.seconds:,g} seconds" if self.seconds is not None else "",
        ]
        return ", ".join([_MOMENT_TEXTS[self.moment], *filter(None, conditions)])

    @property
    def tokens_text(self) -> str:
        """The number of tokens, or the part of the budget."""
        tokens = self.tokens or 0
        return f"{tokens:,} tokens" if tokens >= 1 else f"{tokens:.0%} of the budget"

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The moments at which the conditions are checked."""
        return MOMENTS if self.moment is None else (self.moment,)

    def to_dict(self) -> dict[str, Any]:
        """Return the conditions as plain data, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False, {})}


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
