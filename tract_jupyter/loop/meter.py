"""The meter of a turn: what the turn has taken so far, against its limits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.llm import tokens_of
from tract_jupyter.models import TurnLimits, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.llm import CostLine

Price = Callable[[str, Mapping[str, Any]], float | None]
"""A function that says what a request cost in USD, given the model and the reported usage; None if nobody knows."""


class TurnMeter:
    """What a turn has taken so far, against its limits. Threads may share it.

    Args:
        limits: what it may take.
        price: what a request cost.

    Attributes:
        usage: the sum of what the provider reported; with `estimated_tokens`, of requests of which it reported nothing,
            beside the others, and with `cost` only if that of each request is known.
        steps: requests.
        calls: tool calls.
        unpriced: a model of which a request had no known price; None if there was none.
    """

    def __init__(self, limits: TurnLimits, price: Price | None = None) -> None:
        if limits.usd is not None and price is None:
            raise ContentError(
                "a limit of money needs prices, and none are known here; give a limit of tokens instead, "
                "such as TurnLimits(tokens=100_000)"
            )
        self.limits = limits
        self.usage: dict[str, Any] = {}
        self.steps = self.calls = self.tokens = 0
        self.usd = 0.0
        self._price = price
        self.unpriced: str | None = None
        self._is_priced = True
        self._estimated = 0
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def add_request(
        self, model: str, usage: Mapping[str, Any] | None, estimated: int, *, retries: int = 0
    ) -> None:
        """Count a request.

        Args:
            model: who replied.
            usage: what the provider reported.
            estimated: the tokens of request and reply, where it reported none.
            retries: how many requests before it are told with it.
        """
        self.steps += 1 + retries
        reported = tokens_of(usage or {})
        self.tokens += estimated if reported is None else reported
        own = (usage or {}).get("estimated_tokens", 0)
        self._estimated += estimated if reported is None else own
        self._is_priced = self._is_priced and "cost" in (usage or {})
        _add(self.usage, usage or {})
        if self.usage and self._estimated:
            self.usage["estimated_tokens"] = self._estimated
        if not self._is_priced:  # the rest is not what the turn cost
            self.usage.pop("cost", None)
        failed = (usage or {}).get("failed_tries", ())
        self.tokens += sum(tokens_of(one) or 0 for one in failed)
        if self._price is not None:
            for one in (usage or {}, *failed):
                cost = self._price(model, one)
                if cost is None:
                    self.unpriced = model
                else:
                    self.usd += cost

    def add_costs(self, lines: Iterable[CostLine]) -> None:
        """Count what requests beside those of the turn took, such as those of a model that reviews its calls."""
        with self._lock:
            for line in lines:
                self.tokens += line.tokens
                if self._price is not None and line.cost is None:
                    self.unpriced = line.model
                elif self._price is not None and line.cost is not None:
                    self.usd += float(line.cost.usd)

    def add_taken(self, *, steps: int, tokens: int, usd: float) -> None:
        """Count what agents that the turn has called took."""
        with self._lock:
            self.steps += steps
            self.tokens += tokens
            self.usd += usd

    def add_calls(self, made: int) -> None:
        """Count tool calls that were made before the turn was left."""
        with self._lock:
            self.calls += made

    def take_call(self) -> str:
        """Count a tool call, and return why it may not be made; empty if it may."""
        with self._lock:
            why = self.why_no_call()
            if not why:
                self.calls += 1
            return why

    def why_no_call(self, more: int = 0) -> str:
        """Return the limit that another call would exceed, after `more` others; empty if none does."""
        limit = self.limits.calls
        if limit is not None and self.calls + more >= limit:
            return f"the limit of {counted(limit, 'tool call')} of this turn is reached"
        return self._late()

    def why_no_request(self) -> str:
        """Return the limit that another request would exceed; empty if none does."""
        limits = self.limits
        if limits.steps is not None and self.steps >= limits.steps:
            return f"the limit of {counted(limits.steps, 'step')} (requests of a turn) is reached"
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"the limit of {limits.tokens:,} tokens is reached: the turn took {self.tokens:,}"
        if limits.usd is not None and self.unpriced is not None:
            return f"the price of {self.unpriced!r} is not known, so a limit of money cannot hold for it"
        if limits.usd is not None and self.usd >= limits.usd:
            return f"the limit of {limits.usd:g} USD is reached: the turn took {self.usd:.4f}"
        return self._late()

    def why_too_large(self, tokens: int) -> str:
        """Return why a request that takes about so many tokens may not be sent; empty if it may."""
        limit = self.limits.tokens
        if limit is None or self.tokens + tokens <= limit:
            return ""
        left = max(0, limit - self.tokens)
        of_it = f" with {left:,} left" if self.tokens else ""
        return f"the request was not sent: it could take {tokens:,} tokens, over the limit of {limit:,} tokens{of_it}"

    @property
    def overrun(self) -> str:
        """The limit that the turn has exceeded, in a sentence; empty if there is none."""
        limits = self.limits
        if limits.tokens is not None and self.tokens > limits.tokens:
            return f"the turn took {self.tokens:,} tokens, and its limit is {limits.tokens:,}"
        if limits.usd is not None and self.usd > limits.usd:
            return f"the turn took {self.usd:.4f} USD, and its limit is {limits.usd:g}"
        return ""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock while a person is asked."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._began += time.monotonic() - began

    @property
    def seconds(self) -> float:
        """The time that it has taken, waiting for a person not included."""
        return time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        """The time that is left; None for any time."""
        limit = self.limits.seconds
        return None if limit is None else max(0.0, self._began + limit - time.monotonic())

    def _late(self) -> str:
        is_over = self.seconds_left is not None and self.seconds_left <= 0
        return f"the limit of {self.limits.seconds:g} seconds is over" if is_over else ""


def _add(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            inner = total.setdefault(name, {})
            if isinstance(inner, dict):
                _add(inner, value)
        elif isinstance(value, list):
            total[name] = [*total.get(name, ()), *value]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if value < 0 or (isinstance(value, float) and not math.isfinite(value)):
                continue  # nothing was given back
            before = total.get(name, 0)
            total[name] = before + value if isinstance(before, int | float) else value
        else:
            total[name] = value
