"""Tools: the user's own, who may call which, and in which shape models are given them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, overload

from tract_jupyter.exceptions import ContentError
from tract_jupyter.facade.parts import Parts
from tract_jupyter.models.text import brief_repr
from tract_jupyter.scripts.tools import script_tools
from tract_jupyter.toolkit.calling import AGENT
from tract_jupyter.toolkit.context_tools import context_tools
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits
from tract_jupyter.toolkit.executor import ToolExecutor
from tract_jupyter.toolkit.operation_tools import LiveTools, OperationTools, proposing_tools
from tract_jupyter.toolkit.profiles import ToolProfile, get_profile
from tract_jupyter.toolkit.stubs import ToolBridge, ToolsModule
from tract_jupyter.toolkit.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from tract_jupyter.toolkit.toolset import Format
    from tract_jupyter.tract import Tract

    Function = TypeVar("Function", bound=Callable[..., Any])


class Tooling(Parts):
    """The part of `Tract` that has tools."""

    @cached_property
    def executor(self) -> ToolExecutor:
        """The one way to run a tool."""
        live = LiveTools(OperationTools(self.operations, self.reviewer.decide_now), self._mcp)
        whole = cast("Tract", self)
        built_in = [
            *context_tools(whole),
            *proposing_tools(whole),
            *script_tools(whole, lambda: whole.scripts),
        ]
        return ToolExecutor(self, built_in, live)

    @cached_property
    def tools(self) -> ToolsModule:
        """Every tool as a Python function."""
        return ToolsModule(ToolBridge(self.executor))

    @overload
    def tool(self, function: Function) -> Function: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
    ) -> Callable[[Function], Function]: ...
    def tool(
        self,
        function: Function | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
    ) -> Function | Callable[[Function], Function]:
        """Decorate a function to make it a tool: `@tract.tool`, or `@tract.tool(read_only=True)`.

        Its type hints and its docstring, in Google's, numpy's or Sphinx's style, say the rest. The function itself
        stays as it is. A tool of your own with that name is replaced, so that a cell can be run again; others are not.

        Args:
            function: what is decorated.
            name: instead of the function's own.
            description: for models, instead of the first paragraph of the docstring.
            read_only: it changes nothing; models may call it without being asked about.
            destructive: what it takes away may be gone for good.
            open_world: it reaches beyond this store: the network, other programs, ...

        Raises:
            SpecError: it is no plain function, or has a parameter that models cannot send a value for.
            OperationExistsError: a tool that is not your own has that name.
        """
        traits = Traits(read_only, destructive, open_world)

        def add(function: Function) -> Function:
            made = ToolDefinition.from_function(function, name=name, description=description, traits=traits)
            self.executor.add(made, replace=True)
            return function

        return add if function is None else add(function)

    def remove_tool(self, name: str) -> None:
        """Take one of your own tools away.

        Raises:
            UnknownToolError: there is none of that name.
            OperationExistsError: it is not your own.
        """
        self.executor.remove(name)

    def lock_tool(self, name: str, reason: str = "") -> None:
        """Refuse every call of a tool, whoever makes it, and offer it to no model, until it is unlocked.

        Raises:
            UnknownToolError: there is no such tool.
        """
        self.executor.lock(name, reason)

    def unlock_tool(self, name: str) -> None:
        """Let a tool be called again.

        Raises:
            UnknownToolError: there is no such tool.
        """
        self.executor.unlock(name)

    def toolset(
        self,
        profile: str | ToolProfile = "full",
        *,
        actor: str = AGENT,
        overrides: Mapping[str, str] | None = None,
    ) -> Toolset:
        """The tools as a model has them: those of a profile, called in its name, and no others.

        Args:
            profile: `full`, `self` for an agent that manages the context it works with, `supervisor` for one that
                manages another's, or a `ToolProfile`.
            actor: who calls, for the permission and whoever is asked.
            overrides: other descriptions, by the tool's name.

        Raises:
            ContentError: there is no such profile.
            UnknownToolError: a description is for a tool that the profile does not have.
        """
        return Toolset(self.executor, _profile(profile), actor=actor, overrides=overrides)

    def as_tools(
        self,
        profile: str | ToolProfile = "full",
        *,
        overrides: Mapping[str, str] | None = None,
        format: Format = "openai",  # noqa: A002 # the usual word
        strict: bool = False,
    ) -> list[dict[str, Any]]:
        """The tools of a profile as plain dicts, for a model. What it calls is carried out by a `toolset`.

        Args:
            profile: see `toolset`.
            overrides: other descriptions, by the tool's name.
            format: `openai`, `anthropic` or `mcp`.
            strict: in OpenAI's strict mode. A tool that it has no words for, as with a `dict[str, Any]`, says
                `strict: False`.

        Raises:
            ContentError: there is no such profile or format, or the format has no strict mode.
            UnknownToolError: a description is for a tool that the profile does not have.
        """
        return self.toolset(profile, overrides=overrides).schemas(format, strict=strict)

    def as_callable_tools(
        self,
        profile: str | ToolProfile = "full",
        *,
        actor: str = AGENT,
        overrides: Mapping[str, str] | None = None,
    ) -> list[Callable[..., Any]]:
        """The tools of a profile as plain functions, for frameworks that make their own schemas. They raise on error.

        Their calls are a model's: what changes something needs a person's approval. Arguments as for `toolset`.
        """
        return self.toolset(profile, actor=actor, overrides=overrides).callables()


def _profile(given: str | ToolProfile) -> ToolProfile:
    if isinstance(given, ToolProfile):
        return given
    if isinstance(given, str):
        return get_profile(given)
    raise ContentError(f"a profile is a name, such as 'self', or a ToolProfile; not {brief_repr(given)}")
