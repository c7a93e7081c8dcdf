"""The command `%tract doctor`: what works here, and the remedy for each failed check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.notebook.commands.command import Command, arguments, option
from tract_jupyter.notebook.doctor import DoctorView, check_notebook

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession

_USAGE = "doctor [--online]"


def _doctor(notebook: NotebookSession, words: list[str]) -> DoctorView:
    is_online, rest = option(words, "--online")
    arguments(_USAGE, rest, 0, 0)
    return DoctorView(tuple(check_notebook(notebook, is_online=is_online)))


COMMANDS = (
    Command(
        _USAGE,
        "check the kernel, the model, the store and the extras; --online asks the model's server, too",
        _doctor,
        ("--online",),
    ),
)
