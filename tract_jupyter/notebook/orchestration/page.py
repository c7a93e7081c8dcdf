"""A run as it stands: a turn whose foot says what became of the context."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tract_jupyter.models import TurnOutcome, counted
from tract_jupyter.notebook.chat.turn import DrawnTurn
from tract_jupyter.notebook.orchestration.parts import StepPart

if TYPE_CHECKING:
    from tract_jupyter.notebook.chat.view import Action


@dataclass(frozen=True)
class DrawnRun(DrawnTurn):
    """A run as it stands.

    Attributes:
        tokens_before: of the context, before the run; None if it is not known.
        tokens_now: the same now, or at the end; None if it is not known.
        most_tokens: the budget; None for none.
        undo: what takes back what it changed; empty if nothing does.
    """

    tokens_before: int | None = None
    tokens_now: int | None = None
    most_tokens: int | None = None
    undo: str = ""

    @classmethod
    def of(cls, turn: DrawnTurn, **more: object) -> DrawnRun:
        """Return a turn as a run."""
        known = {one.name: getattr(turn, one.name) for one in fields(DrawnTurn)}
        return cls(**known, **more)  # type: ignore[arg-type] # as they are there

    @property
    def outcome(self) -> str:
        """What was done, in a sentence without its full stop."""
        steps = [part for part in self.parts if isinstance(part, StepPart)]
        done = sum(one.is_change for one in steps)
        told = sum(one.is_told for one in steps)
        refused = sum(one.state == "refused" for one in steps)
        said = [
            f"{counted(done, 'change')} made" if done else "Nothing was changed",
            f"{counted(refused, 'proposal')} rejected" if refused else "",
            f"{counted(told, 'proposal')} told, and not done, as autonomy was manual" if told else "",
        ]
        return "; ".join(filter(None, said))

    @property
    def summary(self) -> str:
        """How it ended and what was done, in a line."""
        _, title, _ = super()._state()
        return "; ".join(filter(None, [title, self.outcome]))

    def _actions(self) -> tuple[Action, ...]:
        return ("stop",) if self.ended is None else ()

    def _state(self) -> tuple[str, str, str]:
        icon, title, more = super()._state()
        if self.ended is None:
            return icon, title, more
        if self.ended.outcome is TurnOutcome.ANSWER:
            return icon or "i-done", self.outcome, "; ".join(filter(None, [title, self.undo]))
        return icon, title, "; ".join(filter(None, [self.outcome, more, self.undo]))

    def _numbers(self) -> list[str]:
        return [self._context(), *super()._numbers()]

    def _context(self) -> str:
        before, now, most = self.tokens_before, self.tokens_now, self.most_tokens
        if before is None and now is None:
            return ""
        counts = " → ".join(dict.fromkeys(f"{one:,}" for one in (before, now) if one is not None))
        of = "" if most is None else f" of {most:,}"
        return f"context {counts}{of} tokens"
