"""Limits for one agent and for all agents together. `loop.Meter` counts the usage."""

from __future__ import annotations

from dataclasses import dataclass, field

from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import Allowance, brief_repr, counted


@dataclass(frozen=True, kw_only=True)
class TreeLimits:
    """The limits for all agents of a tract together. Assign an instance to `t.agents.limits`.

    Attributes:
        depth: longest chain of agent calls. With 1, the agents that you or your chat call cannot call other agents.
        count: how many agents may be active at once.
        budget: limit for all calls of all agents together, until the tract is closed.
        agent: limit for all calls of one agent that defines no budget.
    """

    depth: int = 3
    count: int = 20
    budget: Allowance = field(default=Allowance(steps=500))  # it is frozen
    agent: Allowance = field(default=Allowance(steps=50))  # the same

    def __post_init__(self) -> None:
        """Validate the limits.

        Raises:
            AgentError: a limit has the wrong type.
        """
        for name in ("depth", "count"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise AgentError(
                    "bad_limit",
                    f"{name} must be a whole number of at least 1, not {brief_repr(getattr(self, name))}",
                )
        for name in ("budget", "agent"):
            if not isinstance(getattr(self, name), Allowance):
                raise AgentError(
                    "bad_limit",
                    f"{name} must be an Allowance, such as Allowance(steps=100), not {brief_repr(getattr(self, name))}",
                )


def used_text(used: dict[str, float]) -> str:
    """Return a call's usage in words. The text leaves out the time, because it differs in each run."""
    parts = [
        counted(int(used.get("steps", 0)), "request"),
        counted(int(used.get("calls", 0)), "tool call"),
        counted(int(used.get("tokens", 0)), "token"),
    ]
    return ", ".join([*parts, *([f"{used['usd']:.4f} USD"] if used.get("usd") else [])])
