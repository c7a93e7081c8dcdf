"""The usual ceiling: collaborative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models import AutonomyLevel, effective_autonomy
from tract_jupyter.toolkit import Permission

if TYPE_CHECKING:
    from tract_jupyter.toolkit import ToolDefinition, ToolExecutor


class UsualCeiling:
    """A ceiling that this process sets."""

    def __init__(self, executor: ToolExecutor) -> None:
        self.ceiling = AutonomyLevel.COLLABORATIVE
        self._executor = executor

    def effective(self, *levels: AutonomyLevel | str) -> AutonomyLevel:
        """Return the level that counts."""
        return effective_autonomy(AutonomyLevel(self.ceiling), *map(AutonomyLevel, levels))

    def permission(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> Permission:
        """Return whether somebody who acts at a level may call a tool."""
        own, effective = self._executor.permission(tool, actor), self.effective(level)
        if own is Permission.DENY or tool.traits.read_only:
            return own
        if effective is AutonomyLevel.MANUAL:
            return Permission.DENY
        if own is Permission.ALLOW or effective is AutonomyLevel.COLLABORATIVE:
            return own
        return Permission.ASK if tool.traits.destructive else Permission.ALLOW

    def why_not(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> str:
        """Return why not."""
        return f"{actor} may not call {tool.name} at {self.effective(level)}"
