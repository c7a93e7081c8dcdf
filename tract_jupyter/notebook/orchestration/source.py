"""Runs of an orchestrator, as they are in the store."""

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


def run_name(given: str | None) -> str | None:
    """Return the name of a run, which may be given as its number."""
    return f"run-{int(given)}" if given is not None and given.isdecimal() else given


@contextmanager
def conversation(orchestrator: Orchestrator, run: str | None) -> Iterator[tuple[Any, PastTurn | None]]:
    """Open the conversation of a run; gives it with its turn, None if the model was told nothing.

    Raises:
        OrchestratorError: there is no such run.
        StoreError: the store cannot be read.
    """
    own = orchestrator.conversation(run_name(run))
    try:
        turns = own.loop.turns()
        yield own, turns[-1] if turns else None
    finally:
        own.close()


def run_log(tract: Tract, own: Any, turn: PastTurn, *, to_go_on: bool = False) -> OrchestrationLog:
    """Return what the store tells of a run; `to_go_on` without how it ended so far.

    Args:
        tract: the context that it looked after.
        own: its conversation.
        turn: the turn there.
        to_go_on: leave out how it ended.

    Raises:
        StoreError: the store cannot be read.
    """
    about = about_run(own) or {}
    tokens, head = about.get("tokens"), about.get("head")
    run = OrchestrationLog.of(TractSource(tract), tract, replayed=replayed_from(tract))
    run.reason, run.branch = str(about.get("reason") or ""), str(about.get("branch") or "")
    run.level = _level(about.get("effective") or about.get("autonomy"))
    run.tokens_before = tokens if isinstance(tokens, int) else None
    run.head = head if isinstance(head, str) else None
    for event in own.loop.events_of(turn):
        if not (to_go_on and isinstance(event, TurnEnded)):
            run.log.add(event)
    return run


def asked_level(own: Any) -> AutonomyLevel:
    """Return the level at which whoever started a run would have it act."""
    return _level((about_run(own) or {}).get("autonomy"))


def _level(given: object) -> AutonomyLevel:
    try:
        return AutonomyLevel(str(given))
    except ContentError:  # somebody else wrote it
        return AutonomyLevel.MANUAL


def stored_run(tract: Tract, run: str | None = None) -> DrawnRun:
    """Return a run as the store tells it, the newest if left out.

    Raises:
        OperationError: its model was told nothing.
        OrchestratorError: there is no such run.
        StoreError: the store cannot be read.
    """
    with conversation(tract.orchestrator, run) as (own, turn):
        if turn is None:
            raise OperationError(
                f"{own.current_branch} ended before its model was told anything: there is nothing to show"
            )
        return run_log(tract, own, turn).view()
