"""What agents may take: limits of one agent, of all together, and of the turn that calls one.

Before a call, what it may take at most is set aside everywhere that it will be charged; afterwards what it took takes
that place. So agents that work side by side cannot take together what each could take alone.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from tract_jupyter.exceptions import AgentError
from tract_jupyter.llm import TurnMeter
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
    budget: TurnLimits = TurnLimits(steps=500)
    agent: TurnLimits = TurnLimits(steps=50)

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
    """

    def __init__(self, limits: TurnLimits, name: str) -> None:
        self.limits = limits
        self.name = name
        self.spent: dict[str, float] = dict.fromkeys(_MEASURES, 0)
        self.aside: dict[str, float] = dict.fromkeys(_MEASURES, 0)

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
    """The purse of a turn that calls agents: it has taken what its meter says.

    Args:
        meter: of the turn.
        name: whose it is.
        counts_steps: whether requests of agents count as its own; those of a person's chat do not.
    """

    def __init__(self, meter: TurnMeter, name: str, *, counts_steps: bool) -> None:
        super().__init__(meter.limits, name)
        self._meter = meter
        self._counts_steps = counts_steps

    def taken(self, measure: str) -> float:
        """Return how much the turn has taken."""
        return float(getattr(self._meter, measure))

    def left(self, measure: str) -> float | None:
        """Return how much there still is."""
        return None if measure == "steps" and not self._counts_steps else super().left(measure)

    def charge(self, used: dict[str, float]) -> None:
        """Have the turn count what a call has taken; its tool calls, and the time, are counted as they happen."""
        self._meter.add_taken(
            steps=int(used["steps"]) if self._counts_steps else 0, tokens=int(used["tokens"]), usd=used["usd"]
        )


class CallMeter(TurnMeter):
    """The meter of an agent's turn: its tool calls count for the turn that called it, too, whose clock waits with it.

    Args:
        limits: what it may take.
        price: see `TurnMeter`.
        caller: the meter of the turn that called it; None if a person's own code did.
    """

    def __init__(self, limits: TurnLimits, price: Any, caller: TurnMeter | None) -> None:
        super().__init__(limits, price)
        self._caller = caller

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
        """What the turn has taken."""
        return {measure: float(getattr(self, measure)) for measure in _MEASURES}


@dataclass(frozen=True)
class Reserved:
    """What is set aside for one call: its limits, and where."""

    limits: TurnLimits
    purses: tuple[Purse, ...]


class Budgets:
    """The purses of all agents of one tract. Threads may share it."""

    def __init__(self, limits: TreeLimits) -> None:
        self.tree = Purse(limits.budget, "all agents together")
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[TurnMeter, TurnPurse] = WeakKeyDictionary()

    def of_turn(self, meter: TurnMeter, name: str, *, counts_steps: bool) -> Purse:
        """Return the purse of a turn, the same one each time."""
        with self._lock:
            found = self._turns.get(meter)
            if found is None:
                found = self._turns[meter] = TurnPurse(meter, name, counts_steps=counts_steps)
            return found

    def reserve(self, purses: tuple[Purse, ...]) -> Reserved:
        """Set aside what a call may take at most, which is what is left everywhere.

        Raises:
            AgentError: nothing is left somewhere.
        """
        most: dict[str, float] = {}
        with self._lock:
            for measure in _MEASURES:
                for purse in purses:
                    left = purse.left(measure)
                    if left is not None and left <= 0:
                        raise AgentError("limit", _spent_text(purse, measure))
                    if left is not None:
                        most[measure] = min(left, most.get(measure, left))
            for purse in purses:
                for measure, number in most.items():
                    purse.aside[measure] += number
        whole = {name: value if name in {"usd", "seconds"} else int(value) for name, value in most.items()}
        return Reserved(TurnLimits(**{"steps": None, **whole}), purses)

    def settle(self, reserved: Reserved, used: dict[str, float]) -> None:
        """Charge what a call has taken, in the place of what was set aside for it."""
        with self._lock:
            for purse in reserved.purses:
                for measure in _MEASURES:
                    purse.aside[measure] -= getattr(reserved.limits, measure) or 0
                purse.charge({measure: used.get(measure, 0) for measure in _MEASURES})


def _spent_text(purse: Purse, measure: str) -> str:
    limit = getattr(purse.limits, measure)
    aside = purse.aside[measure]
    waits = f", and {aside:g} set aside for calls under way" if aside else ""
    return (
        f"the budget of {purse.name} is used up: {purse.taken(measure):g} of {limit:g} {_NOUNS[measure]}s{waits}. A "
        "person can give more: t.agents.limits, or agent_update with another budget"
    )


def used_text(used: dict[str, float]) -> str:
    """Return what a call has taken, in words; without the time, which is never the same."""
    told = [
        counted(int(used.get("steps", 0)), "request"),
        counted(int(used.get("calls", 0)), "tool call"),
        counted(int(used.get("tokens", 0)), "token"),
    ]
    return ", ".join([*told, *([f"{used['usd']:.4f} USD"] if used.get("usd") else [])])
