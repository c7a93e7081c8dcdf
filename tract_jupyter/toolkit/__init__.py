"""Tools: named callables with a schema, one executor for all who call them, and `tools` for code."""

from __future__ import annotations

from tract_jupyter.toolkit.calling import Permission
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits
from tract_jupyter.toolkit.executor import ToolExecutor
from tract_jupyter.toolkit.mcp.client import McpServer
from tract_jupyter.toolkit.profiles import ToolConfig, ToolProfile, get_profile
from tract_jupyter.toolkit.results import CallRecord, ToolResult
from tract_jupyter.toolkit.stubs import ToolBridge, ToolsModule, generate_tools_module
from tract_jupyter.toolkit.toolset import Toolset

__all__ = [
    "CallRecord", "McpServer", "Permission", "ToolBridge", "ToolConfig", "ToolDefinition", "ToolExecutor",
    "ToolProfile", "ToolResult", "ToolsModule", "Toolset", "Traits", "generate_tools_module", "get_profile",
]  # fmt: skip
