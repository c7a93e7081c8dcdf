"""The budget of a tract: the maximum size of its context, and the reaction to a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import BudgetExceededError, ContentError
from tract_jupyter.models.commit import show_tokens

if TYPE_CHECKING:
    from collections.abc import Callable


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
        max_tokens: the maximum for the whole context, as `CompiledContext.token_count`. Estimates are corrected by the
            provider's counts.
        action: `warn` warns once for each commit above the limit, `reject` refuses the commit, `callback` calls.
        callback: called with (tokens, max_tokens) for `callback`; its exception refuses the commit.

    Raises:
        ContentError: a value is invalid, or callback and action do not match.
    """

    max_tokens: int
    action: BudgetAction | str = BudgetAction.WARN
    callback: Callable[[int, int], object] | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise ContentError(f"max_tokens must be a whole number of at least 1, not {self.max_tokens!r}")
        object.__setattr__(self, "action", BudgetAction(self.action))
        if (self.action is BudgetAction.CALLBACK) != (self.callback is not None):
            raise ContentError("a callback and action='callback' must be used together")

    def check(self, tokens: int, source: str) -> None:
        """Act on a context of this many tokens if it exceeds the budget.

        Raises:
            BudgetExceededError: the action is `reject`.
        """
        if tokens <= self.max_tokens:
            return
        problem = f"the context would have {show_tokens(tokens, source)} tokens, but its budget is {self.max_tokens:,}"
        if self.action is BudgetAction.REJECT:
            raise BudgetExceededError(
                f"{problem}; nothing was committed. Compress or skip earlier commits first."
            )
        if self.action is BudgetAction.WARN:
            from tract_jupyter.models.warning import warn

            warn(f"{problem}; consider compress()", BudgetWarning)
        elif self.callback is not None:
            self.callback(tokens, self.max_tokens)
