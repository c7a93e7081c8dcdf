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
        self._parts: list[dict[str, ToolDefinition]] = []
        self._all: dict[str, ToolDefinition] = {}

    def __call__(self) -> dict[str, ToolDefinition]:
        """All of them, by name."""
        parts = [source() for source in self._sources]
        if len(parts) != len(self._parts) or any(a is not b for a, b in zip(parts, self._parts, strict=True)):
            self._all = {name: tool for part in parts for name, tool in part.items()}
            self._parts = parts
        return self._all
