"""Turns of a model that acts: how one may end, and what it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.text import brief_repr


class TurnOutcome(StrEnum):
    """How a turn ended."""

    ANSWER = "answer"
    """The model said something and called nothing."""
    LIMIT = "limit"
    """The turn took what it may take."""
    REPEAT = "repeat"
    """The model made the same call again, with the same outcome."""
    WAITING = "waiting"
    """Calls wait for a person's decision, and nobody could be asked, or nobody answered."""
    STOPPED = "stopped"
    """A person stopped it, or paused it."""
    ERROR = "error"
    """No reply came; in code that is an exception."""


MAX_TURN_SECONDS: Final = 366 * 24 * 60 * 60
"""The longest limit of seconds: clocks and timers of a system take no number, however large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """What one turn may take; None for any number.

    Attributes:
        steps: requests of the model.
        calls: tool calls, those of scripts too.
        tokens: as the provider reports them, of all requests; estimated where it reports none, or zeros.
        usd: money; only for models whose price is known.
        seconds: from the beginning of the turn, waiting for a person not included; at most a year.
    """

    steps: int | None = 50
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check what a person wrote.

        Raises:
            ContentError: a limit is no number above 0, or of more seconds than a year has.
        """
        for one in fields(self):
            given = getattr(self, one.name)
            is_whole = one.name in {"steps", "calls", "tokens"}
            is_number = type(given) is int or (type(given) is float and not is_whole and math.isfinite(given))
            if given is not None and is_number and one.name == "seconds" and given > MAX_TURN_SECONDS:
                raise ContentError(
                    f"the limit of seconds is at most {MAX_TURN_SECONDS:,} (a year), or None for any; not "
                    f"{brief_repr(given)}"
                )
            if given is not None and (not is_number or given <= 0):
                kind = "a whole number" if is_whole else "a number"
                raise ContentError(
                    f"the limit of {one.name} is {kind} above 0, or None for any; not {brief_repr(given)}"
                )


ANY_NUMBER: Final = TurnLimits()
"""No limits."""
