"""The Model Context Protocol: tools of other programs here, and the tools of a tract for other programs.

`client` connects to a server (a program, or a URL: `transports`) over a `connection`, whose messages are limited
(`flow`). `content` reads its answers.
`tools` adds its tools to the executor. `mcp_server` serves a tract (`server`) over `stdio`. `held` has its calls, which
may outlive the requests of the client. `http` serves over HTTP in a thread, `connections` bounds its connections,
`served` has the files that tell where, and `proxy` is the stdio side of such a server. The SDK is an optional
dependency. The first server or client imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.models import admin_limits

if TYPE_CHECKING:
    from tract_jupyter.toolkit.mcp.proxy import KernelProxy
    from tract_jupyter.toolkit.mcp.server import McpService, ServedTract
    from tract_jupyter.toolkit.profiles import ToolProfile

__all__ = ["DECISION_SECONDS", "kernel_proxy", "mcp_server"]

DECISION_SECONDS: Final = 86_400.0
"""The default time in seconds, one day, that a call of a client waits for the user's decision."""


def mcp_server(
    tract: ServedTract, profile: str | ToolProfile = "self", *, decision_timeout: float = DECISION_SECONDS
) -> McpService:
    """Serve the tools of a tract, and its approved operations: `mcp_server(tract).run()`.

    Clients have actors `mcp:<name>`. A call that needs approval waits in the inbox of the store. A notebook on the
    same store can decide it. Before the client's own time limit, the call returns an id. The client calls `result` with
    this id to wait again. If the client has left, a later approval counts for its identical call.

    Args:
        tract: the tract with the tools. Keep it open while the server runs.
        profile: selects the tools; see `Tract.toolset`.
        decision_timeout: maximum seconds for a decision. If the tract can ask the user directly, as in a notebook, it
            uses that channel and its timeout instead.

    Raises:
        ContentError: there is no such profile.
        McpStartError: the SDK is not installed.
        AdminLimitError: the administrator's limits do not allow outside agents.
    """
    from tract_jupyter.toolkit.mcp.client import needing_sdk

    admin_limits().check_outside_agents()
    with needing_sdk():
        from tract_jupyter.toolkit.mcp.server import McpService
    return McpService(tract, profile, decision_timeout)


def kernel_proxy(notebook: str = "") -> KernelProxy:
    """Connect a client over stdio to the kernel of a notebook: `kernel_proxy("report.ipynb").run()`.

    Args:
        notebook: the path of the notebook. Empty for the only kernel that serves its tools.
    """
    from tract_jupyter.toolkit.mcp.client import needing_sdk

    with needing_sdk():
        from tract_jupyter.toolkit.mcp.proxy import KernelProxy
    return KernelProxy(notebook)
