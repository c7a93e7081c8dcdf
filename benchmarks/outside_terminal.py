"""The four real agents in a terminal, with a kernel as their MCP server."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.outside_world import World

_PROXY: Final = (sys.executable, "-m", "tract_jupyter", "kernel-proxy")
_START_SECONDS: Final = 120
"""All agents start at once, so the proxy starts slowly."""
_Start = tuple[list[str], dict[str, str]]


def terminal(agent: str, text: str, here: World, kernel: Mapping[str, Any] | None) -> _Start:
    """Write the settings of an agent in a terminal. Return its command and its variables.

    The settings allow all tools of the kernel, because its user decides in the notebook.

    Args:
        agent: its name.
        text: the message.
        here: its place.
        kernel: the address and the token for HTTP; None for the proxy.
    """
    return _AGENTS[agent](text, here, kernel)


def _claude(text: str, here: World, kernel: Mapping[str, Any] | None) -> _Start:
    server = (
        {"command": _PROXY[0], "args": _PROXY[1:]} if kernel is None else {"type": "http", **_remote(kernel)}
    )
    path = here.root / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"notebook": server}}))
    program = _package("@anthropic-ai/claude-agent-sdk-linux-x64/claude")
    command = [
        program, "-p", text, "--mcp-config", str(path), "--strict-mcp-config", "--allowedTools", "mcp__notebook",
        "--permission-mode", "default", "--output-format", "stream-json", "--verbose",
    ]  # fmt: skip
    return command, {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MCP_TIMEOUT": str(_START_SECONDS * 1_000),
    }


def _codex(text: str, here: World, kernel: Mapping[str, Any] | None) -> _Start:
    lines = [f"command = {json.dumps(_PROXY[0])}", f"args = {json.dumps(_PROXY[1:])}"]
    variables = {}
    if kernel is not None:
        lines = [f"url = {json.dumps(kernel['url'])}", 'bearer_token_env_var = "KERNEL_TOKEN"']
        variables["KERNEL_TOKEN"] = kernel["token"]
    else:  # a server over stdio gets no variables of Codex
        names = ("JUPYTER_RUNTIME_DIR", "PYTHONPATH", "PATH", "HOME")
        lines.append(f"env_vars = {json.dumps(names)}")
    path = here.root / "home/.codex/config.toml"
    table = "[mcp_servers.notebook]"
    settings = path.read_text().partition(table)[0].rstrip()
    lines = [
        settings,
        table,
        "required = true",
        f"startup_timeout_sec = {_START_SECONDS}",
        'default_tools_approval_mode = "approve"',
        *lines,
    ]
    path.write_text("\n".join(lines) + "\n")
    return [_program("codex"), "exec", "--skip-git-repo-check", "--json", text], variables


def _gemini(text: str, here: World, kernel: Mapping[str, Any] | None) -> _Start:
    server: dict[str, Any] = {"command": _PROXY[0], "args": _PROXY[1:]}
    if kernel is not None:
        server = {"httpUrl": kernel["url"], "headers": _remote(kernel)["headers"]}
    path = here.root / "home/.gemini/settings.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "mcpServers": {"notebook": {**server, "trust": True}}})
    )
    command = [_program("gemini"), "-m", "gemini-2.5-flash", "-p", text, "-o", "stream-json"]
    return command, {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _opencode(text: str, here: World, kernel: Mapping[str, Any] | None) -> _Start:
    server: dict[str, Any] = {"type": "local", "command": _PROXY}
    if kernel is not None:
        server = {"type": "remote", "oauth": False, **_remote(kernel)}
    path = here.root / "home/.config/opencode/opencode.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "mcp": {"notebook": {**server, "enabled": True}}})
    )
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return [_program("opencode"), "run", text], variables


_AGENTS: Final[Mapping[str, Callable[[str, World, Mapping[str, Any] | None], _Start]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}


def _remote(kernel: Mapping[str, Any]) -> dict[str, Any]:
    return {"url": kernel["url"], "headers": {"Authorization": f"Bearer {kernel['token']}"}}


def _program(name: str) -> str:
    return shutil.which(name) or name


def _package(name: str) -> str:
    """Return the path of a program that is in no folder of programs."""
    beside = Path(_program("claude-agent-acp"))
    return str(beside.parent.parent / name)
