"""Whether a call may happen: allow, ask, deny.

A person's own cell is not asked to approve what was just typed. What a model wrote is asked about, unless the tool
only reads.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition

USER = "user"
"""The actor of a person's own code."""
AGENT = "agent"
"""The actor of what a model calls, if nothing else is known about it."""


class Permission(StrEnum):
    """What a policy says about a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


def default_policy(tool: ToolDefinition, actor: str) -> Permission:
    """Allow the user, all reading, and what asks by itself; ask about the rest."""
    is_free = actor == USER or tool.traits.read_only or tool.asks_itself
    return Permission.ALLOW if is_free else Permission.ASK
