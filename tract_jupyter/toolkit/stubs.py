"""`tools`: every tool as a plain Python function.

The functions are made from the tools' schemas when they are asked for, so the module is live: a tool that appears or
goes does so here at once. A stub holds nothing but the bridge.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ParameterError, ToolExecutionError, nearest
from tract_jupyter.models.parameters import type_text
from tract_jupyter.toolkit.names import HELPERS, python_names

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from tract_jupyter.toolkit.bridge import CallRecord, ToolBridge
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.savings import TokenSavings
    from tract_jupyter.toolkit.toolset import Toolset


class ToolsModule(types.ModuleType):
    """The module object that is called `tools` in a notebook."""

    def __init__(self, bridge: ToolBridge, name: str = "tools") -> None:
        super().__init__(
            name, "Every tool as a function: tools.list_tools() names them, tools.<name>? explains one."
        )
        self.__dict__["_bridge"] = bridge
        self.__dict__["_stubs"] = {}

    def __getattr__(self, name: str) -> Any:
        # Only for names that the module's own dict lacks, which is all tools.
        bridge, stubs = self.__dict__["_bridge"], self.__dict__["_stubs"]
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        stub, definition = stubs.get(name, (None, None))
        if stub is not None and bridge.executor.get(definition.name) is definition:
            return stub
        return self._make(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"'tools' is made from the registered tools; {name!r} cannot be set on it")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"'tools' is made from the registered tools; {name!r} cannot be deleted from it")

    def __dir__(self) -> list[str]:
        return sorted({*python_names(self.__dict__["_bridge"].executor.tools()), *HELPERS})

    def __repr__(self) -> str:
        return f"<tools: {', '.join(dir(self))}>"

    def _make(self, name: str) -> Any:
        bridge, stubs = self.__dict__["_bridge"], self.__dict__["_stubs"]
        tools = bridge.executor.tools()
        mapped = python_names(tools)
        if name in mapped:
            definition = tools[mapped[name]]
            stub = make_stub(name, definition, bridge)
            stubs[name] = (stub, definition)
            return stub
        if name in HELPERS:
            return getattr(_Helpers(bridge), name)
        raise AttributeError(
            f"no tool {name!r}.{nearest(name, [*mapped, *HELPERS])} tools.list_tools() names them all"
        )


class _Helpers:
    """What `tools` offers besides the tools."""

    def __init__(self, bridge: ToolBridge) -> None:
        self._bridge = bridge

    def list_tools(self) -> dict[str, str]:
        """Return every tool's Python name and the first line of what it does."""
        tools = self._bridge.executor.tools()
        return {
            short: (tools[name].description.splitlines() or [""])[0]
            for short, name in python_names(tools).items()
        }

    @property
    def call_log(self) -> deque[CallRecord]:
        """The newest calls, with durations in seconds."""
        return self._bridge.call_log

    def savings(self) -> TokenSavings:
        """Return about how many tokens the calls so far kept out of the prompt."""
        return self._bridge.savings()


def make_stub(name: str, tool: ToolDefinition, bridge: ToolBridge | Toolset) -> Callable[..., Any]:
    """Make the function of a tool: `name(arguments...)`, with signature, annotations and docstring."""
    call, target = bridge.call, tool.name

    def stub(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return call(target, _bind(tool, args, kwargs) if args else kwargs)

    stub.__name__ = stub.__qualname__ = name
    stub.__module__ = "tools"
    stub.__doc__ = _docstring(tool)
    stub.__signature__ = tool.parameters.signature()  # type: ignore[attr-defined]
    stub.__annotations__ = {p.name: p.annotation for p in tool.parameters}
    return stub


def _bind(tool: ToolDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    __tracebackhide__ = True
    try:
        return tool.parameters.bind(args, kwargs)
    except ParameterError as error:
        raise ToolExecutionError(tool.name, kwargs, "; ".join(error.problems)) from error


def generate_tools_module(bridge: ToolBridge, name: str = "tools") -> ToolsModule:
    """Make the module of a bridge. It is not put into `sys.modules`."""
    return ToolsModule(bridge, name)


def _docstring(tool: ToolDefinition) -> str:
    lines = [tool.description]
    if len(tool.parameters):
        lines += ["", "Args:"]
    for p in tool.parameters:
        default = "" if p.required or p.optional else f" Default: {p.default!r}."
        lines.append(f"    {p.name} ({type_text(p.annotation)}): {p.description}{default}")
    lines += ["", "Raises:", "    ToolExecutionError: the call failed or was denied."]
    return "\n".join(lines)
