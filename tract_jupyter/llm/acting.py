"""The core of every tool loop: ask a model, carry out what it calls, until something ends the turn.

It knows neither store nor tools. Who asks, and who carries calls out, is a `TurnHost`: the stored loop of the package
`loop`, or a consultation about a pending. What the turn may take is measured here, and calls that only repeat
themselves are noticed here, so that both are the same everywhere.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tract_jupyter.exceptions import ContentError
from tract_jupyter.llm.messages import Usage, is_count
from tract_jupyter.models import TurnLimits, TurnOutcome, counted, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.llm.spending import CostLine

Price = Callable[[str, Mapping[str, Any]], float | None]
"""A function that says what a request cost in USD, given the model and the reported usage; None if nobody knows."""

_GO_ON: Final = "chat(None) goes on"


class TurnEnding(NamedTuple):
    """How a turn ended; `note` says why and how to go on, in a sentence."""

    outcome: TurnOutcome
    note: str = ""


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


def tokens_of(usage: Mapping[str, Any]) -> int | None:
    """Return the tokens of a request and its reply, with the estimated part; None if they were not counted."""
    found = Usage.of({"usage": dict(usage)})
    known = [count for count in (found.input_tokens, found.output_tokens) if count is not None]
    total, estimated = usage.get("total_tokens"), usage.get("estimated_tokens")
    if is_count(estimated) and estimated:
        return sum(known) + estimated
    if any(known) and usage.get("prompt_tokens") != 0:
        return sum(known)
    return total if is_count(total) and total else None


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


class ActingCall(NamedTuple):
    """A call of one step: its id, which no other call of the conversation has, the tool, and the arguments."""

    id: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What makes it the same call as another one: the tool and the arguments, whatever their order."""
        return digest([self.name, self.arguments])


_LONGEST_PERIOD: Final = 8


class Repeats:
    """Notices steps that only repeat earlier ones: the same calls, which had the same outcomes twice.

    The repetition may be of one step, or of up to eight in turn.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def foreseen(self, keys: Sequence[str]) -> tuple[str, ...] | None:
        """Return the outcomes that these calls had both times before, if this is the third time; None otherwise."""
        steps, wanted = self._steps, tuple(sorted(keys))
        for period in range(1, _LONGEST_PERIOD + 1):
            last, before = steps[-period:], steps[-2 * period : -period]
            if len(before) == period and last == before and last[0][0] == wanted:
                return last[0][1]
        return None

    def note(self, keys: Sequence[str], outcomes: Sequence[str]) -> None:
        """Remember a step, with the outcome of each of its calls."""
        pairs = sorted(zip(keys, outcomes, strict=True))
        self._steps.append((tuple(key for key, _ in pairs), tuple(outcome for _, outcome in pairs)))
        del self._steps[: -2 * _LONGEST_PERIOD]

    def note_again(self, keys: Sequence[str], outcomes: tuple[str, ...]) -> None:
        """Remember a step that was answered from the steps before."""
        self._steps.append((tuple(sorted(keys)), outcomes))
        del self._steps[: -2 * _LONGEST_PERIOD]


class TurnHost(Protocol):
    """Does what a turn consists of."""

    def open_calls(self) -> Sequence[ActingCall]:
        """Return the calls of a turn that goes on which have no answer yet."""
        ...

    def ask(self) -> Sequence[ActingCall]:
        """Make a request, keep the reply, and return what it calls."""
        ...

    def carry_out(self, calls: Sequence[ActingCall]) -> Sequence[str] | None:
        """Carry calls out and keep their answers; None if some wait for a person.

        Returns:
            What came of each call, as far as it makes a difference.
        """
        ...

    def key_of(self, call: ActingCall) -> str:
        """Return what makes a call the same call as another one."""
        ...

    def turn_down(self, calls: Sequence[ActingCall], why: str) -> None:
        """Keep, as the answer of each call, that it was not carried out."""
        ...

    def ended(self) -> TurnEnding | None:
        """Return how the turn ended for a reason of the host's own; None if it goes on."""
        ...

    def answered(self) -> bool:
        """Return True if a reply that calls nothing is the answer; False to ask again."""
        ...


REPEATED: Final = (
    "not run: this exact call was made twice in a row with the same outcome, and its result will not change. Do "
    "something else, or say what you know"
)
STILL_REPEATED: Final = "not run: it was repeated once more"
_TOLD_REPEAT: Final = (
    "stopped, since the model kept making the same calls with the same outcome; say what it should do instead, or "
    f"{_GO_ON}"
)
_TOLD_STOPPED: Final = f"stopped; {_GO_ON}"
_TOLD_PAUSED: Final = f"paused before the next request; {_GO_ON}"
_TOLD_WAITING: Final = (
    f"calls wait for a decision: '%tract inbox' shows them, and {_GO_ON} once they are decided"
)


def run_turn(
    host: TurnHost, meter: TurnMeter, stop: StopSignal, repeats: Repeats | None = None
) -> TurnEnding:
    """Go on until the turn ends, and return how."""
    repeats = Repeats() if repeats is None else repeats
    was_told = False
    calls = host.open_calls()
    while True:
        if calls:
            keys = [host.key_of(call) for call in calls]
            before = repeats.foreseen(keys)
            if before is None:
                outcomes = host.carry_out(calls)
                if outcomes is None:
                    return TurnEnding(TurnOutcome.WAITING, _TOLD_WAITING)
                repeats.note(keys, outcomes)
            else:
                host.turn_down(calls, STILL_REPEATED if was_told else REPEATED)
                if was_told:
                    return TurnEnding(TurnOutcome.REPEAT, _TOLD_REPEAT)
                repeats.note_again(keys, before)
            was_told = before is not None
        ending = host.ended() or why_over(meter, stop)
        if ending is not None:
            return ending
        calls = host.ask()
        if not calls and host.answered():
            return TurnEnding(TurnOutcome.ANSWER)


def why_over(meter: TurnMeter, stop: StopSignal) -> TurnEnding | None:
    """Return how a turn ends before its next request: by Stop, a pause or a limit; None if it goes on."""
    if stop.is_set():
        return TurnEnding(TurnOutcome.STOPPED, _TOLD_STOPPED)
    if stop.is_paused:
        return TurnEnding(TurnOutcome.STOPPED, _TOLD_PAUSED)
    why = meter.why_no_request()
    if why:
        return TurnEnding(TurnOutcome.LIMIT, f"{why}; {_GO_ON}, with as much again, or with other limits")
    return None
