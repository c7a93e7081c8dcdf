"""Meters of turns and agents: the use so far, against an allowance. A child's allowance is a part of it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AgentError, ContentError
from tract_jupyter.llm import dollars, tokens_of
from tract_jupyter.models import Allowance, counted
from tract_jupyter.storage import protected_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.llm import CostLine

Price = Callable[[str, Mapping[str, Any]], float | None]
"""A function that returns the cost of a request in USD, for the model and the reported usage; None if unknown."""


MEASURES: Final = tuple(map(attrgetter("name"), fields(Allowance)))
_AT_ONCE: Final = frozenset({"calls", "seconds"})
"""Measures that a turn counts while its agents work, and not when their calls have ended."""
_NOUNS: Final = {
    "steps": "requests",
    "calls": "tool calls",
    "tokens": "tokens",
    "usd": "USD",
    "seconds": "seconds",
}
_LOCK = threading.RLock()
"""Held while meters are changed: a call is charged to several at once."""


class Clock:
    """A clock that pauses while a request waits for the user. Threads may share it.

    Args:
        before: the seconds at its start.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._state: tuple[float, float | None] = before, None
        """The seconds until the last start or pause, and the time of the start. Together: threads read them."""
        self._waits = 0
        self._is_ended = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the clock."""
        self._state = self._state[0], time.monotonic()

    def end(self) -> None:
        """Stop the clock for good."""
        with self._lock:
            self._is_ended = True
            self._pause()

    def _pause(self) -> None:
        self._state = self.seconds, None

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        before, since = self._state
        return before + (0.0 if since is None else time.monotonic() - since)

    @property
    def is_waiting(self) -> bool:
        """True while a request waits for the user."""
        return self._waits > 0

    @protected_context
    def waiting(self) -> Iterator[None]:
        """Pause the clock while a request waits for the user."""
        with self._lock:
            self._waits += 1
            self._pause()
        try:
            yield
        finally:
            with self._lock:
                self._waits -= 1
                if not self._waits and not self._is_ended:
                    self.start()


class Meter:
    """The used part of an allowance, and the part reserved for running calls. Threads may share it.

    Before an agent is called, the maximum that it may use is reserved on each meter that it is charged to. After the
    call, its use is charged instead. So parallel calls cannot exceed the allowance together.

    Args:
        limits: the allowance.
        name: its owner, for errors.
        is_shared: True if parallel calls each get a part of it; else the first call gets all.

    Attributes:
        spent: the use, by measure.
        aside: the reserved part, by measure.
        unpriced: a model without a known price, so a limit in dollars cannot be enforced; empty if there is none.
    """

    def __init__(self, limits: Allowance, name: str, *, is_shared: bool = False) -> None:
        self.limits = limits
        self.name = name
        self.is_shared = is_shared
        self.spent: dict[str, float] = dict.fromkeys(MEASURES, 0)
        self.aside: dict[str, float] = dict.fromkeys(MEASURES, 0)

    @property
    def limits(self) -> Allowance:
        """The allowance. Setting it also clears `unpriced`."""
        return self._limits

    @limits.setter
    def limits(self, limits: Allowance) -> None:
        """Set the allowance."""
        self._limits, self.unpriced = limits, ""

    def taken(self, measure: str) -> float:
        """Return the use so far."""
        return self.spent[measure]

    def left(self, measure: str) -> float | None:
        """Return the rest without the reserved part; None if there is no limit."""
        limit = getattr(self.limits, measure)
        return None if limit is None else limit - self.taken(measure) - self.aside[measure]

    def share(self, measure: str, among: int) -> float | None:
        """Return the part that one of several parallel calls may use; None for no limit, 0 or less for nothing."""
        remaining = self.left(measure)
        if remaining is None or remaining <= 0:
            return remaining
        if self.is_shared:
            remaining = min(remaining, (remaining + self.aside[measure]) / among)
        return remaining if measure in {"usd", "seconds"} else max(1, int(remaining))

    def check(self, measure: str, share: float) -> None:
        """Raise an `AgentError` if a call cannot begin with a share."""
        if measure == "usd" and self.unpriced:
            raise AgentError(
                "limit",
                f"the price of {self.unpriced!r} is unknown, so the budget of {self.name} in USD cannot be enforced. "
                f"The user can set the price per million tokens, tract.models.price({self.unpriced!r}, input=1, "
                "output=5), then set the budget again: tract.agents.limits, or agent_update",
            )
        if share > 0:
            return
        limit, taken = getattr(self.limits, measure), self.taken(measure)
        of = f"{taken:,.10g} of {limit:,.10g} {_NOUNS[measure]}"
        if taken < limit and self.aside[measure]:
            raise AgentError(
                "limit",
                f"the budget of {self.name} ({of} used) has nothing available: the rest is reserved for running "
                "calls. Call again when they have ended",
            )
        raise AgentError(
            "limit",
            f"the budget of {self.name} is used up: {of}. The user can raise it: tract.agents.limits, or agent_update "
            "with another budget",
        )

    def set_aside(self, amounts: Mapping[str, float]) -> None:
        """Reserve amounts, or release them if they are negative."""
        with _LOCK:
            for measure, number in amounts.items():
                self.aside[measure] += number

    def charge(self, used: Mapping[str, float], unpriced: str = "") -> None:
        """Count the use of a call."""
        with _LOCK:
            for measure, number in used.items():
                self.spent[measure] += number
            self.unpriced = unpriced or self.unpriced


@dataclass(frozen=True)
class Reservation:
    """The part reserved for one call: the limits of the call, and the meters that count it."""

    limits: Allowance
    meters: tuple[Meter, ...]

    def settle(self, used: Mapping[str, float], unpriced: str = "") -> None:
        """Charge the use of the call, and release its reservation."""
        with _LOCK:
            for meter in self.meters:
                meter.set_aside({measure: -(getattr(self.limits, measure) or 0) for measure in MEASURES})
                meter.charge(used, unpriced)


def reserve(meters: tuple[Meter, ...], among: int = 1) -> Reservation:
    """Reserve the maximum that a call may use: the rest on each meter.

    Args:
        meters: the meters that the call is charged to.
        among: the number of parallel calls. Each gets a part of a shared meter.

    Raises:
        AgentError: a meter has nothing left.
    """
    most: dict[str, Any] = {}
    with _LOCK:
        for measure in MEASURES:
            for meter in meters:
                share = meter.share(measure, among)
                if share is not None:
                    meter.check(measure, share)
                    most[measure] = min(share, most.get(measure, share))
        for meter in meters:
            meter.set_aside(most)
    return Reservation(Allowance(**most), meters)


class TurnMeter(Meter):
    """The meter of one turn.

    The tool calls of an agent's turn also count for the turn that called the agent, whose clock pauses with it.

    Args:
        limits: the allowance of the turn.
        price: returns the cost of a request.
        agent: the agent that the turn belongs to; empty for the user's chat. The steps of agents that it calls count as
            its own. Its use before an interruption does not count, because it is charged already.
        caller: the meter of the turn that called the agent; None if the user's code did.

    Attributes:
        usage: the sum of the reported usage. It has `estimated_tokens` for requests without a report, and `cost` only
            if the cost of each request is known.
        clock: measures the seconds of the turn.
    """

    def __init__(
        self,
        limits: Allowance,
        price: Price | None = None,
        *,
        agent: str = "",
        caller: TurnMeter | None = None,
    ) -> None:
        if limits.usd is not None and price is None:
            raise ContentError(
                "A limit of money needs prices, and none are known here. Use a limit of tokens, such as "
                "Allowance(tokens=100_000)."
            )
        super().__init__(limits, f"the agent {agent!r}" if agent else "this turn", is_shared=True)
        self.is_of_agent = bool(agent)
        self._caller = caller
        self.usage: dict[str, Any] = {}
        self.clock = Clock()
        self._price = price
        self._is_priced = True
        self._estimated = 0
        self._asked_at: int | None = None
        self.clock.start()

    @property
    def steps(self) -> int:
        """Requests."""
        return int(self.spent["steps"])

    @property
    def calls(self) -> int:
        """Tool calls."""
        return int(self.spent["calls"])

    @property
    def tokens(self) -> int:
        """Tokens of all requests."""
        return int(self.spent["tokens"])

    @property
    def usd(self) -> float:
        """Cost of all requests."""
        return self.spent["usd"]

    def taken(self, measure: str) -> float:
        """Return the use of the turn."""
        return self.clock.seconds if measure == "seconds" else super().taken(measure)

    @property
    def used(self) -> dict[str, float]:
        """The use of the turn, with a request that has no reply yet."""
        taken = {measure: float(self.taken(measure)) for measure in MEASURES}
        return {**taken, "steps": taken["steps"] + (self._asked_at == self.steps)}

    def left(self, measure: str) -> float | None:
        """Return the rest. Calls and seconds count at once, so they need no reservation."""
        if measure == "steps" and not self.is_of_agent:
            return None
        remaining = super().left(measure)
        return remaining if remaining is None or measure not in _AT_ONCE else remaining + self.aside[measure]

    def share(self, measure: str, among: int) -> float | None:
        """Return the part that one of several parallel calls may use. They share everything except the time."""
        return super().share(measure, 1 if measure == "seconds" else among)

    def charge(self, used: Mapping[str, float], unpriced: str = "") -> None:
        """Count the use of an agent, except the part that the turn has counted already."""
        ignored = _AT_ONCE if self.is_of_agent else {*_AT_ONCE, "steps"}
        super().charge({name: number for name, number in used.items() if name not in ignored}, unpriced)

    def add_request(
        self, model: str, usage: Mapping[str, Any] | None, estimated: int, *, retries: int = 0
    ) -> None:
        """Count a request.

        Args:
            model: the model that replied.
            usage: the usage that the provider reported.
            estimated: the tokens of request and reply, if the provider reported none.
            retries: the number of earlier requests that this call also counts.
        """
        reported = tokens_of(usage or {})
        provider_estimate = (usage or {}).get("estimated_tokens", 0)
        self._estimated += estimated if reported is None else provider_estimate
        self._is_priced = self._is_priced and "cost" in (usage or {})
        _add(self.usage, usage or {})
        if self.usage and self._estimated:
            self.usage["estimated_tokens"] = self._estimated
        if not self._is_priced:  # the rest is not what the turn cost
            self.usage.pop("cost", None)
        failed = (usage or {}).get("failed_tries", ())
        tokens = (estimated if reported is None else reported) + sum(tokens_of(one) or 0 for one in failed)
        super().charge({"steps": 1 + retries, "tokens": tokens})  # also if the price function raises
        costs = [self._cost(model, one) for one in (usage or {}, *failed)]
        is_unpriced = self._price is not None and None in costs
        super().charge({"usd": sum(cost or 0.0 for cost in costs)}, model if is_unpriced else "")

    def _cost(self, model: str, usage: Mapping[str, Any]) -> float | None:
        """Return the cost of a request; None if it is unknown. The user's price function may return anything."""
        cost = None if self._price is None else dollars(self._price(model, usage))
        return None if cost is None else float(cost)

    def add_costs(self, lines: Iterable[CostLine]) -> None:
        """Count requests outside the turn's own, such as a model's that reviews its calls."""
        for line in lines:
            usd = 0.0 if self._price is None or line.cost is None else float(line.cost.usd)
            is_unpriced = self._price is not None and line.cost is None
            super().charge({"tokens": line.tokens, "usd": usd}, line.model if is_unpriced else "")

    def add_calls(self, made: int) -> None:
        """Count tool calls that ran before the turn was interrupted."""
        super().charge({"calls": made})

    def take_call(self) -> str:
        """Count a tool call. Return the reason if it may not run; else an empty text."""
        with _LOCK:
            why = self.why_no_call()
            if not why:
                self.add_calls(1)
        return why or ("" if self._caller is None else self._caller.take_call())

    def why_no_call(self, more: int = 0) -> str:
        """Return the limit that another call would exceed, after `more` others; empty if none does."""
        limit = self.limits.calls
        if limit is not None and self.calls + more >= limit:
            return f"the limit of {counted(limit, 'tool call')} of this turn is reached"
        return self._late()

    def why_no_request(self) -> str:
        """Return the limit that another request would exceed; empty if the request may be made."""
        why = self._why_no_request()
        self._asked_at = None if why else self.steps
        return why

    def _why_no_request(self) -> str:
        limits = self.limits
        if limits.steps is not None and self.steps >= limits.steps:
            return f"the limit of {counted(limits.steps, 'step')} (requests of a turn) is reached"
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"the limit of {limits.tokens:,} tokens is reached: the turn took {self.tokens:,}"
        if limits.usd is not None and self.unpriced:
            return f"the price of {self.unpriced!r} is unknown, so a limit of money cannot be enforced"
        if limits.usd is not None and self.usd >= limits.usd:
            return f"the limit of {limits.usd:g} USD is reached: the turn took {self.usd:.4f}"
        return self._late()

    def why_too_large(self, tokens: int) -> str:
        """Return the reason if a request with about so many tokens may not be sent; else an empty text."""
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
        """Pause the clocks while a request waits for the user."""
        with self.clock.waiting(), nullcontext() if self._caller is None else self._caller.waiting():
            yield

    @property
    def seconds_left(self) -> float | None:
        """The remaining time; None for no limit."""
        limit = self.limits.seconds
        return None if limit is None else max(0.0, limit - self.clock.seconds)

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
