"""Turns of a model that acts: their ends and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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
