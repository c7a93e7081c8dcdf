"""Autonomy: the actions that policies and orchestrators may take without approval.

The user sets a ceiling that limits every level. Each call reads the ceiling again. A lower ceiling therefore affects
all later calls, including calls in other processes. A level never allows a call that the executor's own permission
denies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import CodeDecisionError, ContentError, TractError
from tract_jupyter.models import (
    AutonomyLevel,
    admin_autonomy,
    admin_limits,
    brief_repr,
    effective_autonomy,
    repr_of_whole,
)
from tract_jupyter.prompts import NO_PERMISSION, TOLD_NOT_DONE
from tract_jupyter.toolkit.ambient import call_context, changed_context
from tract_jupyter.toolkit.callers import Permission, default_permission, runs_for_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.review import Settings
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor

_SETTINGS: Final = "autonomy"
_DEFAULT: Final = AutonomyLevel.COLLABORATIVE


class Autonomy:
    """The autonomy of one tract: `t.autonomy.ceiling = "manual"`.

    Both settings are signed and stored with the tract. If another user signed them, only a lower ceiling applies.
    Nothing in them can allow more than the defaults. `above` returns the autonomy of the parent tract. If it raises a
    `TractError`, the parent is gone, and nothing acts by itself.
    """

    def __init__(
        self,
        settings: Settings,
        executor: Callable[[], ToolExecutor],
        above: Callable[[], Autonomy | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._executor = executor
        self._above = above

    @repr_of_whole
    def __repr__(self) -> str:
        more = ", destructive tools too" if self.allows_destructive else ""
        return f"<Autonomy: {self.ceiling} at most{more}>"

    @property
    def ceiling(self) -> AutonomyLevel:
        """The highest level of any action here: `manual`, `collaborative` (the default) or `autonomous`.

        The user may change it at any time, even during an action. Code that runs for a model can only lower it. The
        administrator's limits apply, too.
        """
        return effective_autonomy(self._read()[0], admin_autonomy())

    @ceiling.setter
    def ceiling(self, level: AutonomyLevel | str) -> None:
        """Set the ceiling.

        Raises:
            ContentError: there is no such level.
            AdminLimitError: the administrator's limits are lower.
            CodeDecisionError: a script or a tool call tries to raise it.
            TrustError: it cannot be signed.
        """
        admin_limits().check_autonomy(AutonomyLevel(level))
        requested, (ceiling, destructive) = AutonomyLevel(level), self._read()
        self._save(requested, destructive=destructive, is_more=requested.rank > ceiling.rank)

    @property
    def allows_destructive(self) -> bool:
        """True if the autonomous level covers destructive tools; False (the default) to ask about them."""
        return self._read()[1]

    @allows_destructive.setter
    def allows_destructive(self, allowed: bool) -> None:
        """Allow destructive tools, or require a request for them.

        Raises:
            ContentError: the value is neither True nor False.
            CodeDecisionError: a script or a tool call tries to allow it.
            TrustError: it cannot be signed.
        """
        if not isinstance(allowed, bool):
            raise ContentError(f"allows_destructive must be True or False, not {brief_repr(allowed)}")
        ceiling, before = self._read()
        self._save(ceiling, destructive=allowed, is_more=allowed and not before)

    def effective(self, *levels: AutonomyLevel | str) -> AutonomyLevel:
        """Return the lowest of the given levels, the ceiling and all other levels that apply.

        The level of the running call applies, and so does the effective level of the parent tract.
        """
        acting = call_context().level
        limits = [] if acting is None else [acting.level_now()]
        try:
            above = self._above()
        except TractError:
            limits.append(AutonomyLevel.MANUAL)
        else:
            limits += [] if above is None else [above.effective()]
        return effective_autonomy(self.ceiling, *limits, *map(AutonomyLevel, levels))

    def _covers_destructive(self) -> bool:
        above = self._above()
        return self.allows_destructive and (above is None or above._covers_destructive())  # noqa: SLF001 # its own class

    def permission(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> Permission:
        """Return the permission of an actor at a level: allow, ask or deny.

        Every level allows reading. For other tools, the manual level denies, the collaborative level asks, and the
        autonomous level allows. The autonomous level still asks about a destructive tool, unless `allows_destructive`
        is True. It also asks about a tool that needs the user, such as creating an agent. The executor's permission
        can deny a call at any level. If the executor has a custom permission that asks, the request remains
        necessary.
        """
        permission = self._executor().permission
        executor_permission, effective = permission(tool, actor), self.effective(level)
        if executor_permission is Permission.DENY or tool.traits.read_only:
            return executor_permission
        if effective is AutonomyLevel.MANUAL:
            return Permission.DENY
        if executor_permission is Permission.ALLOW or effective is AutonomyLevel.COLLABORATIVE:
            return executor_permission
        is_asked = tool.needs_person or permission is not default_permission
        is_asked = is_asked or (tool.traits.destructive and not self._covers_destructive())
        return Permission.ASK if is_asked else Permission.ALLOW

    def why_not(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> str:
        """Return the reason why an actor at a level may not call a tool."""
        is_denied = self._executor().permission(tool, actor) is Permission.DENY
        is_told = not is_denied and self.effective(level) is AutonomyLevel.MANUAL
        return (TOLD_NOT_DONE if is_told else NO_PERMISSION).format(actor=actor, tool=tool.name)

    def at(self, level: Callable[[], AutonomyLevel]) -> LeveledPermission:
        """Return the permission of an actor whose level is read at every call, for a toolset."""
        return LeveledPermission(self, level)

    @property
    def reviews_sandboxed(self) -> bool:
        """True if the level is below autonomous.

        The user then also reviews a model's new definitions that run only in the sandbox.
        """
        return self.effective() is not AutonomyLevel.AUTONOMOUS

    def _read(self) -> tuple[AutonomyLevel, bool]:
        """Return the ceiling, and True if destructive tools are allowed."""
        stored = self._settings.find(_SETTINGS)
        if stored is None:
            return _DEFAULT, False
        try:
            ceiling = AutonomyLevel(str(stored.values.get("ceiling")))
        except ContentError:
            return _DEFAULT, False
        if not stored.is_own:
            return effective_autonomy(ceiling, _DEFAULT), False
        return ceiling, stored.values.get("allows_destructive") is True

    def check_raised(self, level: AutonomyLevel, more: str = "") -> None:
        """Check that the user, and not a model's code, raises a level."""
        if runs_for_model(self._executor()):
            raise CodeDecisionError(
                f"only the user can raise autonomy to {level}{more}; code that runs for a model can only lower it. "
                "Set it in your own cell, or with '%tract autonomy'"
            )

    def _save(self, ceiling: AutonomyLevel, *, destructive: bool, is_more: bool) -> None:
        if is_more:
            self.check_raised(ceiling, " with destructive tools" if destructive else "")
        values: dict[str, Any] = {"ceiling": ceiling.value, "allows_destructive": destructive}
        self._settings.save(_SETTINGS, values, values)


@dataclass(frozen=True)
class LeveledPermission:
    """The permission of an actor at a level of autonomy.

    `level` returns the level, at every call.
    """

    autonomy: Autonomy
    level: Callable[[], AutonomyLevel]

    def __call__(self, tool: ToolDefinition, actor: str) -> Permission:
        """Return the actor's permission for a tool: allow, ask or deny."""
        return self.autonomy.permission(tool, self.level(), actor)

    def why_not(self, tool: ToolDefinition, actor: str) -> str:
        """Return the reason why an actor may not call a tool."""
        return self.autonomy.why_not(tool, self.level(), actor)

    def level_now(self) -> AutonomyLevel:
        """Return the current level.

        The level function may itself call `Autonomy.effective`. The context therefore has no level during the call,
        which prevents a recursion.
        """
        with changed_context(level=None):
            return self.level()

    def bars(self, tool: ToolDefinition) -> bool:
        """Return True if the level is manual and the tool does not only read: no call is possible now."""
        is_manual = self.autonomy.effective(self.level_now()) is AutonomyLevel.MANUAL
        return is_manual and not tool.traits.read_only
