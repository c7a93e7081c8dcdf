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
    """A committed reply at the end of a turn. `str` returns its text.

    Attributes:
        text: the last text; empty if the reply only calls tools.
        commit_info: the assistant's message; the user's, if the turn was stopped before there was any.
        usage: the reported tokens of all requests of the turn; empty if the provider reports none. `estimated_tokens`
            counts requests without a report, or with zeros.
        generation_config: the model and the parameters.
        tool_calls: the calls without an answer. They wait for a decision, or, if the turn got schemas alone, for
            `tool_result`.
        outcome: the end of the turn.
        note: its meaning and the way to continue, in a sentence; empty for an answer within its limits.
        steps: the number of requests.
        calls: the number of tool calls, including the calls of scripts.
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
        """The cost in US dollars; None if the tokens or the price of the model are unknown."""
        from decimal import Decimal

        costs = [one.get("cost") for one in (self.usage, *self.usage.get("failed_tries", ()))]
        is_known = all(
            isinstance(usd, int | float) and not isinstance(usd, bool) and 0 <= usd < float("inf")
            for usd in costs
        )
        return sum((Decimal(str(usd)) for usd in costs), Decimal(0)) if is_known else None

    def __str__(self) -> str:
        return self.text
