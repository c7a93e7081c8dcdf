"""The command `%tract serve`: let agents of other programs use this kernel, with your approval."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, arguments
from tract_jupyter.notebook.views.html import GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.serving import PublishedEndpoint
    from tract_jupyter.notebook.session import NotebookSession

_USAGE: Final = "serve [off]"
_OFF: Final = "off"
_NAME: Final = "notebook"
_PROGRAM: Final = "tract-jupyter"


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
    words = [*_proxy_program(), *([] if notebook.path is None else [str(notebook.path.resolve())])]
    command = shlex.join(words)
    opencode = {"mcp": {_NAME: {"type": "local", "command": words, "enabled": True}}}
    return GridView(
        "This kernel serves agents of this machine",
        (
            "Requests appear below, and in %tract inbox. Nothing runs before you approve it.",
            f"Claude Code: claude mcp add {_NAME} -- {command}",
            f"Codex: codex mcp add {_NAME} -- {command}",
            f"Gemini CLI: gemini mcp add {_NAME} {command}",
            f"OpenCode, in opencode.json: {json.dumps(opencode)}",
            f"Over HTTP: {served.url}, with the token in {served.file}",
        ),
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
