"""The options of all magics. Each is declared only here.

Parsing, `%%magic?` and completion use these classes; see `magic_line`.
"""

from __future__ import annotations

import os
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models import AutonomyLevel
from tract_jupyter.notebook.magic_line import MagicOptions, argument, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tract_jupyter.agents import Agents
    from tract_jupyter.analysis import SandboxMode
    from tract_jupyter.notebook.magic_line import Words
    from tract_jupyter.notebook.session import NotebookSession

CHAT_PROFILES: Final = ("self", "supervisor", "agents", "full")
"""The tool profiles of a chat. The first one is the default."""
ORCHESTRATOR_PROFILES: Final = ("self", "supervisor", "full", "code")
"""The tool profiles of an orchestrator's run."""
BUDGET_LIMITS: Final = ("steps", "calls", "tokens", "usd", "seconds")
"""The limits of an agent's budget."""


# --- values


def _reading(
    what: str, kind: type[int | float] = int, least: float = -inf, most: float = inf
) -> Callable[[str], float]:
    """Return a function that reads a number; `what` describes a valid one."""

    def read(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            raise ValueError(what) from None
        if least <= number <= most:
            return number
        raise ValueError(what)

    return read


def _read_unquoted(text: str) -> str:
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    return text[1:-1].strip() if is_quoted else text


def _read_mode(text: str) -> SandboxMode:
    from tract_jupyter.analysis import SandboxMode

    return SandboxMode(text)


def _list_modes() -> Iterable[str]:
    from tract_jupyter.analysis import SandboxMode

    return [mode.value for mode in SandboxMode]


def _tool_profile(name: str, profiles: tuple[str, ...]) -> Any:
    def read(text: str) -> str:
        if text not in profiles:
            raise OperationError(
                f"no tool profile {text[:40]!r}.{nearest(text, profiles)} The profiles are {', '.join(profiles)}"
            )
        return text

    help_text = f"The tools of the model: {', '.join(profiles[:-1])} or {profiles[-1]}{name}."
    return option("--profile", help_text, "PROFILE", read=read, choices=lambda: profiles)


def _out(value: str, more: str = "") -> Any:
    return option("--out", f"Put {value} into this variable{more}.", "NAME", default="")


_read_tries = _reading("a number from 1 to 20", least=1, most=20)  # as `operations.writing.MOST`


# --- words that complete values


_MOST_PATHS = 1_000


def _list_run_profiles(notebook: NotebookSession, _typed: str) -> Words:
    from tract_jupyter.notebook.commands.profiles import profile_words

    return profile_words(notebook, [])


def _list_models(notebook: NotebookSession, _typed: str) -> Words:
    from tract_jupyter.notebook.commands.models import model_words

    return model_words(notebook, [])


def _list_variables(notebook: NotebookSession, _typed: str) -> Words:
    return [(name, "variable") for name in notebook.shell.user_ns if not name.startswith("_")]


def _list_files(_notebook: NotebookSession, typed: str) -> Words:
    """Return the visible files and folders that begin with a typed path, as `--files` reads it."""
    folder = typed[: typed.rfind("/") + 1]
    try:
        with os.scandir(folder or ".") as entries:
            found = sorted((one.name, one.is_dir()) for one in entries if not one.name.startswith("."))
    except OSError:
        return []
    paths = [(f"{folder}{name}", is_folder) for name, is_folder in found if " " not in name]
    return [(f"{path}/" if is_folder else path, "path") for path, is_folder in paths[:_MOST_PATHS]]


def _list_orchestrator_runs(notebook: NotebookSession, _typed: str) -> Words:
    return [(name, "run") for name in reversed(notebook.tract.orchestrator.runs()[-20:])]


def _list_outside_agents(_notebook: NotebookSession, _typed: str) -> Words:
    from tract_jupyter.outside import AGENTS

    return [(one.name, "agent") for one in AGENTS]


def _list_of_agents(
    names_of: Callable[[Agents], Iterable[str]], kind: str
) -> Callable[[NotebookSession, str], Words]:
    """Return a function that completes the last name of a list with commas."""

    def complete(notebook: NotebookSession, typed: str) -> Words:
        done = typed[: typed.rfind(",") + 1]
        return [(f"{done}{name}", kind) for name in names_of(notebook.tract.agents)]

    return complete


# --- the magics


class OperationOptions(MagicOptions):
    """The options of `%%tract_operation`."""

    magic: ClassVar = "tract_operation"
    done: ClassVar = "defined"

    name: str = argument("The operation's name. A JSON or YAML body may contain it instead.", default="")
    json: bool = option("--json", "Read the body as JSON.")
    yaml: bool = option("--yaml", "Read the body as YAML.")
    activate: bool = option("--activate", "Activate your own code without a review panel.")
    ask: bool = option("--ask", "Ask the user at each firing that no handler decides.")
    sandbox: bool = option("--sandbox", "Run its actions in the sandbox (isolation: sandbox).")
    wait: bool = option("--wait", "Wait in this cell until it is activated or rejected.")

    @property
    def form(self) -> str:
        """The form of the body: `json`, `yaml` or `python`."""
        return "json" if self.json else "yaml" if self.yaml else "python"


class ScriptOptions(MagicOptions):
    """The options of `%%tract_script`."""

    magic: ClassVar = "tract_script"
    waits: ClassVar = True
    done: ClassVar = "run"

    sandbox: bool = option("--sandbox", "Run it in a separate process that has only tools.")
    notebook_id: str | None = option(
        "--notebook", "Keep variables in a script notebook, not in your namespace.", "ID"
    )
    fresh: bool = option("--fresh", "Delete the variables of that script notebook first.")
    rehearse: bool = option(
        "--rehearse", "Show the effects on a copy. Keep them or run the code with a click."
    )
    anew: bool = option("--anew", "Repeat all calls, also completed calls of an incomplete run.")
    timeout: float | None = option(
        "--timeout", "The time limit. Waiting for you does not count.", "SECONDS",
        read=_reading("a number of seconds", float),
    )  # fmt: skip
    calls: int | None = option(
        "--calls", "The maximum number of tool calls.", "N", read=_reading("a whole number")
    )
    out: str = _out("the result (outputs, calls, tokens saved)")


class RunCellOptions(MagicOptions):
    """The options of `%%tract_run`. None means the active profile or the default model."""

    magic: ClassVar = "tract_run"
    waits: ClassVar = True
    done: ClassVar = "sent"

    profile: str | None = option(
        "--profile", "The profile whose operations run; the active one if left out.", "NAME",
        words=_list_run_profiles,
    )  # fmt: skip
    regenerate: bool = option("--regenerate", "Make another reply to the last message; leave the cell empty.")
    model: str | None = option("--model", "The model of the main call.", "NAME", words=_list_models)
    out: str = _out("the response", "; its `run` is the run")


class ProfileOptions(MagicOptions):
    """The options of `%%tract_profile`."""

    magic: ClassVar = "tract_profile"
    done: ClassVar = "saved"

    name: str = argument("The name of the profile. An existing one is replaced.")
    activate: bool = option("--activate", "Use it for runs from now on.")
    check: bool = option("--check", "Only report the problems of the profile; save nothing.")


class AgentOptions(MagicOptions):
    """The options of `%%tract_agent`; None for options that the line omits."""

    magic: ClassVar = "tract_agent"
    done: ClassVar = "defined"

    name: str = argument(
        "The agent's name; left out if the cell has front matter.", default="",
        words=lambda notebook, _typed: [(name, "agent") for name in notebook.tract.agents.names],
    )  # fmt: skip
    tools: str | None = option(
        "--tools", "The tools that it may call, by name.", "A,B",
        words=_list_of_agents(lambda agents: agents.executor.tools(), "tool"),
    )  # fmt: skip
    toolsets: str | None = option(
        "--toolsets", "Sets of tools: self, code, dynamic_agents, or an MCP server.", "A,B",
        words=_list_of_agents(lambda agents: agents.toolsets, "toolset"),
    )  # fmt: skip
    model: str | None = option(
        "--model", "A model of tract.models; the caller's model if left out.", "NAME",
        words=lambda notebook, _typed: [(name, "model") for name in notebook.tract.agents.models],
    )  # fmt: skip
    runtime: str | None = option(
        "--runtime", "An outside agent that does the work, such as claude; a model if left out.", "AGENT",
        words=_list_outside_agents,
    )  # fmt: skip
    description: str | None = option("--description", "Its purpose, for its callers.", "TEXT")
    budget: str | None = option(
        "--budget", "The limits of all its calls together: steps=20,calls=50,tokens=40000,usd=0.5.", "LIMITS",
        words=_list_of_agents(lambda _agents: [f"{name}=" for name in BUDGET_LIMITS], "limit"),
    )  # fmt: skip
    check: bool = option("--check", "Only report the problems of the agent; define nothing.")

    @property
    def given(self) -> list[str]:
        """The options of the line that describe the agent."""
        names = ("tools", "toolsets", "model", "runtime", "description", "budget")
        return [f"--{name}" for name in names if getattr(self, name) is not None]


class ChatOptions(MagicOptions):
    """The options of `%%tract_chat`."""

    magic: ClassVar = "tract_chat"
    waits: ClassVar = True
    done: ClassVar = "sent"

    model: str | None = option(
        "--model", "The model to ask: PROVIDER/NAME, or another model of the same provider.", "NAME",
        words=_list_models,
    )  # fmt: skip
    agent: str | None = option(
        "--agent", "The outside agent that replies: claude, codex, gemini, opencode, goose, or a command line.",
        "NAME", words=_list_outside_agents,
    )  # fmt: skip
    profile: str | None = _tool_profile("; self if left out", CHAT_PROFILES)
    direct: bool = option("--direct", "The model calls tools directly instead of writing scripts.")
    plan: bool = option("--plan", "The model has no tools and only describes a plan.")
    edit: bool = option("--edit", "The answer is edits of cells, which you review as diffs.")
    cells: tuple[str, ...] = option(
        "--cells",
        "Attach cells with their outputs and tracebacks: 3 for the last three, [4] for In [4], [4-6].",
        "N", nargs="+", default=(),
    )  # fmt: skip
    error: bool = option(
        "--error",
        "Attach the last failed cell with its traceback. An empty cell asks for an explanation.",
    )
    variables: tuple[str, ...] = option(
        "--vars", "Attach variables. A table is attached as columns and first rows.",
        "NAME", nargs="+", default=(), words=_list_variables,
    )  # fmt: skip
    schema_only: bool = option(
        "--schema-only", "Hide the values of the variables in --vars in everything that the model receives."
    )
    files: tuple[str, ...] = option(
        "--files", "Attach files of this folder: text, images, PDF.", "PATH", nargs="+", default=(),
        words=_list_files,
    )  # fmt: skip
    send_anyway: bool = option(
        "--send-anyway", "Send texts that may hold a secret, such as a password. A key is never sent."
    )
    retry: bool = option(
        "--retry", "Repeat the last message, or resume an unfinished turn. Leave the cell empty."
    )
    out: str = _out("the response", "; its `text` is the reply")


class ProposeOptions(MagicOptions):
    """The options of `%tract_propose`."""

    magic: ClassVar = "tract_propose"
    waits: ClassVar = True
    text_field: ClassVar = "text"
    done: ClassVar = "sent"

    text: str = argument("The task of the operation, in words.", default="", read=_read_unquoted)
    template: bool = option("--template", "Make a cell to write the operation yourself.")
    model: str | None = option("--model", "The model to ask.", "NAME", words=_list_models)
    tries: int = option(
        "--tries", "The maximum number of tries for each version (3).", "N", default=3, read=_read_tries
    )  # fmt: skip
    versions: int = option(
        "--versions", "The maximum number of versions for your review (3).", "N", default=3, read=_read_tries,
    )  # fmt: skip
    out: str = _out("the result")


class OrchestrateOptions(MagicOptions):
    """The options of `%tract_orchestrate`. None means the orchestrator's setting."""

    magic: ClassVar = "tract_orchestrate"
    waits: ClassVar = True
    text_field: ClassVar = "reason"
    done: ClassVar = "sent"

    reason: str = argument("The reason for the run.", default="", read=_read_unquoted)
    autonomy: AutonomyLevel | None = option(
        "--autonomy", "The highest level of autonomy: manual, collaborative or autonomous.", "LEVEL",
        read=AutonomyLevel, choices=lambda: [level.value for level in AutonomyLevel],
    )  # fmt: skip
    steps: int | None = option(
        "--steps", "The maximum number of calls of the model.", "N",
        read=_reading("a number of calls from 1 to 1,000", least=1, most=1_000),
    )  # fmt: skip
    model: str | None = option("--model", "The model to ask.", "NAME", words=_list_models)
    profile: str | None = _tool_profile("", ORCHESTRATOR_PROFILES)
    resume: str | None = option(
        "--resume", "Resume a run; the last one if left out.", "RUN", nargs="?", words=_list_orchestrator_runs,
    )  # fmt: skip
    out: str = _out("the result")


class CheckOptions(MagicOptions):
    """The options of `%%tract_check`."""

    magic: ClassVar = "tract_check"
    text_field: ClassVar = "code"
    done: ClassVar = "checked"

    code: str = argument("The code.", default="")
    strict: bool = option("--strict", "The same as --mode strict.")
    mode: SandboxMode | None = option(
        "--mode", "Also report if this mode would block the code: disabled, warn, block_critical or strict.", "MODE",
        read=_read_mode, choices=_list_modes,
    )  # fmt: skip

    @property
    def blocking_mode(self) -> SandboxMode | None:
        """The mode to report on."""
        return _read_mode("strict") if self.strict else self.mode


ALL_OPTIONS: Final[dict[str, type[MagicOptions]]] = {
    one.magic: one
    for one in (
        OperationOptions, ScriptOptions, RunCellOptions, ProfileOptions, AgentOptions, ChatOptions, ProposeOptions,
        OrchestrateOptions, CheckOptions,
    )
}  # fmt: skip
"""The options of each magic by its name."""
