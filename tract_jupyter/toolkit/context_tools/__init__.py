"""The tools that work on the context itself. They return plain data, as a script or a model needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.toolkit.context_tools.writing import (
    branching_tools,
    model_tools,
    reading_tools,
    tagging_tools,
    writing_tools,
)

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.tract import Tract

__all__ = ["context_tools"]


def context_tools(tract: Tract) -> list[ToolDefinition]:
    """The tools of one tract."""
    makers = (writing_tools, reading_tools, branching_tools, tagging_tools, model_tools)
    return [tool for make in makers for tool in make(tract)]
