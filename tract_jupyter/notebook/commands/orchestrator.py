"""The command of `%tract` about the runs of the orchestrator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import one_line
from tract_jupyter.notebook.commands.command import Command
from tract_jupyter.notebook.views.html import Grid, GridView, ago

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.tract import Tract

_USAGE = "orchestrator [show [RUN]]"
_MOST = 20
_SAID = 60


def _orchestrator(notebook: NotebookSession, words: list[str]) -> Any:
    what, *rest = words or [""]
    if what == "show" and len(rest) <= 1:
        from tract_jupyter.notebook.orchestration.source import stored_run

        return stored_run(notebook.tract, *rest)
    if words:
        raise OperationError(f"usage: %tract {_USAGE}; got orchestrator {' '.join(words)}")
    return _runs(notebook.tract)


def _runs(tract: Tract) -> GridView:
    orchestrator = tract.orchestrator
    config, names = orchestrator.config, orchestrator.runs()
    level = tract.autonomy.effective(config.autonomy_ceiling)
    settings = f"Highest level {level}, at most {config.max_steps:,} calls per run."
    if not names:
        return GridView("Orchestrator", (settings, "No runs yet: %tract_orchestrate begins one."))
    now = datetime.now(UTC)
    rows = tuple(_row(tract, name, now) for name in reversed(names[-_MOST:]))
    more = f" The newest {_MOST} of {len(names):,}." if len(names) > _MOST else ""
    heads = ("Run", "When", "Why", "Level", "Calls", "Outcome", "Model")
    grid = Grid(heads, rows, code=frozenset({"Run"}), right=frozenset({"Calls"}))
    return GridView(
        "Orchestrator", (settings, f"%tract orchestrator show RUN draws one again.{more}"), (grid,)
    )


def _row(tract: Tract, name: str, now: datetime) -> tuple[str, ...]:
    from tract_jupyter.notebook.orchestration.parts import StepPart
    from tract_jupyter.notebook.orchestration.source import conversation, run_log

    with conversation(tract.orchestrator, name) as (conversation_tract, turn):
        if turn is None:
            return (name, "", "", "", "", "ended before a request to its model", "")
        log = run_log(tract, conversation_tract, turn)
        view = log.view()
        calls = sum(isinstance(part, StepPart) for part in view.parts)
        return (
            name,
            ago(turn.at, now).replace(" ", "\N{NO-BREAK SPACE}"),
            one_line(log.reason, _SAID),
            log.level.value,
            f"{calls:,}" if calls else "",
            view.summary,
            one_line(view.model, 40),
        )


def _words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    if not typed:
        return [("show", "command")]
    if typed == ["show"]:
        return [(name, "run") for name in reversed(notebook.tract.orchestrator.runs()[-_MOST:])]
    return []


COMMANDS = (
    Command(
        _USAGE,
        "list the runs of the orchestrator, or draw one again",
        _orchestrator,
        (_words,),
    ),
)
