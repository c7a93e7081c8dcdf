"""A toolset: the tools as somebody else has them, such as an agent. It shows a profile, and holds its user to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import UnknownToolError, nearest
from tract_jupyter.models.checks import check_text
from tract_jupyter.toolkit.formats import shape
from tract_jupyter.toolkit.names import provider_names, python_name
from tract_jupyter.toolkit.results import for_model
from tract_jupyter.toolkit.stubs import make_stub

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.formats import Format
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.results import ToolResult


class Toolset:
    """A bound view of an executor: its tools, policy and locks, for one actor, with the tools of one profile.

    Args:
        executor: runs the tools.
        profile: which tools there are.
        actor: who calls them, for the policy: `agent:<id>`, ...
        overrides: other descriptions, by the tool's name.

    Raises:
        UnknownToolError: a description is for a tool that the profile does not have.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        profile: ToolProfile,
        *,
        actor: str,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self._executor = executor
        self.profile = profile
        self.actor = actor
        self._overrides = dict(overrides or {})
        self._check_overrides()

    def __repr__(self) -> str:
        return f"<Toolset {self.profile.name!r} of {self.actor}: {', '.join(self.tools())}>"

    def tools(self) -> dict[str, ToolDefinition]:
        """The tools that can be called now, by name, with the descriptions of the profile. Locked ones are left out."""
        locks = self._executor.locks
        return {
            tool.name: replace(tool, description=self._overrides[tool.name])
            if tool.name in self._overrides
            else tool
            for tool in self.profile.filter_tools(self._executor.tools().values())
            if tool.name not in locks
        }

    def schemas(self, format: Format = "openai", *, strict: bool = False) -> list[dict[str, Any]]:  # noqa: A002
        """The tools for a model.

        Args:
            format: `openai`, `anthropic` or `mcp`.
            strict: in OpenAI's strict mode. A tool that it has no words for, as with a `dict[str, Any]`, says
                `strict: False`.

        Raises:
            ContentError: there is no such format, or it has no strict mode.
        """
        shaped = shape(format, strict=strict)
        return [shaped(name, tool) for name, tool in self._provided().items()]

    def execute(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool. Raises no `Exception`: what went wrong is in the result, and so is why a call was refused.

        The output is plain JSON data. What has no JSON form, or more bytes of it than the executor's
        `max_result_bytes`, is an error that says so.
        """
        result = self._executor.execute(name, arguments, actor=self.actor, profile=self.profile)
        return for_model(result, self._executor.max_result_bytes)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its output.

        Raises:
            ToolDeniedError: it was not allowed.
            ToolExecutionError: anything else that went wrong.
        """
        __tracebackhide__ = True
        return self.execute(name, arguments).value(arguments)

    def callables(self) -> list[Callable[..., Any]]:
        """The tools as plain functions, with name, docstring, signature and annotations; they raise as `call` does."""
        return [make_stub(python_name(name), tool, self) for name, tool in self._provided().items()]

    def _provided(self) -> dict[str, ToolDefinition]:
        """The tools by the names that providers allow: those that they have among all tools of the executor."""
        tools = self.tools()
        names = provider_names(self._executor.tools())
        return {short: tools[name] for short, name in names.items() if name in tools}

    def _check_overrides(self) -> None:
        known = [tool.name for tool in self.profile.filter_tools(self._executor.tools().values())]
        for name, description in self._overrides.items():
            if name not in known:
                raise UnknownToolError(
                    f"the profile {self.profile.name!r} has no tool {name!r} to describe.{nearest(str(name), known)} "
                    f"It has: {', '.join(sorted(known))}"
                )
            check_text(description, f"the description of {name!r}")
