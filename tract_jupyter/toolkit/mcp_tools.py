"""The tools of MCP servers among those of the executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class McpTool:
    """A tool as its server describes it. The hints are the server's claims; None where it claims nothing."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
