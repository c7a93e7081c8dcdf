"""The command of `%tract` that sets how much happens without the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import AutonomyLevel
from tract_jupyter.notebook.commands.command import Command, arguments
from tract_jupyter.notebook.views.html import GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession

_USAGE = "autonomy [LEVEL] [--destructive | --no-destructive]"
_MEANS = {
    AutonomyLevel.MANUAL: "policies and orchestrators report their proposals and change nothing",
    AutonomyLevel.COLLABORATIVE: "policies and orchestrators ask you before each change; they may read",
    AutonomyLevel.AUTONOMOUS: "policies and orchestrators act without asking you",
}
_ASKED = "; destructive actions still need your approval"
_DESTRUCTIVE = ", including destructive actions"


def _autonomy(notebook: NotebookSession, words: list[str]) -> GridView:
    autonomy = notebook.tract.autonomy
    options = [word for word in words if word.startswith("--")]
    levels = arguments(_USAGE, [word for word in words if not word.startswith("--")], 0, 1)
    if len(options) > 1:
        raise OperationError(f"usage: %tract {_USAGE}; got both options")
    wanted = [AutonomyLevel(level) for level in levels]  # report errors before changing a setting
    for option in options:
        autonomy.allows_destructive = option == "--destructive"
    for level in wanted:
        autonomy.ceiling = level
    ceiling = autonomy.ceiling
    more = ""
    if ceiling is AutonomyLevel.AUTONOMOUS:
        more = _DESTRUCTIVE if autonomy.allows_destructive else _ASKED
    lines = [f"{_MEANS[ceiling].capitalize()}{more}."]
    limit = notebook.tract.orchestrator.config.autonomy_ceiling
    if limit.rank < ceiling.rank:
        lines.append(
            f"The settings of the orchestrator limit it to the level {limit}. To raise it: tract.orchestrator.config = "
            f"OrchestratorConfig(autonomy_ceiling={ceiling.value!r}), or --autonomy for one run."
        )
    return GridView(f"Autonomy: {ceiling}", tuple(lines))


def _levels(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:  # noqa: ARG001 # the same everywhere
    return [] if typed else [(level.value, "level") for level in AutonomyLevel]


COMMANDS = (
    Command(
        _USAGE, "show or set what policies and orchestrators may do without you", _autonomy,
        (_levels, "--destructive", "--no-destructive"),
    ),
)  # fmt: skip
