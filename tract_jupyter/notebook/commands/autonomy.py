"""The command of `%tract` that says how much happens without a person."""

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
    AutonomyLevel.MANUAL: "what policies and orchestrators would change is told, and not done",
    AutonomyLevel.COLLABORATIVE: "policies and orchestrators ask you before they change anything; they may read",
    AutonomyLevel.AUTONOMOUS: "policies and orchestrators do what they want",
}
_ASKED = "; you are still asked about what may destroy something"
_DESTRUCTIVE = ", also what may destroy something"


def _autonomy(notebook: NotebookSession, words: list[str]) -> GridView:
    autonomy = notebook.tract.autonomy
    options = [word for word in words if word.startswith("--")]
    levels = arguments(_USAGE, [word for word in words if not word.startswith("--")], 0, 1)
    if len(options) > 1:
        raise OperationError(f"usage: %tract {_USAGE}; got both options")
    wanted = [AutonomyLevel(level) for level in levels]  # what is wrong is told before anything is set
    for option in options:
        autonomy.allows_destructive = option == "--destructive"
    for level in wanted:
        autonomy.ceiling = level
    ceiling = autonomy.ceiling
    more = ""
    if ceiling is AutonomyLevel.AUTONOMOUS:
        more = _DESTRUCTIVE if autonomy.allows_destructive else _ASKED
    lines = [f"{_MEANS[ceiling].capitalize()}{more}."]
    own = notebook.tract.orchestrator.config.autonomy_ceiling
    if own.rank < ceiling.rank:
        lines.append(
            f"An orchestrator still acts at most at the level {own}, as its settings say: tract.orchestrator.config = "
            f"OrchestratorConfig(autonomy_ceiling={ceiling.value!r}) lets it go as far, --autonomy in one run."
        )
    return GridView(f"Autonomy: {ceiling}", tuple(lines))


def _levels(notebook: NotebookSession, given: list[str]) -> list[tuple[str, str]]:  # noqa: ARG001 # the same everywhere
    return [] if given else [(level.value, "level") for level in AutonomyLevel]


COMMANDS = (
    Command(
        _USAGE, "see or set how much policies and orchestrators may do without you", _autonomy,
        (_levels, "--destructive", "--no-destructive"),
    ),
)  # fmt: skip
