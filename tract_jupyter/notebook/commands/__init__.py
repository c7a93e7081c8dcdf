"""The commands of `%tract`, one file for each subject.

`history` shows the context and moves in it, `review` decides requests, `chat` lists turns, and `agents` controls
agents, also of other programs. `serve` lets these use the kernel from elsewhere. `models` chooses language models,
shows costs, records, replays and makes forks. `tools` lists operations and tools. `automatic` controls policies and the
orchestrator, and `runs` and `profiles` show runs. `rules` explains the analysis, `notify` sends messages about
requests, and `doctor` checks this installation. `command` has the shared parts.

To add a command, write a module here with `COMMANDS`, a tuple of `Command`. The command then runs, completes and
appears in `%tract help`. A built-in one also needs its place and its name in `_MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.llm import key_lines
from tract_jupyter.notebook.commands.command import Command, arguments, unquoted_words
from tract_jupyter.notebook.views.html import Grid, GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession

_MODULES: Final = {
    "history": "status log compile diff branch switch merge checkout tag pin skip unpin compress undo redo",
    "chat": "chat",
    "models": "model cost budget cassette fork",
    "runs": "runs run prompt",
    "profiles": "profiles profile",
    "tools": "ops tools mcp",
    "serve": "serve",
    "automatic": "autonomy policies orchestrator",
    "agents": "agents agent",
    "review": "inbox decide grants looking review trust record",
    "notify": "notify",
    "rules": "rules",
    "doctor": "doctor",
}
"""The built-in modules in the order of `%tract help`, with their commands. So a command imports only its own module.

Other modules follow, in alphabetical order.
"""

_DEFAULT = "status"
_OTHER_WORDS: Final = {
    "history": "log", "commits": "log", "turns": "chat", "requests": "inbox", "approvals": "grants",
    "operations": "ops",
}  # fmt: skip
"""Words of the pages for the subject of a command, and the command."""


def all_commands() -> dict[str, Command]:
    """Return each command by its name. This imports every module."""
    commands = [command for name in _module_names() for command in _commands_in(name)]
    return {command.name: command for command in [*commands, _HELP]}


def command_names() -> list[str]:
    """Return the names of all commands, in the order of `%tract help`, without importing the built-in ones."""
    others = [
        command.name for name in _module_names() if name not in _MODULES for command in _commands_in(name)
    ]
    return [*" ".join(_MODULES.values()).split(), *others, _HELP.name]


def find_command(name: str) -> Command | None:
    """Return the command with this name, or None."""
    module = next((module for module, names in _MODULES.items() if name in names.split()), None)
    commands = all_commands().values() if module is None else _commands_in(module)
    return next((command for command in commands if command.name == name), None)


def _commands_in(module: str) -> tuple[Command, ...]:
    commands: tuple[Command, ...] = import_module(f"{__name__}.{module}").COMMANDS
    return commands


def _module_names() -> list[str]:
    known = list(_MODULES)
    names = [module.name for module in iter_modules(__path__) if module.name != "command"]
    return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))


def run_command(notebook: NotebookSession, line: str) -> Any:
    """Run `%tract <line>`."""
    if key_lines(line):
        raise OperationError(
            "the line seems to contain a key, which the notebook would save. Remove it, and revoke it at the provider. "
            "Nothing was done; %tract model NAME --key asks for a key"
        )
    arguments, dashes, program = line.partition(" -- ")
    name = next(iter(arguments.split()), _DEFAULT)
    command = find_command(name)
    if command is None:
        raise _unknown(name)
    notebook.waiting.is_told = notebook.waiting.is_told or command.tells_waiting
    if command.whole_line:
        rest = line.strip().split(maxsplit=1)[1:]
    else:
        rest = unquoted_words(arguments)[1:]
        if dashes:  # spaces in a program's command line may matter
            rest += ["--", program]
        command.check_options(rest)
    return command.run(notebook, rest)


def _help(notebook: NotebookSession, rest: list[str]) -> GridView:
    if rest:
        return _help_on(*arguments("help [COMMAND]", rest, 1, 1))
    rows = tuple((f"%tract {command.usage}", command.summary) for command in all_commands().values())
    magics = {
        ("%%" if kind == "cell" else "%") + name: magic for name, (kind, magic) in _magics(notebook).items()
    }
    more = (
        *((name, _first_line(magic)) for name, magic in magics.items()),
        (f"{notebook.config.tools_name}.<Tab>", "every tool as a function"),
    )
    lines = (
        f"A question mark explains more: {', '.join(f'{name}?' for name in magics)}, %config TractJupyter",
    )
    return GridView("tract_jupyter", lines, (Grid(("Type", "To"), (*rows, *more), code=frozenset({"Type"})),))


def _help_on(name: str) -> GridView:
    command = find_command(name)
    if command is None:
        raise _unknown(name)
    return GridView(f"%tract {command.usage}", (f"{command.summary[:1].upper()}{command.summary[1:]}.",))


def _unknown(name: str) -> OperationError:
    other = _OTHER_WORDS.get(name.lower())
    near = nearest(name, command_names()) if other is None else f" Did you mean {other!r}?"
    return OperationError(f"no command {name!r}.{near} '%tract help' lists the commands")


def _magics(notebook: NotebookSession) -> dict[str, tuple[str, Any]]:
    """Return the other magics by name, each with `line` or `cell` and its function.

    `cell` includes magics that are both.
    """
    registered = notebook.shell.magics_manager.magics
    ours = {
        name: (kind, magic)
        for kind in ("line", "cell")
        for name, magic in registered[kind].items()
        if getattr(getattr(magic, "__self__", None), "__module__", "") == "tract_jupyter.notebook.magics"
    }
    del ours["tract"]
    return dict(sorted(ours.items()))


def _first_line(magic: Any) -> str:
    """Return the first line of a magic's help, without the usage that `magic_arguments` adds."""
    parser = getattr(magic, "parser", None)
    return ((magic.__doc__ if parser is None else parser.description) or "").partition("\n")[0]


def _names(_notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    return [] if typed else [(name, "command") for name in command_names()]


_HELP = Command("help [COMMAND]", "list the commands and magics, or explain one command", _help, (_names,))
