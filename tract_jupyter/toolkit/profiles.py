"""Tool profiles: which tools an agent has, and how each is described to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import ContentError, nearest
from tract_jupyter.models.text import brief_repr
from tract_jupyter.prompts.tool_descriptions import SELF, SUPERVISOR
from tract_jupyter.toolkit.definitions import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """What a profile says about one tool: whether it has it, and how it describes it."""

    enabled: bool = True
    description: str | None = None
    """For the model; None for the tool's own."""


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """A set of tools with their descriptions. It binds: what it lacks cannot be called through a toolset with it."""

    name: str
    tool_configs: Mapping[str, ToolConfig]
    """What is not named here is left out, unless one of the following says otherwise."""
    has_others: bool = False
    """Whether tools that are not built in belong to it without being named: those of the user, of operations, ..."""
    has_built_in: bool = False
    """Whether the built-in tools belong to it without being named."""

    def __post_init__(self) -> None:
        """Check what a person wrote.

        Raises:
            ContentError: a tool is given something else than a `ToolConfig`.
        """
        for name, config in self.tool_configs.items():
            if not isinstance(config, ToolConfig):
                raise ContentError(
                    f"profile {self.name!r}: {name!r} has a ToolConfig, such as ToolConfig(description='...'), not "
                    f"{brief_repr(config)}"
                )

    def has(self, tool: ToolDefinition) -> bool:
        """Return True if a tool belongs to it."""
        config = self.tool_configs.get(tool.name)
        if config is not None:
            return config.enabled
        return self.has_built_in if tool.owner == BUILT_IN else self.has_others

    def filter_tools(self, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
        """Return those of some tools that belong to it, with its descriptions."""
        return [self._described(tool) for tool in tools if self.has(tool)]

    def _described(self, tool: ToolDefinition) -> ToolDefinition:
        config = self.tool_configs.get(tool.name)
        if config is None or config.description is None:
            return tool
        return replace(tool, description=config.description)


def get_profile(name: str) -> ToolProfile:
    """Return a built-in profile: `self`, `supervisor` or `full`.

    Raises:
        ContentError: there is none of that name.
    """
    profile = _PROFILES.get(name) if isinstance(name, str) else None
    if profile is None:
        raise ContentError(
            f"there is no profile {brief_repr(name)}.{nearest(str(name), _PROFILES)} There are "
            f"{', '.join(map(repr, _PROFILES))}; a ToolProfile of your own can be given instead"
        )
    return profile


def _built_in(name: str, descriptions: Mapping[str, str]) -> ToolProfile:
    configs = {tool: ToolConfig(description=text) for tool, text in descriptions.items()}
    return ToolProfile(name, configs, has_others=True)


_PROFILES: Final = {
    "self": _built_in("self", SELF),
    "supervisor": _built_in("supervisor", SUPERVISOR),
    "full": ToolProfile("full", {}, has_others=True, has_built_in=True),
}


def profile_of(given: str | ToolProfile) -> ToolProfile:
    """Return the profile that a name stands for; a profile as it is.

    Raises:
        ContentError: there is no such profile.
    """
    if isinstance(given, ToolProfile):
        return given
    if isinstance(given, str):
        return get_profile(given)
    raise ContentError(f"a profile is a name, such as 'self', or a ToolProfile; not {brief_repr(given)}")
