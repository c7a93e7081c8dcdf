"""Tools of the user's own."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from tract_jupyter.toolkit import ToolDefinition, Traits


@pytest.fixture
def add(tract):
    """Adds a tool: a function, or a name with a function."""

    def make(function, name=None, **options: Any) -> ToolDefinition:
        tool = ToolDefinition.from_function(function, **options)
        if name is not None:
            tool = ToolDefinition(
                name, tool.description, tool.parameters, tool.handler, tool.traits, tool.owner
            )
        tract.executor.add(tool)
        return tool

    return make


@pytest.fixture
def search(add):
    """An ordinary tool."""

    def web_search(
        query: Annotated[str, "What to look for."],
        limit: Annotated[int, "How many."] = 10,
        sites: Annotated[list[str] | None, "Where."] = None,
    ) -> list[dict[str, Any]]:
        """Search the web.

        More about it.
        """
        return [{"query": query, "limit": limit, "sites": sites}]

    return add(web_search, traits=Traits(read_only=True, open_world=True))
