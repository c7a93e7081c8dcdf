"""`%tract_orchestrate`: a run in a worker thread, on display while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from IPython.display import display

from tract_jupyter.exceptions import OperationError, nearest
from tract_jupyter.models import AutonomyLevel
from tract_jupyter.notebook.chat.board import TurnBoard, check_ended, display_for, ended, gathering
from tract_jupyter.notebook.chat.source import TractSource, replayed_from
from tract_jupyter.notebook.magic_line import leading_options, out_name
from tract_jupyter.notebook.orchestration.log import OrchestrationLog
from tract_jupyter.notebook.orchestration.source import asked_level, conversation, run_log, run_name
from tract_jupyter.notebook.views.html import GridView
from tract_jupyter.orchestrator import Orchestrator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.orchestrator import OrchestratorConfig, OrchestratorResult

NAME: Final = "tract_orchestrate"
PROFILES: Final = ("self", "supervisor", "full", "code")
"""The tool profiles that an option can name."""
OPTIONS: Final = {
    "--autonomy": "value",
    "--steps": "value",
    "--model": "value",
    "--profile": "value",
    "--resume": "may have one",
    "--out": "value",
}
"""The options, and whether each takes a value."""
_MOST_STEPS: Final = 1_000


@dataclass(frozen=True)
class OrchestrateOptions:
    """What the line and the cell say.

    Attributes:
        reason: why the context is looked after.
        autonomy: the level; None for the highest that the ceilings allow.
        steps: how many calls at most; None as the settings say.
        model: who is asked; None as the settings say.
        profile: which tools there are; None as the settings say.
        is_resumed: it goes on with a run.
        run: with which; None for the newest.
        out: the name of a variable for the result.
    """

    reason: str = ""
    autonomy: AutonomyLevel | None = None
    steps: int | None = None
    model: str | None = None
    profile: str | None = None
    is_resumed: bool = False
    run: str | None = None
    out: str = ""


def parse_orchestrate(line: str, cell: str | None, taken: Collection[str]) -> OrchestrateOptions:
    """Read the options in front, and the reason behind them or in the cell.

    Args:
        line: as it was typed.
        cell: what stands below it; None if it is a line alone.
        taken: names that `--out` cannot have.

    Raises:
        OperationError: there is no such option, a value is wrong, or they do not go together. Nothing was sent.
        ContentError: there is no such level.
    """
    sign = "%" if cell is None else "%%"
    given, rest = leading_options(f"{sign}{NAME}", line, OPTIONS, "sent")
    if cell is not None and rest:
        raise _refusal(f"%%{NAME} takes only options in its line; put the reason below it, not {rest[:40]!r}")
    reason = (rest if cell is None else cell).strip()
    if len(reason) > 1 and reason[0] in "\"'" and reason[-1] == reason[0]:
        reason = reason[1:-1].strip()
    run = given.get("--resume")
    if run is not None and reason and cell is None and not run and _is_run(reason):
        run, reason = reason, ""
    if run is not None and (reason or "--autonomy" in given):
        raise _refusal(
            "--resume goes on with a run for the reason and at the level that it had; leave them out, or leave out "
            "--resume to begin another one"
        )
    steps = given.get("--steps")
    if steps is not None and not (steps.isdecimal() and 1 <= int(steps) <= _MOST_STEPS):
        raise _refusal(f"--steps takes a number of calls from 1 to {_MOST_STEPS:,}, not {steps[:40]!r}")
    profile = given.get("--profile")
    if profile is not None and profile not in PROFILES:
        raise _refusal(
            f"there is no tool profile {profile[:40]!r}.{nearest(profile, PROFILES)} There are {', '.join(PROFILES)}"
        )
    level = given.get("--autonomy")
    return OrchestrateOptions(
        reason, None if level is None else AutonomyLevel(level), None if steps is None else int(steps),
        given.get("--model"), profile, run is not None, run_name(run) or None,
        out_name(given.get("--out", ""), taken, "sent"),
    )  # fmt: skip


def _is_run(word: str) -> bool:
    return word.isdecimal() or word.removeprefix("run-").isdecimal()


def _refusal(why: str) -> OperationError:
    return OperationError(f"{why}. Nothing was sent")


async def run_cell(notebook: NotebookSession, options: OrchestrateOptions) -> None:
    """Have the context looked after, and show the run.

    Raises:
        OrchestratorError: no model is configured, it runs already, or there is no such run.
        TractError: nothing was sent.
        Exception: the run failed, or waits for decisions; its display shows why.
    """
    orchestrator = _orchestrator(notebook, options)
    log = _begun(notebook, orchestrator, options)
    notebook.lend_variables()
    acts = _Acts(orchestrator)
    board = TurnBoard(log, display_for(notebook, acts, log))

    def work() -> OrchestratorResult:
        try:
            with gathering(notebook, board):
                return _carried_out(orchestrator, options, acts.following(board))
        except Exception as error:
            log.fail(str(error)) if board.is_up else None
            raise
        finally:
            board.close() if board.is_up else None

    result = await ended(notebook, work, board, acts, "run")
    if not board.is_up:
        _show_unasked(notebook, orchestrator, board, result)
    if options.out:
        notebook.shell.user_ns[options.out] = result
    check_ended(result.outcome)


def _carried_out(
    orchestrator: Orchestrator, options: OrchestrateOptions, take: Callable[[TurnEvent], None]
) -> OrchestratorResult:
    if options.is_resumed:
        return orchestrator.resume(options.run, on_turn=take)
    return orchestrator.run(options.reason, options.autonomy, on_turn=take)


def _show_unasked(
    notebook: NotebookSession, orchestrator: Orchestrator, board: TurnBoard, result: OrchestratorResult
) -> None:
    """Show a run for which no model was asked: the context is empty, or it came to its end before."""
    if not result.run:
        display(GridView("Orchestrator", (f"{result.note[:1].upper()}{result.note[1:]}.",)))
        return
    with conversation(orchestrator, result.run) as (own, turn):
        if turn is not None:
            board.log = run_log(notebook.tract, own, turn)
            board.close()


def _orchestrator(notebook: NotebookSession, options: OrchestrateOptions) -> Orchestrator:
    """Return the orchestrator of the context; one that works in another way where options say so."""
    tract = notebook.tract
    own: Orchestrator = tract.orchestrator
    given = {
        "max_steps": options.steps, "model": options.model, "profile": options.profile,
        "autonomy_ceiling": options.autonomy,
    }  # fmt: skip
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not changed:
        return own
    config: OrchestratorConfig = replace(own.config, **changed)
    return Orchestrator(tract, config, own.llm_callable, assess=own.assess, act=own.act)


def _begun(
    notebook: NotebookSession, orchestrator: Orchestrator, options: OrchestrateOptions
) -> OrchestrationLog:
    """Return what is known of a run before its first event."""
    tract = notebook.tract
    asked = AutonomyLevel.AUTONOMOUS if options.autonomy is None else options.autonomy
    log = None
    if options.is_resumed:
        with conversation(orchestrator, options.run) as (own, turn):
            asked = asked_level(own)
            log = None if turn is None else run_log(tract, own, turn, to_go_on=True)
    is_new = log is None
    log = log or OrchestrationLog(
        TractSource(tract), model=options.model or "", replayed=replayed_from(tract), tract=tract,
        reason=options.reason, tokens_before=tract.status().token_count, head=tract.head,
        branch=tract.current_branch or "",
    )  # fmt: skip
    log.named_tract = notebook.config.tract_name
    log.now = lambda: tract.autonomy.effective(orchestrator.config.autonomy_ceiling, asked)
    if is_new:
        log.level = log.now()
    return log


class _Acts:
    """What the button of the foot does: stop the run, also one that is about to begin."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._is_stopped = False

    def __call__(self, action: Action) -> None:
        """Carry out what the button says."""
        if action == "stop":
            self.set()

    def set(self) -> None:
        """Stop the run."""
        self._is_stopped = True
        self._orchestrator.stop()

    def following(self, board: TurnBoard) -> Callable[[TurnEvent], None]:
        """Return what takes the events: it shows them, and stops what was to be stopped before it could be."""

        def take(event: TurnEvent) -> None:
            board.take(event)
            if self._is_stopped:
                self._orchestrator.stop()

        return take
