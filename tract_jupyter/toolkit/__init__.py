"""Tools: named functions with a JSON Schema, one executor for all who call them, and `tools` for code.

* `definitions`: what a tool is. `executor`: the one way to run one: find, profile, lock, validate,
  permission, handler.
* `calling`: who calls, and what they may. `pendings`: a call that a person is asked about. `results`: what
  comes of a call.
* `stubs`: the functions of `tools`. `toolset`: the tools as a model has them; `profiles`: which, in which words.
* `context_tools`: the built-in tools. `operation_tools`: `fire_NAME`. `mcp`: servers used here, and this
  store as a server.

Knows `operations`, `hooks`, `review`, `storage`, and `prompts` and `llm` for what models are told and say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.doors import door

if TYPE_CHECKING:
    from tract_jupyter.toolkit.calling import Permission
    from tract_jupyter.toolkit.definitions import ToolDefinition, Traits
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.mcp.client import McpServer
    from tract_jupyter.toolkit.profiles import ToolConfig, ToolProfile, get_profile
    from tract_jupyter.toolkit.results import CallRecord, ToolResult
    from tract_jupyter.toolkit.stubs import ToolBridge, ToolsModule, generate_tools_module
    from tract_jupyter.toolkit.toolset import Toolset
else:
    __getattr__ = door(
        __name__,
        {
            "CallRecord": "tract_jupyter.toolkit.results",
            "McpServer": "tract_jupyter.toolkit.mcp.client",
            "Permission": "tract_jupyter.toolkit.calling",
            "ToolBridge": "tract_jupyter.toolkit.stubs",
            "ToolConfig": "tract_jupyter.toolkit.profiles",
            "ToolDefinition": "tract_jupyter.toolkit.definitions",
            "ToolExecutor": "tract_jupyter.toolkit.executor",
            "ToolProfile": "tract_jupyter.toolkit.profiles",
            "ToolResult": "tract_jupyter.toolkit.results",
            "ToolsModule": "tract_jupyter.toolkit.stubs",
            "Toolset": "tract_jupyter.toolkit.toolset",
            "Traits": "tract_jupyter.toolkit.definitions",
            "generate_tools_module": "tract_jupyter.toolkit.stubs",
            "get_profile": "tract_jupyter.toolkit.profiles",
        },
    )

__all__ = [
    "CallRecord",
    "McpServer",
    "Permission",
    "ToolBridge",
    "ToolConfig",
    "ToolDefinition",
    "ToolExecutor",
    "ToolProfile",
    "ToolResult",
    "ToolsModule",
    "Toolset",
    "Traits",
    "generate_tools_module",
    "get_profile",
]
