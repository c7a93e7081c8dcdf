"""Tool profiles: which tools an agent is shown, which its scripts may call, and how each is described to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, nearest
from tract_jupyter.models import brief_repr
from tract_jupyter.prompts import SELF, SUPERVISOR
from tract_jupyter.toolkit.definitions import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition


DISCOVERY: Final = ("tools_search", "tools_describe")
"""The tools that find tools."""
CODE_MODE: Final = ("notebook_execute", *DISCOVERY)
"""The tools that a model is shown whose calls are made by its scripts."""
AGENT_TOOLS: Final = (
    "agent_create", "agent_call", "agent_update", "agent_list", "agent_retire", "agent_promote"
)  # fmt: skip
"""The tools that make agents and call them."""
_IN_CODE: Final = " in code"
"""The end of the name of a profile in code mode."""


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """The settings of one tool in a profile: whether the tool belongs to it, and how it is described."""

    enabled: bool = True
    description: str | None = None
    """For the model; None for the tool's own."""


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """A set of tools with their descriptions. A toolset with it shows these, and refuses calls of any other tool."""

    name: str
    tool_configs: Mapping[str, ToolConfig]
    """By tool name. Other tools are left out, unless one of the following attributes says otherwise."""
    has_others: bool = False
    """True if tools that are not built in belong to it without being named: those of the user, of operations, ..."""
    has_built_in: bool = False
    """True if the built-in tools belong to it without being named."""
    callable_from_code: ToolProfile | None = None
    """The tools that its scripts may call; None for those that it shows."""

    def __post_init__(self) -> None:
        """Check what a person wrote.

        Raises:
            ContentError: a tool is given something else than a `ToolConfig`, or its scripts something else than a
                profile.
        """
        if not (self.callable_from_code is None or isinstance(self.callable_from_code, ToolProfile)):
            raise ContentError(
                f"profile {self.name!r}: callable_from_code is a ToolProfile, or None for the same tools; not "
                f"{brief_repr(self.callable_from_code)}"
            )
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

    @property
    def in_code(self) -> ToolProfile:
        """The profile that its scripts are bound to."""
        return self.callable_from_code or self

    def as_code_mode(self) -> ToolProfile:
        """Return the profile that shows three tools, to run scripts and to find tools, and has the rest in code.

        A model that goes by it carries three schemas instead of all, and what tools give back stays in its scripts.
        Locks, permission and review hold for the calls of scripts as for any other.
        """
        shown = {name: ToolConfig() for name in CODE_MODE}
        found = {name: ToolConfig() for name in DISCOVERY if name not in self.tool_configs}
        in_code = replace(self.in_code, tool_configs={**self.in_code.tool_configs, **found})
        return ToolProfile(f"{self.name}{_IN_CODE}", shown, callable_from_code=in_code)

    def to_dict(self) -> dict[str, Any]:
        """Return which tools belong to it, as JSON data: without descriptions, and without what scripts may call."""
        configs = self.tool_configs.items()
        return {
            "name": self.name,
            "tools": [name for name, config in configs if config.enabled],
            "left_out": [name for name, config in configs if not config.enabled],
            "has_others": self.has_others,
            "has_built_in": self.has_built_in,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolProfile:
        """Return a profile from what `to_dict` gave."""
        left_out = dict.fromkeys(data["left_out"], ToolConfig(enabled=False))
        configs = {**dict.fromkeys(data["tools"], ToolConfig()), **left_out}
        return cls(data["name"], configs, has_others=data["has_others"], has_built_in=data["has_built_in"])

    def _described(self, tool: ToolDefinition) -> ToolDefinition:
        config = self.tool_configs.get(tool.name)
        if config is None or config.description is None:
            return tool
        return replace(tool, description=config.description)


def get_profile(name: str) -> ToolProfile:
    """Return a built-in profile: `self`, `supervisor`, `agents`, `full` or `code`.

    Raises:
        ContentError: no built-in profile has that name.
    """
    profile = _PROFILES.get(name) if isinstance(name, str) else None
    if profile is None:
        raise ContentError(
            f"there is no profile {brief_repr(name)}.{nearest(str(name), _PROFILES)} There are "
            f"{', '.join(map(repr, _PROFILES))}; you can pass your own ToolProfile instead"
        )
    return profile


def find_profile(name: str) -> ToolProfile | None:
    """Return the built-in profile of a name, also in code mode; None if there is none."""
    base = _PROFILES.get(name.removesuffix(_IN_CODE))
    return base if base is None or base.name == name else base.as_code_mode()


def _built_in(name: str, descriptions: Mapping[str, str | None]) -> ToolProfile:
    configs = {tool: ToolConfig(description=text) for tool, text in descriptions.items()}
    return ToolProfile(name, configs, has_others=True)


_FULL: Final = ToolProfile("full", {}, has_others=True, has_built_in=True)
_PROFILES: Final = {
    "self": _built_in("self", SELF),
    "supervisor": _built_in("supervisor", SUPERVISOR),
    "agents": _built_in("agents", {**SELF, **dict.fromkeys(AGENT_TOOLS)}),
    "full": _FULL,
    "code": replace(_FULL.as_code_mode(), name="code"),
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


def rights_of(granted: str | ToolProfile | None) -> ToolProfile | None:
    """Return the profile of what is granted; None for everything.

    Raises:
        ContentError: there is no such profile.
    """
    return None if granted is None else profile_of(granted)
