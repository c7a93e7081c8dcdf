"""Configuration of a tract: budgets and generation settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import BudgetExceededError, ContentError
from tract_jupyter.models.commit import show_tokens
from tract_jupyter.models.limits import TurnOutcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.toolcall import ToolCall


class BudgetAction(StrEnum):
    """The reaction to a commit that makes the context larger than its budget."""

    WARN = "warn"
    REJECT = "reject"
    CALLBACK = "callback"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ContentError(f"{value!r} is not a budget action; use {', '.join(cls)}")


class BudgetWarning(UserWarning):
    """The context is larger than its budget."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A limit on the size of the compiled context, in tokens.

    Args:
        max_tokens: of the whole compiled context, as `CompiledContext.token_count` tells them: an estimate is corrected
            by what a provider counted.
        action: `warn` warns once for each commit beyond it, `reject` refuses the commit, `callback` calls.
        callback: called with (tokens, max_tokens) for `callback`; what it raises refuses the commit.

    Raises:
        ContentError: one of them means nothing, or the callback and the action do not go together.
    """

    max_tokens: int
    action: BudgetAction | str = BudgetAction.WARN
    callback: Callable[[int, int], object] | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise ContentError(f"max_tokens is a whole number of tokens from 1 on, got {self.max_tokens!r}")
        object.__setattr__(self, "action", BudgetAction(self.action))
        if (self.action is BudgetAction.CALLBACK) != (self.callback is not None):
            raise ContentError("a callback goes with action='callback', and only with it")

    def check(self, tokens: int, source: str) -> None:
        """Act on a context of this many tokens if it exceeds the budget.

        Raises:
            BudgetExceededError: the action is `reject`.
        """
        if tokens <= self.max_tokens:
            return
        told = f"the context would have {show_tokens(tokens, source)} tokens, and its budget is {self.max_tokens:,}"
        if self.action is BudgetAction.REJECT:
            raise BudgetExceededError(
                f"{told}; nothing was committed. Compress or skip earlier commits first."
            )
        if self.action is BudgetAction.WARN:
            from tract_jupyter.models.warning import warn

            warn(f"{told}; consider compress()", BudgetWarning)
        elif self.callback is not None:
            self.callback(tokens, self.max_tokens)


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A model's reply, committed, at the end of a turn. `str` gives its text.

    Attributes:
        text: what it says last; empty if it only calls tools.
        commit_info: the assistant's message; the user's, if the turn was stopped before there was any.
        usage: the tokens that all requests of the turn took, as the provider counts them; empty if it does not say.
            `estimated_tokens` are those of requests of which it said nothing, where it did of others.
        generation_config: the model and the parameters it was made with.
        tool_calls: the tools it calls and that have no answer: those that wait for a decision; or all, where the turn
            was given schemas alone, so that `tool_result` has to answer them.
        outcome: how the turn ended.
        note: what that means and how to go on, in a sentence; empty for an answer.
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
