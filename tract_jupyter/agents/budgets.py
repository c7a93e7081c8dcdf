"""Limits of one agent, and of all agents together. `loop.Meter` counts their use."""

from __future__ import annotations

from dataclasses import dataclass, field

from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import Allowance, brief_repr, counted


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
    budget: Allowance = field(default=Allowance(steps=500))  # it is frozen
    agent: Allowance = field(default=Allowance(steps=50))  # the same

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
            if not isinstance(getattr(self, name), Allowance):
                raise AgentError(
                    "bad_limit",
                    f"{name} is made with Allowance(steps=100, ...), not {brief_repr(getattr(self, name))}",
                )


def used_text(used: dict[str, float]) -> str:
    """Return what a call has taken, in words; without the time, which is never the same."""
    told = [
        counted(int(used.get("steps", 0)), "request"),
        counted(int(used.get("calls", 0)), "tool call"),
        counted(int(used.get("tokens", 0)), "token"),
    ]
    return ", ".join([*told, *([f"{used['usd']:.4f} USD"] if used.get("usd") else [])])
