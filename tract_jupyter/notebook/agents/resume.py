"""Resume an unfinished call of an agent, and show it like a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.agents import CallState
from tract_jupyter.exceptions import AgentError, OperationError
from tract_jupyter.models import TurnOutcome
from tract_jupyter.notebook.chat.board import TurnBoard, check_ended, display_for, ended, gathering
from tract_jupyter.notebook.chat.source import agent_log, new_agent_log

if TYPE_CHECKING:
    from tract_jupyter.agents import AgentCall, Agents
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.session import NotebookSession


async def resume(notebook: NotebookSession, name: str, number: int | None) -> None:
    """Resume a call, and show it.

    Args:
        notebook: the state of this kernel.
        name: the name of the agent.
        number: the number of the call; None for the newest unfinished one.

    Raises:
        OperationError: no call can be resumed.
        Exception: the call has no answer; its display shows the reason.
    """
    tract = notebook.tract
    call = left_call(tract.agents, name, number)
    log = agent_log(tract, call, to_go_on=True) or new_agent_log(tract, call)
    notebook.lend_variables()

    def stop(action: Action = "stop") -> None:
        if action == "stop":
            tract.agents.stop(name)

    board = TurnBoard(log, display_for(notebook, stop, log))

    def work() -> str:
        try:
            with gathering(notebook, board), notebook.agent_watch.shown_on(board, (name, call.number)):
                return str(tract.agents.resume(name, call.number))
        except AgentError:
            if not board.is_up or not log.has_ended:
                raise
            return ""  # the display tells how it ended
        finally:
            if board.is_up:
                board.close()

    await ended(notebook, work, board, stop, "call")
    stored = [other for other in tract.agents.calls_of(name) if other.number == call.number]
    if stored and stored[-1].state is CallState.WAITING:
        check_ended(TurnOutcome.WAITING)


def left_call(agents: Agents, name: str, number: int | None) -> AgentCall:
    """Return the call of an agent to resume.

    Raises:
        OperationError: no call can be resumed.
    """
    calls = agents.calls_of(name)
    matches = [call for call in calls if number in (None, call.number)]
    unfinished = [call for call in matches if call.state.is_open]
    if unfinished:
        return unfinished[-1]
    if not calls:
        raise OperationError(f"no agent {name!r} was called. %tract agents lists the agents")
    if not matches:
        raise OperationError(
            f"{name!r} has no call {number}; it has {', '.join(str(call.number) for call in calls)}"
        )
    raise OperationError(f"{name!r} has no unfinished call. %tract agents show {name} shows its last call")
