"""The command of `%tract` about agents of other programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import brief_repr
from tract_jupyter.notebook.commands.command import Command
from tract_jupyter.notebook.views.html import GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession

_USAGE: Final = "agent [use NAME [--command LINE] [--env VARIABLE ...] | stop]"


def _agent(notebook: NotebookSession, words: list[str]) -> GridView:
    match words:
        case []:
            return _state(notebook)
        case ["use", name, "--command", line, *rest] if _is_env(rest):
            return _use(notebook, name, _names(rest), line)
        case ["use", name, *rest] if _is_env(rest):
            return _use(notebook, name, _names(rest))
        case ["stop"]:
            notebook.outside_agent = ""
            names = notebook.tract.outside.stop()
            ended = f"Ended: {', '.join(names)}." if names else "No outside agent was running."
            return GridView("Outside agents", (f"{ended} %%tract_chat sends messages to the model.",))
        case _:
            raise OperationError(f"usage: %tract {_USAGE}; got agent {brief_repr(' '.join(words))}")


def _is_env(words: list[str]) -> bool:
    return not words or (words[0] == "--env" and len(words) > 1)


def _names(words: list[str]) -> list[str]:
    """Return the variables of `--env A B` or of `--env A --env B`."""
    return [word for word in words if word != "--env"]


def _use(notebook: NotebookSession, name: str, env: list[str], command: str = "") -> GridView:
    settings = notebook.tract.outside.use(name, env=env, command=command)
    notebook.outside_agent = name
    text = f"%%tract_chat sends messages to {settings.title} until %tract agent stop."
    unset = [
        f"{one} is not set in this kernel, so the agent does not get it."
        for one in env
        if one not in os.environ
    ]
    return GridView(
        settings.title, tuple(filter(None, (text, settings.why_no_program, *unset, settings.about)))
    )


def _state(notebook: NotebookSession) -> GridView:
    from tract_jupyter.outside import AGENTS

    name = notebook.outside_agent
    lines = [f"%%tract_chat sends messages to {name or 'the model'}."]
    lines += [f"{one.name}: {one.title}. {one.about}" for one in AGENTS]
    return GridView("Outside agents", tuple(lines))


def _words(_: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    from tract_jupyter.outside import AGENTS

    if not typed:
        return [(word, "option") for word in ("use", "stop")]
    return [(one.name, "agent") for one in AGENTS] if typed == ["use"] else []


COMMANDS = (Command(_USAGE, "let Claude Code, Codex or another agent work on messages", _agent, (_words,)),)
