"""The known outside agents: how each is started, what makes it ask, and what it never asks about.

This is data. An agent that is not here can be started with its command line. Then nothing is known about when it asks.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from tract_jupyter.exceptions import OutsideAgentError
from tract_jupyter.models import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVER: Final = "{server}"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NAME: Final = 40
_LONGEST_FILE: Final = 200
_START_INNER: Final = Path(__file__).with_name("inner_program.sh")
UNKNOWN: Final = "This agent decides by itself when to ask."


class InnerProgram(NamedTuple):
    """The program that an agent's adapter starts, with options that the adapter cannot give it.

    Attributes:
        path: its path below `node_modules`, beside the adapter.
        variable: the variable that names another program to the adapter.
        options: the options.
    """

    path: str
    variable: str
    options: str

    def variables(self, adapter: Path) -> dict[str, str]:
        """Return the variables that give it the options; empty if it is not beside the adapter."""
        for place in adapter.resolve().parents:
            program = place / "node_modules" / self.path
            if program.is_file() and os.access(_START_INNER, os.X_OK):
                return {
                    self.variable: str(_START_INNER),
                    "TRACT_INNER_PROGRAM": str(program),
                    "TRACT_INNER_OPTIONS": self.options,
                }
        return {}


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """The settings of one outside agent.

    Attributes:
        name: the name in `--agent NAME`.
        title: the name for the user.
        command: the program and its arguments, which speaks ACP on stdin and stdout.
        install: the command that installs it.
        login: the command that logs in, unless the agent offers one itself.
        mode: the id of the mode in which it asks before it acts. Empty if its environment makes it ask.
        environment: the variables that make it ask, and that switch off project files and other network access.
        inner: the program that its program starts, if that one needs more options; None otherwise.
        session_meta: the `_meta` of `session/new`, as JSON. `{server}` is the name of the kernel's MCP server.
        authenticates_with: the authentication method for each key, by the name of its variable.
        kernel_environment: other variables if the kernel is offered to it.
        kernel_options: more arguments if the kernel is offered to it. `{server}` is the name of the server.
        no_kernel_with: files of a project that it would run if the kernel was offered to it, so the kernel is not
            offered in a folder with one of them.
        no_kernel_below: such files that it finds in the parents of the folder too.
        server_option: the id of an option that only requests about MCP tools have. Set only if it takes no other
            server than ours.
        title_is_command: True if the title of a request about a shell command is the command.
        title_is_tool: True if the title of a request about an MCP tool is the server's name and the tool's name. Its
            program writes them.
        asks: the actions that it asks about, verified.
        never_asks: the actions that it never asks about.
        project_file: a file of a project that makes it run programs without a question, and that cannot be switched
            off. A folder with it is refused.
        hosts: the hosts that it may reach besides the host of its model.
        verified: the version and the date of the verification. Empty if it was not verified.
        is_known: False if nothing was verified about when it asks, as for a command line of the user.
        takes_options: False if the user's command line hides the arguments of the program, as an image of a container
            does. Then `kernel_options` cannot be added.
    """

    name: str
    title: str
    command: tuple[str, ...]
    install: str = ""
    login: str = ""
    mode: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    inner: InnerProgram | None = None
    session_meta: str = ""
    authenticates_with: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    kernel_environment: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    kernel_options: tuple[str, ...] = ()
    no_kernel_with: tuple[str, ...] = ()
    no_kernel_below: tuple[str, ...] = ()
    server_option: str = ""
    title_is_command: bool = False
    title_is_tool: bool = False
    asks: tuple[str, ...] = ()
    never_asks: tuple[str, ...] = ()
    project_file: str = ""
    hosts: str = ""
    verified: str = ""
    is_known: bool = True
    takes_options: bool = True

    def with_command(self, line: str) -> AgentSettings:
        """Return the settings with another command line that starts the program."""
        words = command_of(line)
        return replace(self, command=words, takes_options=set(self.command[1:]) <= set(words))

    def meta(self, server: str) -> dict[str, Any]:
        """Return the `_meta` of `session/new`, for the name of the kernel's MCP server."""
        return dict(json.loads(self.session_meta.replace(_SERVER, server))) if self.session_meta else {}

    def why_no_kernel(self, folder: Path) -> str:
        """Return why the kernel is not offered in a folder; empty if it is. The user's own files do not count."""
        if self.kernel_options and not self.takes_options:
            missing = " ".join(settings_of(self.name).command[1:])
            return (
                f"its command line does not end with the arguments of the program ({missing}), so no option can be "
                "added, and without an option it would run MCP servers of the project"
            )
        files = [folder / name for name in self.no_kernel_with]
        files += [place / name for name in self.no_kernel_below for place in (folder, *folder.parents)]
        own = [Path.home() / name for name in (*self.no_kernel_with, *self.no_kernel_below)]
        for file in files:
            if file not in own and os.path.lexists(file):
                name = one_line(str(file), _LONGEST_FILE)
                return f"the project has {name}, and with MCP servers it would run programs of the project"
        return ""

    def with_kernel(self, server: str) -> AgentSettings:
        """Return the settings for a session that gets the kernel's MCP server with this name."""
        options = (one.replace(_SERVER, server) for one in self.kernel_options)
        environment = {**self.environment, **self.kernel_environment}
        return replace(self, command=(*self.command, *options), environment=environment)

    @property
    def program(self) -> str:
        """The path of its program; empty if it is not installed."""
        return shutil.which(self.command[0]) or ""

    @property
    def why_no_program(self) -> str:
        """The reason why its program cannot be started, with the remedy; empty if it can."""
        if self.program:
            return ""
        name = one_line(self.command[0], 80)
        if Path(self.command[0]).exists():
            return f"{name!r} is not a program that you may run. Check its path and its permissions."
        how = f" Install it: {self.install}" if self.install else ""
        return f"The program {name!r} was not found.{how}"

    @property
    def about(self) -> str:
        """Say when the agent asks, for the first row of its session."""
        if not self.is_known:
            return f"{UNKNOWN} Network: {self.hosts or 'unknown'}. Not verified."
        parts = [f"It asks about {', '.join(self.asks)}." if self.asks else ""]
        parts += [f"It never asks about {', '.join(self.never_asks)}." if self.never_asks else ""]
        parts += [f"Network: {self.hosts}." if self.hosts else ""]
        parts += [f"Verified with {self.verified}." if self.verified else "Not verified."]
        return " ".join(filter(None, parts))


_CLAUDE: Final = json.dumps(
    {
        "claudeCode": {
            "options": {
                "settingSources": [],
                "strictMcpConfig": True,
                "allowDangerouslySkipPermissions": False,
                "promptSuggestions": False,
                "settings": {
                    "permissions": {
                        "ask": ["Write", "Edit", "NotebookEdit", "Bash", "WebFetch", f"mcp__{_SERVER}"],
                        "defaultMode": "default",
                        "disableBypassPermissionsMode": "disable",
                    }
                },
            }
        }
    }
)
_OPENCODE_TOOLS: Final = (
    "*", "read", "edit", "glob", "grep", "list", "bash", "webfetch", "websearch", "codesearch", "external_directory",
    "todowrite", "skill", "lsp", "doom_loop", "question",
)  # fmt: skip
_OPENCODE: Final = json.dumps({**dict.fromkeys(_OPENCODE_TOOLS, "ask"), "task": "deny"})
"""Each tool by its name, because a rule of the user for one tool is stronger than a rule for all. Subagents are off,
because their questions are not passed on, and they would wait forever."""
_NO_REGISTRY: Final = "http://127.0.0.1:9"
"""OpenCode installs the package for its plugins at each start. Nothing listens here, so it does not."""
_CODEX_OFF: Final = ("plugins", "apps", "remote_plugin")
"""They look for news on the network when Codex starts, before it gets the settings of a session."""
_NO_STATISTICS: Final = "--import=data:text/javascript," + quote(
    "globalThis.fetch=(fetch=>(to,...more)=>String(to?.url??to).startsWith('https://play.googleapis.com/log')"
    "?Promise.resolve(new Response('')):fetch(to,...more))(globalThis.fetch);"
    "if(process.env.GEMINI_CLI_NO_RELAUNCH)delete process.env.NODE_OPTIONS"
)
"""Gemini has a switch for its statistics only in the user's own settings. So Node.js loads this first: It answers their
requests itself. The second process of Gemini, which starts other programs, forgets the variable."""
AGENTS: Final[tuple[AgentSettings, ...]] = (
    AgentSettings(
        name="claude",
        title="Claude Code",
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        mode="default",
        environment={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        session_meta=_CLAUDE,
        asks=("file changes", "shell commands", "web requests", "MCP tools", "reads outside the folder"),
        never_asks=("reads in the folder",),
        hosts="the host of its model",
        verified="claude-agent-acp 0.101.0 on 2026-11-27",
    ),
    AgentSettings(
        name="codex",
        title="Codex",
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        login="codex-acp login",
        mode="read-only",
        environment={
            "INITIAL_AGENT_MODE": "read-only",
            "CODEX_CONFIG": json.dumps({"features": dict.fromkeys(_CODEX_OFF, False)}),
        },
        inner=InnerProgram(
            "@openai/codex/bin/codex.js",
            "CODEX_PATH",
            " ".join(f"-c features.{one}=false" for one in _CODEX_OFF),
        ),
        asks=("file changes", "commands that leave its sandbox", "MCP tools that write"),
        never_asks=("commands inside its read-only sandbox", "reads", "MCP tools that only read"),
        project_file=".codex/config.toml",
        hosts="the host of its model, and with another command line chatgpt.com and github.com at its start",
        verified="codex-acp 2.6.0 on 2026-11-27",
    ),
    AgentSettings(
        name="gemini",
        title="Gemini CLI",
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        login="gemini",
        mode="default",
        environment={"GEMINI_CLI_TRUST_WORKSPACE": "false", "NODE_OPTIONS": _NO_STATISTICS},
        authenticates_with={"GEMINI_API_KEY": "gemini-api-key"},
        kernel_environment={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        kernel_options=(f"--allowed-mcp-server-names={_SERVER}",),
        no_kernel_with=(".gemini", ".agents"),
        no_kernel_below=(".env", ".gemini/.env"),
        server_option="proceed_always_server",
        title_is_command=True,
        asks=("file changes", "shell commands", "MCP tools"),
        never_asks=("reads in the folder",),
        hosts="the host of its model",
        verified="gemini-cli 0.61.0 on 2026-11-28",
    ),
    AgentSettings(
        name="opencode",
        title="OpenCode",
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        login="opencode auth login",
        environment={
            "OPENCODE_PERMISSION": _OPENCODE,
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "npm_config_@opencode-ai:registry": _NO_REGISTRY,
        },
        title_is_tool=True,
        asks=("file changes", "shell commands", "reads", "MCP tools, without their arguments"),
        hosts="the host of its model",
        verified="opencode-ai 1.18.33 on 2026-11-27",
    ),
    AgentSettings(
        name="goose",
        title="Goose",
        command=("goose", "acp"),
        install="see https://block.github.io/goose",
        login="goose configure",
        environment={"GOOSE_MODE": "approve"},
        hosts="unknown",
        is_known=False,
    ),
)
"""The known agents."""


def command_of(line: str) -> tuple[str, ...]:
    """Return the words of a command line."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise OutsideAgentError(f"The command line of the agent is invalid: {error}.") from None


def settings_of(agent: str) -> AgentSettings:
    """Return the settings of a known agent, or of a command line.

    Raises:
        OutsideAgentError: the text is neither.
    """
    known = next((one for one in AGENTS if one.name == agent), None)
    if known is not None:
        return known
    command = command_of(agent)
    names = ", ".join(one.name for one in AGENTS)
    if not command:
        raise OutsideAgentError(f"The agent has no name. Known agents: {names}. Or give a command line.")
    if len(command) == 1 and "/" not in agent:
        raise OutsideAgentError(
            f"Unknown agent {one_line(agent, _NAME)!r}. Known agents: {names}. Or give a command line with a path."
        )
    name = one_line(command[0].rpartition("/")[2], _NAME) or "agent"
    return AgentSettings(name=name, title=name, command=command, is_known=False, hosts="unknown")
