"""Turns of a model that acts: what one may take, how it may end, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from decimal import Decimal

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.toolcall import ToolCall


class TurnOutcome(StrEnum):
    """How a turn ended."""

    ANSWER = "answer"
    """The model said something and called nothing."""
    LIMIT = "limit"
    """The turn reached a limit, or its reply was cut at its limit."""
    REPEAT = "repeat"
    """The model made the same call again, with the same outcome."""
    WAITING = "waiting"
    """Calls wait for a person's decision, and nobody could be asked, or nobody answered."""
    STOPPED = "stopped"
    """A person stopped it, or paused it."""
    REFUSED = "refused"
    """The model declined to answer, or the provider's filter ended its reply."""
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
        tokens: as the provider reports them, of all requests; estimated if it reports none, or zeros. A request that
            could exceed them is not sent.
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


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A model's reply, committed, at the end of a turn. `str` gives its text.

    Attributes:
        text: what it says last; empty if it only calls tools.
        commit_info: the assistant's message; the user's, if the turn was stopped before there was any.
        usage: the tokens that all requests of the turn took, as the provider counts them; empty if it does not say.
            `estimated_tokens` are the tokens of requests that it reported as zeros, or did not report although it
            reported others.
        generation_config: the model and the parameters it was made with.
        tool_calls: the tools it calls and that have no answer: those that wait for a decision; or all, where the turn
            was given schemas alone, so that `tool_result` has to answer them.
        outcome: how the turn ended.
        note: the meaning and how to continue, in a sentence; empty for an answer within its limits.
        steps: how many requests the turn took.
        calls: how many tool calls were made, those of scripts too.
    """

    text: str
    commit_info: CommitInfo
    usage: dict[str, Any] = field(default_factory=dict)
    generation_config: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()
    outcome: TurnOutcome = TurnOutcome.ANSWER
    note: str = ""
    steps: int = 1
    calls: int = 0

    @property
    def cost(self) -> Decimal | None:
        """What it cost in US dollars; None if its tokens or the price of its model are not known."""
        from decimal import Decimal

        costs = [one.get("cost") for one in (self.usage, *self.usage.get("failed_tries", ()))]
        is_known = all(
            isinstance(usd, int | float) and not isinstance(usd, bool) and 0 <= usd < float("inf")
            for usd in costs
        )
        return sum((Decimal(str(usd)) for usd in costs), Decimal(0)) if is_known else None

    def __str__(self) -> str:
        return self.text
