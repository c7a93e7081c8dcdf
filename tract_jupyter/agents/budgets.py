"""What agents may take: limits of one agent, of all together, and of the turn that calls one.

Before a call, what it may take at most is set aside everywhere that it will be charged; afterwards what it took takes
that place. So agents that work side by side cannot take together what each could take alone.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

from tract_jupyter.exceptions import AgentError
from tract_jupyter.loop import TurnMeter
from tract_jupyter.models import TurnLimits, brief_repr, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEASURES: Final = tuple(one.name for one in fields(TurnLimits))
_NOUNS: Final = {
    "steps": "request",
    "calls": "tool call",
    "tokens": "token",
    "usd": "USD",
    "seconds": "second",
}


@dataclass(frozen=True, kw_only=True)
class TreeLimits:
    """The limits of all agents of a tract together. Assign one to `t.agents.limits`.

    Attributes:
        depth: how deep agents may call agents: 1 if those that you, or your chat, call may call none.
        count: how many may be active at once.
        budget: what all their calls together may take, until the tract is closed.
        agent: what all calls of one agent may take that has no budget of its own.
    """

    depth: int = 3
    count: int = 20
    budget: TurnLimits = field(default=TurnLimits(steps=500))  # it is frozen
    agent: TurnLimits = field(default=TurnLimits(steps=50))  # the same

    def __post_init__(self) -> None:
        """Check what a person wrote.

        Raises:
            AgentError: a limit is of another kind.
        """
        for name in ("depth", "count"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise AgentError(
                    "bad_limit", f"{name} is a whole number from 1 on, not {brief_repr(getattr(self, name))}"
                )
        for name in ("budget", "agent"):
            if not isinstance(getattr(self, name), TurnLimits):
                raise AgentError(
                    "bad_limit",
                    f"{name} is made with TurnLimits(steps=100, ...), not {brief_repr(getattr(self, name))}",
                )


class Purse:
    """What may be taken of something, what was taken, and what is set aside for calls under way.

    Args:
        limits: what may be taken.
        name: whose it is, in errors.

    Attributes:
        is_shared: whether calls side by side each get a part of it; else the first one gets all.
    """

    is_shared = False

    def __init__(self, limits: TurnLimits, name: str) -> None:
        self._limits = limits
        self._unpriced = ""
        self.name = name
        self.spent: dict[str, float] = dict.fromkeys(_MEASURES, 0)
        self.aside: dict[str, float] = dict.fromkeys(_MEASURES, 0)

    @property
    def limits(self) -> TurnLimits:
        """What may be taken. To set it anew takes back that a price was unknown."""
        return self._limits

    @limits.setter
    def limits(self, limits: TurnLimits) -> None:
        """Set them."""
        self._limits, self._unpriced = limits, ""

    @property
    def unpriced(self) -> str:
        """A model of which a request had no known price, so that a limit of money does not hold; empty if none did."""
        return self._unpriced

    def note_unpriced(self, model: str) -> None:
        """Note that a request had no known price."""
        self._unpriced = model

    def taken(self, measure: str) -> float:
        """Return how much was taken so far."""
        return self.spent[measure]

    def left(self, measure: str) -> float | None:
        """Return how much there still is, besides what is set aside; None for any number."""
        limit = getattr(self.limits, measure)
        return None if limit is None else limit - self.taken(measure) - self.aside[measure]

    def charge(self, used: dict[str, float]) -> None:
        """Count what a call has taken."""
        for measure, number in used.items():
            self.spent[measure] += number


class TurnPurse(Purse):
    """The purse of a turn that calls agents: it has taken what its meter says, with the tool calls of agents.

    Args:
        meter: of the turn.
        name: whose it is.
        counts_steps: whether requests of agents count as its own; those of a person's chat do not.
    """

    is_shared = True

    def __init__(self, meter: TurnMeter, name: str, *, counts_steps: bool) -> None:
        super().__init__(meter.limits, name)
        self._meter_of = ref(meter)  # the purse is kept as long as its meter
        self._counts_steps = counts_steps

    @property
    def _meter(self) -> TurnMeter:
        meter = self._meter_of()
        if meter is None:
            raise ReferenceError("the turn of this purse is over")
        return meter

    @property
    def unpriced(self) -> str:
        """A model of which a request of the turn, or of agents, had no known price; empty if none did."""
        return self._meter.unpriced or ""

    def note_unpriced(self, model: str) -> None:
        """Have the turn know, if it is not over, that a request had no known price."""
        meter = self._meter_of()
        if meter is not None:
            meter.unpriced = model

    def taken(self, measure: str) -> float:
        """Return how much the turn has taken."""
        return float(getattr(self._meter, measure))

    def left(self, measure: str) -> float | None:
        """Return how much there still is."""
        if measure == "steps" and not self._counts_steps:
            return None
        left = super().left(measure)
        # these are counted as they happen, and time passes for all at once: none has to be set aside
        return left if left is None or measure not in {"calls", "seconds"} else left + self.aside[measure]

    def charge(self, used: dict[str, float]) -> None:
        """Have the turn, if it is not over, count what a call has taken; tool calls, and time, it counts itself."""
        meter = self._meter_of()
        if meter is not None:
            steps = int(used["steps"]) if self._counts_steps else 0
            meter.add_taken(steps=steps, tokens=int(used["tokens"]), usd=used["usd"])


class CallMeter(TurnMeter):
    """The meter of an agent's turn: its tool calls count for the turn that called it, too, whose clock waits with it.

    A turn that goes on begins by counting what it took before. That was charged then, and the limits are for the rest.

    Args:
        limits: what it may take from now on.
        price: see `TurnMeter`.
        caller: the meter of the turn that called it; None if a person's own code did.
    """

    def __init__(self, limits: TurnLimits, price: Any, caller: TurnMeter | None) -> None:
        super().__init__(limits, price)
        self._caller = caller
        self._before: dict[str, Any] | None = None
        self._asked_at: int | None = None

    def why_no_request(self) -> str:
        """Return the limit that another request would exceed; empty if none does, so that it is made now."""
        self._begin()
        why = super().why_no_request()
        self._asked_at = None if why else self.steps
        return why

    def why_no_call(self, more: int = 0) -> str:
        """Return the limit that another call would exceed, after `more` others; empty if none does."""
        self._begin()
        return super().why_no_call(more)

    def _begin(self) -> None:
        """Add to the limits what was counted before anything is asked or called."""
        if self._before is None:
            self._before = {measure: getattr(self, measure) for measure in _MEASURES if measure != "seconds"}
            limits = {
                measure: getattr(self.limits, measure) + number
                for measure, number in self._before.items()
                if getattr(self.limits, measure) is not None
            }
            self.limits = replace(self.limits, **limits)

    def take_call(self) -> str:
        """Count a tool call, and return why it may not be made; empty if it may."""
        why = super().take_call()
        return why or ("" if self._caller is None else self._caller.take_call())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clocks while a person is asked."""
        with super().waiting():
            if self._caller is None:
                yield
            else:
                with self._caller.waiting():
                    yield

    @property
    def used(self) -> dict[str, float]:
        """What the turn has taken since it began, or went on; a request that no reply has come to is one, too."""
        before = self._before or {}
        used = {measure: float(getattr(self, measure) - before.get(measure, 0)) for measure in _MEASURES}
        return {**used, "steps": used["steps"] + (self._asked_at == self.steps)}


@dataclass(frozen=True)
class Reserved:
    """What is set aside for one call: its limits, and where."""

    limits: TurnLimits
    purses: tuple[Purse, ...]


class Budgets:
    """The purses of all agents of one tract. Threads may share it."""

    def __init__(self, limits: TreeLimits) -> None:
        self.tree = Purse(limits.budget, "all agents together")
        self.tree.is_shared = True
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[TurnMeter, TurnPurse] = WeakKeyDictionary()

    def of_turn(self, meter: TurnMeter, name: str, *, counts_steps: bool) -> Purse:
        """Return the purse of a turn, the same one each time."""
        with self._lock:
            found = self._turns.get(meter)
            if found is None:
                found = self._turns[meter] = TurnPurse(meter, name, counts_steps=counts_steps)
            return found

    def reserve(self, purses: tuple[Purse, ...], among: int = 1) -> Reserved:
        """Set aside what a call may take at most, which is what is left everywhere.

        Args:
            purses: what it is charged to.
            among: how many calls begin side by side; of what these share, each gets a part.

        Raises:
            AgentError: nothing is left somewhere.
        """
        most: dict[str, Any] = {}
        with self._lock:
            for measure in _MEASURES:
                parts = [part for purse in purses if (part := _part(purse, measure, among)) is not None]
                if parts:
                    most[measure] = min(parts)
            for purse in purses:
                for measure, number in most.items():
                    purse.aside[measure] += number
        return Reserved(TurnLimits(**{"steps": None, **most}), purses)

    def settle(self, reserved: Reserved, used: dict[str, float], unpriced: str) -> None:
        """Charge what a call has taken, in the place of what was set aside for it; see `Purse.unpriced`."""
        with self._lock:
            for purse in reserved.purses:
                for measure in _MEASURES:
                    purse.aside[measure] -= getattr(reserved.limits, measure) or 0
        self.charge(reserved.purses, {measure: used.get(measure, 0) for measure in _MEASURES}, unpriced)

    def charge(self, purses: tuple[Purse, ...], used: dict[str, float], unpriced: str) -> None:
        """Charge what was taken: for a call that was settled already, by one below it, which ended later."""
        with self._lock:
            for purse in purses:
                purse.charge(used)
                if unpriced:
                    purse.note_unpriced(unpriced)


def _part(purse: Purse, measure: str, among: int) -> float | None:
    """Return how much of a purse a call may take; None for any number.

    Raises:
        AgentError: nothing is left.
    """
    left = purse.left(measure)
    if left is None:
        return None
    if measure == "usd" and purse.unpriced:
        raise AgentError(
            "limit",
            f"the price of {purse.unpriced!r} is not known, so the budget of {purse.name} in USD cannot hold for it. A "
            f"person can say what a million tokens cost, tract.models.price({purse.unpriced!r}, input=1, output=5), "
            "and give the budget anew: tract.agents.limits, or agent_update",
        )
    if left <= 0:
        raise AgentError("limit", _spent_text(purse, measure))
    if purse.is_shared and among > 1 and not (measure == "seconds" and isinstance(purse, TurnPurse)):
        left = min(left, (left + purse.aside[measure]) / among)
    return left if measure in {"usd", "seconds"} else max(1, int(left))


def _spent_text(purse: Purse, measure: str) -> str:
    limit, taken, aside = getattr(purse.limits, measure), purse.taken(measure), purse.aside[measure]
    of = f"{taken:,.10g} of {limit:,.10g} {_NOUNS[measure]}{'' if measure == 'usd' else 's'}"
    if taken < limit and aside:
        return (
            f"the budget of {purse.name} ({of} used) has nothing to give now: the rest is set aside for calls "
            "under way. Call again when they have ended"
        )
    return (
        f"the budget of {purse.name} is used up: {of}. A person can give more: tract.agents.limits, or agent_update "
        "with another budget"
    )


def used_text(used: dict[str, float]) -> str:
    """Return what a call has taken, in words; without the time, which is never the same."""
    told = [
        counted(int(used.get("steps", 0)), "request"),
        counted(int(used.get("calls", 0)), "tool call"),
        counted(int(used.get("tokens", 0)), "token"),
    ]
    return ", ".join([*told, *([f"{used['usd']:.4f} USD"] if used.get("usd") else [])])
