"""Tools that come and go, from several sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.toolkit.definitions import ToolDefinition

    Source = Callable[[], dict[str, ToolDefinition]]


class LiveTools:
    """All tools of some sources in one dict: another dict as soon as, and not before, a source gives another one."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources
        # one attribute, since threads that ask at once must find the two in step
        self._current: tuple[list[dict[str, ToolDefinition]], dict[str, ToolDefinition]] = ([], {})

    def __call__(self) -> dict[str, ToolDefinition]:
        """All of them, by name."""
        parts = [source() for source in self._sources]
        before, tools = self._current
        if len(parts) != len(before) or any(a is not b for a, b in zip(parts, before, strict=True)):
            tools = {name: tool for part in parts for name, tool in part.items()}
            self._current = parts, tools
        return tools
