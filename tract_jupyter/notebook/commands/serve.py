"""The command `%tract serve`: let agents of other programs use this kernel, with your approval."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, arguments
from tract_jupyter.notebook.views.html import Grid, GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.serving import PublishedEndpoint
    from tract_jupyter.notebook.session import NotebookSession

_USAGE: Final = "serve [off]"
_OFF: Final = "off"
_FOLDERS: Final = ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME")
"""The variables that choose Jupyter's folder of running kernels."""
_NAME: Final = "notebook"
_PROGRAM: Final = "tract-jupyter"
_WHOLE: Final = 10_000  # characters of a command
_TITLE: Final = "This kernel serves agents on this machine"
_BELOW: Final = "Requests appear below, and in %tract inbox. Code runs only after you approved it."


def _serve(notebook: NotebookSession, words: list[str]) -> GridView:
    if arguments(_USAGE, words, 0, 1) == [_OFF]:
        return _stop(notebook)
    if words:
        raise OperationError(
            f"%tract serve takes {_OFF!r} or nothing, not {words[0]!r}. Usage: %tract {_USAGE}"
        )
    return _view(notebook, _started(notebook))


def _stop(notebook: NotebookSession) -> GridView:
    if notebook.served is None:
        return GridView("This kernel does not serve agents")
    notebook.served.stop()
    notebook.served = None
    return GridView("This kernel no longer serves agents", ("Open requests stay in %tract inbox.",))


def _started(notebook: NotebookSession) -> PublishedEndpoint:
    from tract_jupyter.notebook.serving import PublishedEndpoint

    if notebook.served is not None and notebook.served.is_running:
        notebook.served.move_here()
        return notebook.served
    served = PublishedEndpoint(notebook)
    served.start()
    notebook.served = served
    return served


def _view(notebook: NotebookSession, served: PublishedEndpoint) -> GridView:
    words = [
        *_variables(served),
        *_proxy_program(),
        *([] if notebook.path is None else [str(notebook.path.resolve())]),
    ]
    command = shlex.join(words)
    opencode = {"mcp": {_NAME: {"type": "local", "command": words, "enabled": True}}}
    commands = (
        ("Claude Code", f"claude mcp add {_NAME} -- {command}"),
        ("Codex", f"codex mcp add {_NAME} -- {command}"),
        ("Gemini CLI", f"gemini mcp add --scope user {_NAME} {command}"),
        ("OpenCode, in ~/.config/opencode/opencode.json", json.dumps(opencode)),
        ("Any client, over HTTP", f"{served.url}, with the token in {served.file}"),
    )
    typed = "Type in a terminal"
    grid = Grid(("Agent", typed), commands, code=frozenset({typed}), width=_WHOLE)
    return GridView(_TITLE, (_BELOW,), (grid,))


def _variables(served: PublishedEndpoint) -> list[str]:
    """Return the words that name the folder of the kernel's file. Codex passes no variables of Jupyter on."""
    is_named = os.name == "posix" and any(os.environ.get(name) for name in _FOLDERS)
    return (
        ["env", f"JUPYTER_RUNTIME_DIR={served.file.parent}"] if is_named and served.file is not None else []
    )


def _proxy_program() -> list[str]:
    """Return the command of the proxy, in the environment of this kernel."""
    script = Path(sys.executable).with_name(_PROGRAM)
    start = [str(script)] if script.is_file() else [sys.executable, "-m", "tract_jupyter"]
    return [*start, "kernel-proxy"]


COMMANDS = (
    Command(
        _USAGE,
        "let agents of other programs on this machine use this kernel, with your approval; off ends it",
        _serve,
        (_OFF,),
    ),
)
