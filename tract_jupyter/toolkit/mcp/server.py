"""The tools of a tract for any MCP client: an editor, an assistant, another notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.toolkit.mcp.sdk import needing_sdk

if TYPE_CHECKING:
    from tract_jupyter.toolkit.mcp.service import McpService
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.tract import Tract


DECISION_SECONDS: Final = 300.0


def mcp_server(
    tract: Tract, profile: str | ToolProfile = "full", *, decision_timeout: float = DECISION_SECONDS
) -> McpService:
    """Serve the tools of a tract, and its approved operations: `mcp_server(tract).run()`.

    Clients come as actors `mcp:<name>`. What the policy of `tract.executor` asks about waits in the inbox of the store,
    and a notebook on the same store decides it; if that takes too long, the call is refused.

    Args:
        tract: whose tools; keep it open meanwhile.
        profile: which of them; see `Tract.toolset`.
        decision_timeout: seconds that a decision may take. Where the tract has a way of its own to ask a person, as in
            a notebook, that way and its time count instead.

    Raises:
        ContentError: there is no such profile.
        McpStartError: the SDK is not installed.
    """
    with needing_sdk():
        from tract_jupyter.toolkit.mcp.service import McpService
    return McpService(tract, profile, decision_timeout)
