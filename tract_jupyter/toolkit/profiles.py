"""Tool profiles: the tools that an agent sees, the tools that its scripts may call, and their descriptions."""

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
"""The tools that a model sees if its scripts make the calls."""
CELL_TOOLS: Final = ("notebook_read", "notebook_edit", "notebook_run_cell")
"""The tools for the cells of the notebook. A model sees them also in code mode, so a request shows each edit."""
AGENT_TOOLS: Final = (
    "agent_create", "agent_call", "agent_update", "agent_list", "agent_retire", "agent_promote"
)  # fmt: skip
"""The tools that create and call agents."""
_IN_CODE: Final = " in code"
"""The suffix of a profile name in code mode."""


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """The settings of one tool in a profile: whether it belongs to the profile, and its description."""

    enabled: bool = True
    description: str | None = None
    """The description for the model; None for the tool's own."""


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """A set of tools with their descriptions. A toolset shows these tools, and refuses calls of any other tool."""

    name: str
    tool_configs: Mapping[str, ToolConfig]
    """By tool name. Other tools do not belong to the profile, unless one of the following attributes includes them."""
    has_others: bool = False
    """True to include all tools that are not built in, such as tools of the user and of operations."""
    has_built_in: bool = False
    """True to include all built-in tools."""
    callable_from_code: ToolProfile | None = None
    """The tools that its scripts may call; None for the tools that it shows."""

    def __post_init__(self) -> None:
        """Check the user's values."""
        if not (self.callable_from_code is None or isinstance(self.callable_from_code, ToolProfile)):
            raise ContentError(
                f"profile {self.name!r}: callable_from_code must be a ToolProfile, or None for the same tools, not "
                f"{brief_repr(self.callable_from_code)}"
            )
        for name, config in self.tool_configs.items():
            if not isinstance(config, ToolConfig):
                raise ContentError(
                    f"profile {self.name!r}: {name!r} needs a ToolConfig, such as ToolConfig(description='...'), not "
                    f"{brief_repr(config)}"
                )

    def has(self, tool: ToolDefinition) -> bool:
        """Return True if a tool belongs to it."""
        config = self.tool_configs.get(tool.name)
        if config is not None:
            return config.enabled
        return self.has_built_in if tool.owner == BUILT_IN else self.has_others

    def filter_tools(self, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools that belong to the profile, with its descriptions."""
        return [self._described(tool) for tool in tools if self.has(tool)]

    @property
    def in_code(self) -> ToolProfile:
        """The profile that limits its scripts."""
        return self.callable_from_code or self

    def as_code_mode(self) -> ToolProfile:
        """Return a profile that shows three tools, which run scripts and find tools. Scripts call the rest.

        A profile with the tools that are not built in also shows the tools for cells, if there is a notebook.

        A model with this profile receives three schemas instead of all, and results of tools stay in its scripts.
        Locks, permission and review apply to the calls of scripts as to any other.
        """
        cells = [name for name in CELL_TOOLS if self._has_cells(name)]
        visible = {name: ToolConfig() for name in (*CODE_MODE, *cells)}
        discovery = {name: ToolConfig() for name in DISCOVERY if name not in self.tool_configs}
        in_code = replace(self.in_code, tool_configs={**self.in_code.tool_configs, **discovery})
        return ToolProfile(f"{self.name}{_IN_CODE}", visible, callable_from_code=in_code)

    def _has_cells(self, name: str) -> bool:
        config = self.in_code.tool_configs.get(name)
        return self.in_code.has_others if config is None else config.enabled

    def to_dict(self) -> dict[str, Any]:
        """Return the selection of tools as JSON data, without descriptions and without `callable_from_code`."""
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
        """Return the profile for the data of `to_dict`."""
        left_out = dict.fromkeys(data["left_out"], ToolConfig(enabled=False))
        configs = {**dict.fromkeys(data["tools"], ToolConfig()), **left_out}
        return cls(data["name"], configs, has_others=data["has_others"], has_built_in=data["has_built_in"])

    def _described(self, tool: ToolDefinition) -> ToolDefinition:
        config = self.tool_configs.get(tool.name)
        if config is None or config.description is None:
            return tool
        return replace(tool, description=config.description)


def get_profile(name: str) -> ToolProfile:
    """Return a built-in profile: `self`, `supervisor`, `agents`, `full` or `code`."""
    profile = _PROFILES.get(name) if isinstance(name, str) else None
    if profile is None:
        raise ContentError(
            f"there is no profile {brief_repr(name)}.{nearest(str(name), _PROFILES)} There are "
            f"{', '.join(map(repr, _PROFILES))}; you can pass your own ToolProfile instead"
        )
    return profile


def find_profile(name: str) -> ToolProfile | None:
    """Return the built-in profile with a name, also in code mode; None if there is none."""
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


def profile_of(profile: str | ToolProfile) -> ToolProfile:
    """Return the built-in profile with a name. Return a profile object unchanged."""
    if isinstance(profile, ToolProfile):
        return profile
    if isinstance(profile, str):
        return get_profile(profile)
    raise ContentError(
        f"a profile must be a name, such as 'self', or a ToolProfile, not {brief_repr(profile)}"
    )


def rights_of(granted: str | ToolProfile | None) -> ToolProfile | None:
    """Return the profile of granted tools; None for all tools."""
    return None if granted is None else profile_of(granted)
