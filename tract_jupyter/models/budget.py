"""Limits: the size of a context, and the usage of a turn, an agent, all agents of a tract, or a session."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import BudgetExceededError, ContentError
from tract_jupyter.models.commit import show_tokens
from tract_jupyter.models.text import brief_repr, counted

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
            from tract_jupyter.models.progress import warn

            warn(f"{problem}; consider compress()", BudgetWarning)
        elif self.callback is not None:
            self.callback(tokens, self.max_tokens)


MAX_TURN_SECONDS: Final = 366 * 24 * 60 * 60
"""The longest limit of seconds: clocks and timers of a system take no number, however large."""
_NOUNS: Final = {"steps": "request", "calls": "tool call", "tokens": "token", "seconds": "second"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Limits of requests, calls, tokens, dollars and seconds; None means no limit.

    Attributes:
        steps: requests to the model. The default for a turn is 50.
        calls: tool calls, including calls of scripts.
        tokens: tokens of all requests, as reported by the provider. If it reports none, or zeros, they are estimated. A
            request that could exceed the limit is not sent.
        usd: US dollars; only for models with a known price.
        seconds: time from the start of the turn, without waiting for the user. At most a year.

    Raises:
        ContentError: a limit is not a number above 0, or `seconds` is longer than a year.
    """

    steps: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check the limits."""
        for name, limit in self.to_dict().items():
            is_whole = name in {"steps", "calls", "tokens"}
            is_number = type(limit) is int or (type(limit) is float and not is_whole and math.isfinite(limit))
            if is_number and name == "seconds" and limit > MAX_TURN_SECONDS:
                raise ContentError(
                    f"the limit of seconds must be at most {MAX_TURN_SECONDS:,} (a year), or None for no limit, not "
                    f"{brief_repr(limit)}"
                )
            if not is_number or limit <= 0:
                kind = "a whole number" if is_whole else "a number"
                raise ContentError(
                    f"the limit of {name} must be {kind} above 0, or None for no limit, not {brief_repr(limit)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as a dict, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        limits = [_text(name, value) for name, value in self.to_dict().items()] or ["none"]
        return " and ".join(filter(None, (", ".join(limits[:-1]), limits[-1])))


def _text(name: str, value: float) -> str:
    if name == "usd":
        return usd_text(Decimal(str(value)))
    return counted(value, _NOUNS[name]) if type(value) is int else f"{value:,g} seconds"


def usd_text(usd: Decimal) -> str:
    """Return dollars as text: with cents, and with more digits for amounts below one cent."""
    if usd and abs(usd) < Decimal("0.0001"):
        return "less than 0.0001 USD"
    digits = 2 if abs(usd) >= 1 or not usd else 4
    return f"{usd:,.{digits}f} USD"
