"""Autonomy: how much of what policies and orchestrators want happens without a person, and what that permits.

A person sets a ceiling, which every level is held under. It is looked up at each call, so that lowering it counts for
calls that are still to come, also in another process. A level never widens what the executor's own permission denies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import CodeDecisionError, ContentError, TractError
from tract_jupyter.models import AutonomyLevel, brief_repr, effective_autonomy, repr_of_whole
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

    Both settings are signed and stored with the tract. Of settings that somebody else has signed, a lower ceiling
    counts, and nothing that would allow more than the defaults.

    Args:
        settings: where they are stored.
        executor: gives what runs tools.
        above: gives that of the tract above, under which this one stays; None if there is none. Where it raises a
            `TractError`, the tract above is gone, and nothing acts by itself.
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
        """The highest level at which anything acts here: `manual`, `collaborative` (the default) or `autonomous`.

        A person may change it at any moment, also while something acts; what runs on behalf of a model can only
        lower it.
        """
        return self._read()[0]

    @ceiling.setter
    def ceiling(self, level: AutonomyLevel | str) -> None:
        """Set it.

        Raises:
            ContentError: there is no such level.
            CodeDecisionError: a script, or what a tool call runs, wants to raise it.
            StoreError: it cannot be stored.
            TrustError: it cannot be signed.
        """
        wanted, (ceiling, destructive) = AutonomyLevel(level), self._read()
        self._save(wanted, destructive=destructive, is_more=wanted.rank > ceiling.rank)

    @property
    def allows_destructive(self) -> bool:
        """True if an autonomous level covers what may destroy something, too; False (the default) to ask about it."""
        return self._read()[1]

    @allows_destructive.setter
    def allows_destructive(self, allowed: bool) -> None:
        """Set it.

        Raises:
            ContentError: it is neither True nor False.
            CodeDecisionError: a script, or what a tool call runs, wants to allow it.
            StoreError: it cannot be stored.
            TrustError: it cannot be signed.
        """
        if not isinstance(allowed, bool):
            raise ContentError(f"allows_destructive is True or False, not {brief_repr(allowed)}")
        ceiling, before = self._read()
        self._save(ceiling, destructive=allowed, is_more=allowed and not before)

    def effective(self, *levels: AutonomyLevel | str) -> AutonomyLevel:
        """Return the level that counts of somebody who would act at some levels: the lowest, the ceiling included.

        Within a call of somebody who acts at a level, that counts, too; and so does what counts in a tract above.

        Raises:
            ContentError: there is no such level.
        """
        acting = call_context().level
        own = [] if acting is None else [acting.level_now()]
        try:
            above = self._above()
        except TractError:
            own.append(AutonomyLevel.MANUAL)
        else:
            own += [] if above is None else [above.effective()]
        return effective_autonomy(self.ceiling, *own, *map(AutonomyLevel, levels))

    def _covers_destructive(self) -> bool:
        above = self._above()
        return self.allows_destructive and (above is None or above._covers_destructive())  # noqa: SLF001 # its own class

    def permission(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> Permission:
        """Return whether somebody who acts at a level may call a tool, must ask first, or may not.

        Reading is allowed at each level. Anything else is denied where the level is manual, asked about where it is
        collaborative, and allowed where it is autonomous; but what may destroy something is asked about still, unless
        `allows_destructive`, and so is what needs a person, such as making an agent. What the executor's own permission
        denies stays denied. If you gave the executor another permission than the usual one, what that asks about stays
        asked about.

        Args:
            tool: the tool.
            level: at which `actor` would act; the ceiling counts if that is lower.
            actor: who calls.

        Raises:
            ContentError: there is no such level.
        """
        permission = self._executor().permission
        own, effective = permission(tool, actor), self.effective(level)
        if own is Permission.DENY or tool.traits.read_only:
            return own
        if effective is AutonomyLevel.MANUAL:
            return Permission.DENY
        if own is Permission.ALLOW or effective is AutonomyLevel.COLLABORATIVE:
            return own
        is_asked = tool.needs_person or permission is not default_permission
        is_asked = is_asked or (tool.traits.destructive and not self._covers_destructive())
        return Permission.ASK if is_asked else Permission.ALLOW

    def why_not(self, tool: ToolDefinition, level: AutonomyLevel | str, actor: str) -> str:
        """Return why somebody who acts at a level may not call a tool.

        Raises:
            ContentError: there is no such level.
        """
        is_denied = self._executor().permission(tool, actor) is Permission.DENY
        is_told = not is_denied and self.effective(level) is AutonomyLevel.MANUAL
        return (TOLD_NOT_DONE if is_told else NO_PERMISSION).format(actor=actor, tool=tool.name)

    def at(self, level: Callable[[], AutonomyLevel]) -> LeveledPermission:
        """Return the permission of somebody who acts at a level, which is asked for at every call; for a toolset."""
        return LeveledPermission(self, level)

    @property
    def reviews_sandboxed(self) -> bool:
        """True if a person reviews also what a model defines that is new and wholly sandboxed: below autonomous."""
        return self.effective() is not AutonomyLevel.AUTONOMOUS

    def _read(self) -> tuple[AutonomyLevel, bool]:
        """Return the ceiling, and whether destructive tools are allowed."""
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
        """Check that whoever raises a level is a person.

        Args:
            level: what it is raised to.
            more: what else is allowed by that, in words.

        Raises:
            CodeDecisionError: a script, or what a tool call runs, wants to raise it.
        """
        if runs_for_model(self._executor()):
            raise CodeDecisionError(
                "how much happens without a person is a person's to say: what runs on behalf of a model can lower it, "
                f"and not raise it to {level}{more}. Set it in your own cell, or with '%tract autonomy'"
            )

    def _save(self, ceiling: AutonomyLevel, *, destructive: bool, is_more: bool) -> None:
        if is_more:
            self.check_raised(ceiling, " with destructive tools" if destructive else "")
        values: dict[str, Any] = {"ceiling": ceiling.value, "allows_destructive": destructive}
        self._settings.save(_SETTINGS, values, values)


@dataclass(frozen=True)
class LeveledPermission:
    """The permission of somebody who acts at a level.

    Attributes:
        autonomy: of the tract whose tools are called.
        level: gives the level, at every call.
    """

    autonomy: Autonomy
    level: Callable[[], AutonomyLevel]

    def __call__(self, tool: ToolDefinition, actor: str) -> Permission:
        """Return whether `actor` may call a tool, must ask first, or may not."""
        return self.autonomy.permission(tool, self.level(), actor)

    def why_not(self, tool: ToolDefinition, actor: str) -> str:
        """Return why `actor` may not call a tool."""
        return self.autonomy.why_not(tool, self.level(), actor)

    def level_now(self) -> AutonomyLevel:
        """Return the level; what gives it may itself ask for what is effective, and not for this level again."""
        with changed_context(level=None):
            return self.level()

    def bars(self, tool: ToolDefinition) -> bool:
        """Return True if nothing calls a tool now on behalf of whoever acts: the level is manual."""
        is_manual = self.autonomy.effective(self.level_now()) is AutonomyLevel.MANUAL
        return is_manual and not tool.traits.read_only
