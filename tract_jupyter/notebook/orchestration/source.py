"""Runs of an orchestrator in the store."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError, OperationError
from tract_jupyter.loop import TurnEnded
from tract_jupyter.models import AutonomyLevel
from tract_jupyter.notebook.chat.source import TractSource, replayed_from
from tract_jupyter.notebook.orchestration.log import OrchestrationLog
from tract_jupyter.orchestrator import about_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.loop import PastTurn
    from tract_jupyter.notebook.orchestration.log import DrawnRun
    from tract_jupyter.orchestrator import Orchestrator
    from tract_jupyter.tract import Tract


def run_name(name: str | None) -> str | None:
    """Return the name of a run. Its number is also valid."""
    return f"run-{int(name)}" if name is not None and name.isdecimal() else name


@contextmanager
def conversation(orchestrator: Orchestrator, run: str | None) -> Iterator[tuple[Any, PastTurn | None]]:
    """Open the conversation of a run, and return it with its turn. The turn is None if the run sent no request.

    Raises:
        OrchestratorError: the run does not exist.
    """
    conversation_tract = orchestrator.conversation(run_name(run))
    try:
        turns = conversation_tract.loop.turns()
        yield conversation_tract, turns[-1] if turns else None
    finally:
        conversation_tract.close()


def run_log(
    tract: Tract, conversation_tract: Any, turn: PastTurn, *, to_go_on: bool = False
) -> OrchestrationLog:
    """Return the log of a stored run.

    Args:
        tract: the context.
        conversation_tract: the conversation of the run.
        turn: the turn of that conversation.
        to_go_on: leave out the end of the turn, to resume it.
    """
    about = about_run(conversation_tract) or {}
    tokens, head = about.get("tokens"), about.get("head")
    run = OrchestrationLog(
        source=TractSource(tract), tract=tract, reason=str(about.get("reason") or ""),
        level=_level(about.get("effective") or about.get("autonomy")), head=head if isinstance(head, str) else None,
        branch=str(about.get("branch") or ""),
    )  # fmt: skip
    run.set(replayed=replayed_from(tract), tokens_before=tokens if isinstance(tokens, int) else None)
    for event in conversation_tract.loop.events_of(turn):
        if not (to_go_on and isinstance(event, TurnEnded)):
            run.add(event)
    return run


def asked_level(conversation_tract: Any) -> AutonomyLevel:
    """Return the level that the user or policy requested for a run."""
    return _level((about_run(conversation_tract) or {}).get("autonomy"))


def _level(value: object) -> AutonomyLevel:
    try:
        return AutonomyLevel(str(value))
    except ContentError:  # another author wrote it
        return AutonomyLevel.MANUAL


def stored_run(tract: Tract, run: str | None = None) -> DrawnRun:
    """Return a stored run, the newest if `run` is None.

    Raises:
        OperationError: the run sent no request to a model.
        OrchestratorError: the run does not exist.
    """
    with conversation(tract.orchestrator, run) as (conversation_tract, turn):
        if turn is None:
            raise OperationError(
                f"{conversation_tract.current_branch} ended before a request to its model, so there is no turn to show"
            )
        return run_log(tract, conversation_tract, turn).view()
