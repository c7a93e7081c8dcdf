"""`%tract_orchestrate`: a run in a worker thread, with a live display."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.display import display

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import AutonomyLevel
from tract_jupyter.notebook.chat.board import TurnBoard, check_ended, display_for, ended, gathering
from tract_jupyter.notebook.chat.source import TractSource, replayed_from
from tract_jupyter.notebook.options import OrchestrateOptions
from tract_jupyter.notebook.orchestration.log import (
    OrchestrationLog,
    asked_level,
    conversation,
    run_log,
    run_name,
)
from tract_jupyter.notebook.views.html import GridView
from tract_jupyter.orchestrator import Orchestrator

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.orchestrator import OrchestratorConfig, OrchestratorResult


def resolve_run(options: OrchestrateOptions, *, is_line: bool) -> OrchestrateOptions:
    """Return the options with the name of the run to resume. The user may write it after `--resume`."""
    if options.resume is None:
        return options
    run, reason = options.resume, options.reason
    if is_line and not run and _is_run(reason):
        run, reason = reason, ""
    if reason or options.autonomy is not None:
        raise OperationError(
            "a resumed run keeps its reason and its level. Leave them out, or leave out "
            "--resume to start a new run. Nothing was sent"
        )
    return OrchestrateOptions(**{**vars(options), "reason": "", "resume": run_name(run)})


def _is_run(word: str) -> bool:
    return word.isdecimal() or word.removeprefix("run-").isdecimal()


async def run_cell(notebook: NotebookSession, options: OrchestrateOptions) -> None:
    """Let the orchestrator look after the context, and show the run."""
    orchestrator = _orchestrator(notebook, options)
    log = _new_log(notebook, orchestrator, options)
    notebook.lend_variables()
    acts = _Actions(orchestrator)
    board = TurnBoard(log, display_for(notebook, acts, log))

    def work() -> OrchestratorResult:
        try:
            with gathering(notebook, board):
                return _carry_out(orchestrator, options, acts.following(board))
        except Exception as error:
            log.fail(str(error)) if board.is_up else None
            raise
        finally:
            board.close() if board.is_up else None

    result = await ended(notebook, work, board, acts.stop, "run")
    if not board.is_up:
        _show_unasked(notebook, orchestrator, board, result)
    if options.out:
        notebook.shell.user_ns[options.out] = result
    check_ended(result.outcome)


def _carry_out(
    orchestrator: Orchestrator, options: OrchestrateOptions, take: Callable[[TurnEvent], None]
) -> OrchestratorResult:
    if options.resume is not None:
        return orchestrator.resume(options.resume or None, on_turn=take)
    return orchestrator.run(options.reason, options.autonomy, on_turn=take)


def _show_unasked(
    notebook: NotebookSession, orchestrator: Orchestrator, board: TurnBoard, result: OrchestratorResult
) -> None:
    if not result.run:
        display(GridView("Orchestrator", (f"{result.note[:1].upper()}{result.note[1:]}.",)))
        return
    with conversation(orchestrator, result.run) as (conversation_tract, turn):
        if turn is not None:
            board.log = run_log(notebook.tract, conversation_tract, turn)
            board.close()


def _orchestrator(notebook: NotebookSession, options: OrchestrateOptions) -> Orchestrator:
    """Return the orchestrator of the context, or one with the settings of the options."""
    tract = notebook.tract
    orchestrator: Orchestrator = tract.orchestrator
    settings = {
        "max_steps": options.steps, "model": options.model, "profile": options.profile,
        "autonomy_ceiling": options.autonomy,
    }  # fmt: skip
    changed: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if not changed:
        return orchestrator
    config: OrchestratorConfig = replace(orchestrator.config, **changed)
    return Orchestrator(
        tract, config, orchestrator.llm_callable, assess=orchestrator.assess, act=orchestrator.act
    )


def _new_log(
    notebook: NotebookSession, orchestrator: Orchestrator, options: OrchestrateOptions
) -> OrchestrationLog:
    tract = notebook.tract
    level = AutonomyLevel.AUTONOMOUS if options.autonomy is None else options.autonomy
    run = None
    if options.resume is not None:
        with conversation(orchestrator, options.resume or None) as (conversation_tract, turn):
            level = asked_level(conversation_tract)
            run = None if turn is None else run_log(tract, conversation_tract, turn, to_go_on=True)
    is_new = run is None
    if run is None:
        run = OrchestrationLog(
            source=TractSource(tract), tract=tract, reason=options.reason, head=tract.head,
            branch=tract.current_branch or "",
        )  # fmt: skip
        run.set(
            model=options.model or "", replayed=replayed_from(tract), tokens_before=tract.status().token_count
        )
    run.named_tract = notebook.config.tract_name
    run.now = lambda: tract.autonomy.effective(orchestrator.config.autonomy_ceiling, level)
    if is_new:
        run.level = run.now()
    return run


class _Actions:
    """The button in the last line: it stops the run, even before the run has started."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._is_stopped = False

    def __call__(self, action: Action) -> None:
        """Carry out a click."""
        if action == "stop":
            self.stop()

    def stop(self) -> None:
        """Stop the run."""
        self._is_stopped = True
        self._orchestrator.stop()

    def following(self, board: TurnBoard) -> Callable[[TurnEvent], None]:
        """Return the observer of the run. It shows events, and applies a stop that came too early."""

        def take(event: TurnEvent) -> None:
            board.take(event)
            if self._is_stopped:
                self._orchestrator.stop()

        return take
