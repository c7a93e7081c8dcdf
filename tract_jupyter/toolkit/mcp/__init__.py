"""The Model Context Protocol: tools of other programs here, and the tools of a tract for other programs.

`client` reaches a server (a program, or a URL: `transports`) over a `connection`, `content` reads its answers, `tools`
adds its tools to the executor; `mcp_server` serves a tract (`server`). The SDK is an extra, which is imported
with the first server or client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tract_jupyter.toolkit.mcp.server import McpService, ServedTract
    from tract_jupyter.toolkit.profiles import ToolProfile

__all__ = ["DECISION_SECONDS", "mcp_server"]

DECISION_SECONDS: Final = 300.0
"""The time that a call from outside waits for a person, unless another is given."""


def mcp_server(
    tract: ServedTract, profile: str | ToolProfile = "self", *, decision_timeout: float = DECISION_SECONDS
) -> McpService:
    """Serve the tools of a tract, and its approved operations: `mcp_server(tract).run()`.

    Clients come as actors `mcp:<name>`. A call that needs approval waits in the inbox of the store, where a
    notebook on the same store decides it; if that takes too long, it is refused.

    Args:
        tract: whose tools; keep it open meanwhile.
        profile: which of them; see `Tract.toolset`.
        decision_timeout: seconds that a decision may take. Where the tract has a way of its own to ask a person, as in
            a notebook, that way and its time count instead.

    Raises:
        ContentError: there is no such profile.
        McpStartError: the SDK is not installed.
    """
    from tract_jupyter.toolkit.mcp.client import needing_sdk

    with needing_sdk():
        from tract_jupyter.toolkit.mcp.server import McpService
    return McpService(tract, profile, decision_timeout)
