"""Turns of a tract, read from its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, RehearsalError, TractError
from tract_jupyter.loop import TurnEnded
from tract_jupyter.models import AttachedFile, counted
from tract_jupyter.notebook.cells import MOVES
from tract_jupyter.notebook.chat.log import TurnLog
from tract_jupyter.notebook.chat.rows import AskedQuestion
from tract_jupyter.notebook.chat.turn import DrawnTurn
from tract_jupyter.notebook.chat.work import AgentWork, WorkSource, number_in
from tract_jupyter.rehearsal import effects_from_data
from tract_jupyter.review import Decision, asker_words
from tract_jupyter.scripts import RUN_SCRIPT

if TYPE_CHECKING:
    from tract_jupyter.agents import AgentCall
    from tract_jupyter.loop import PastTurn
    from tract_jupyter.models import Attachment
    from tract_jupyter.storage import StoredPending
    from tract_jupyter.tract import Tract


class TractSource:
    """The data of a tract that the events of a turn lack."""

    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._tract.corrected(self._tract.tokenizer.count_text(text))

    def image(self, attachment: Attachment) -> AttachedFile:
        """Return an image of a call's result with its bytes."""
        return AttachedFile(attachment, self._tract.models.read(attachment.sha256))

    def asked(self, pending_id: str) -> AskedQuestion | None:
        """Return a stored request; None if it is missing or cannot be read."""
        ledger = self._tract.review.ledger
        try:
            stored = ledger.get(pending_id)
            decisions = [] if stored is None else ledger.decisions(pending_id)
        except TractError:
            return None
        if stored is None:
            return None
        decision = Decision.of(decisions[-1]) if decisions else None
        reason = "" if not decisions else decisions[-1].reason
        return AskedQuestion(
            pending_id,
            stored.title,
            stored.operation,
            _arguments(stored),
            decision,
            reason,
            asker_words(stored.actor),
            stored.created_at,
            _code_of(stored),
        )

    def work(self, agent: str, text: str) -> WorkSource | None:
        """Return the stored agent's call of a tool result; None if there is none."""
        number = number_in(agent, text)
        if number is None:
            return None
        matches = [call for call in self._tract.agents.calls_of(agent) if call.number == number]
        return StoredWork(self._tract, matches[-1]) if matches else None


class StoredWork:
    """A stored call of an agent, read when it is drawn."""

    def __init__(self, tract: Tract, call: AgentCall) -> None:
        self._tract = tract
        self._call = call
        self._read: AgentWork | None = None

    @property
    def actor(self) -> str:
        """The actor of its tool calls."""
        return self._call.actor

    def now(self) -> AgentWork:
        """Return the state."""
        if self._read is None:
            self._read = AgentWork.of(self._call, agent_turn(self._tract, self._call))
        return self._read


def agent_turn(tract: Tract, call: AgentCall) -> DrawnTurn | None:
    """Return the stored conversation of an agent's call; None if it is empty or deleted."""
    log = agent_log(tract, call)
    return None if log is None else log.view()


def agent_log(tract: Tract, call: AgentCall, *, to_go_on: bool = False) -> TurnLog | None:
    """Return the log of a stored agent's call; None if it is empty or deleted.

    `to_go_on` omits the end, to resume the call.
    """
    try:
        agent_tract = tract.agents.transcript(call.agent, call.number)
    except TractError:
        return None
    try:
        turns = agent_tract.loop.turns()
        if not turns:
            return None
        log = new_agent_log(tract, call)
        for event in agent_tract.loop.events_of(turns[-1]):
            if not (to_go_on and isinstance(event, TurnEnded)):
                log.add(event)
    except TractError:
        return None
    else:
        return log
    finally:
        agent_tract.close()


def new_agent_log(tract: Tract, call: AgentCall) -> TurnLog:
    """Return an empty log for an agent's call."""
    go_on = f"%tract agents resume {call.agent}"
    turn = DrawnTurn(replayed=replayed_from(tract), most_steps=call.limits.steps, go_on=go_on)
    return TurnLog(TractSource(tract), turn, show_again=f"%tract agents show {call.agent}")


def _arguments(stored: StoredPending) -> dict[str, Any]:
    """Return the values of a stored request: the arguments if it is about a call. A sentence replaces the digest."""
    fields: dict[str, Any] = stored.fields
    arguments = fields.get("arguments")
    if stored.operation == "script_call" and isinstance(arguments, dict):
        return arguments
    if stored.operation != RUN_SCRIPT or "effects" not in fields:
        return fields
    rest = {name: value for name, value in fields.items() if name != "effects"}
    try:
        effects = effects_from_data((stored.request or {}).get("effects"))
    except RehearsalError:
        return rest
    return {"effects": effects.headline, **rest}


def _code_of(stored: StoredPending) -> tuple[tuple[str, str, str], ...]:
    """Return the code of a stored request, and the cells that it moves. The store may be another user's."""

    def dicts(value: Any) -> list[dict[str, Any]]:
        return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []

    request = stored.request or {}
    tables = [table for table in dicts(request.get("tables")) if table.get("title") == MOVES]
    moves = [(str(row.get("value")), "", "") for table in tables for row in dicts(table.get("rows"))]
    blocks = [
        (str(one.get("title")), str(one.get("code")), str(one.get("language")))
        for one in dicts(request.get("code"))
        if one.get("binds") != "nothing"  # the place of the call
    ]
    return (*blocks, *moves)


def replayed_from(tract: Tract) -> str:
    """Return the name of the cassette that is replayed; empty if none is."""
    cassette = tract.cassette
    report = cassette.report if cassette.is_replaying else None
    return "" if report is None else report.path.name


def find_turn(tract: Tract, name: str = "") -> PastTurn:
    """Return a turn by its number (1 is the newest) or by a commit on any branch; the newest if empty."""
    turns = tract.loop.turns()
    if not name or (name.isdecimal() and len(name) < 4):  # noqa: PLR2004 # a prefix of a hash is longer
        number = int(name or 1)
        if not turns:
            raise OperationError("there is no turn yet; %%tract_chat begins one")
        if not 1 <= number <= len(turns):
            raise OperationError(
                f"there is no turn {number:,}: {counted(len(turns), 'turn')} here, and 1 is the newest"
            )
        return turns[-number]
    commit = tract.get_commit(name).commit_hash
    for head in [None, *(branch.name for branch in tract.list_branches() if branch.commit_hash)]:
        turn = _turn_with(tract.loop.turns(head), commit)
        if turn is not None:
            return turn
    raise OperationError(f"commit {commit[:8]} is not in a turn of any branch; %tract chat lists the turns")


def _turn_with(turns: list[PastTurn], commit: str) -> PastTurn | None:
    for turn in turns:
        if commit == turn.question or any(reply.message.commit_hash == commit for reply in turn.messages):
            return turn
    return None


def stored_log(tract: Tract, turn: PastTurn, *, to_go_on: bool = False) -> TurnLog:
    """Return the log of a stored turn; `to_go_on` omits its end, to resume it."""
    log = TurnLog(TractSource(tract), DrawnTurn(replayed=replayed_from(tract), is_last=turn.is_last))
    for event in tract.loop.events_of(turn):
        if not (to_go_on and isinstance(event, TurnEnded)):
            log.add(event)
    return log


def stored_view(tract: Tract, name: str = "") -> DrawnTurn:
    """Return a stored turn. See `find_turn` for the arguments."""
    return stored_log(tract, find_turn(tract, name)).view()


def start_conversation(tract: Tract) -> str:
    """Create an empty branch, make it the current one, and return its name. The other branches stay."""
    names = {branch.name for branch in tract.list_branches()}
    name = next(f"chat-{number}" for number in range(2, len(names) + 3) if f"chat-{number}" not in names)
    tract.branch(name, is_empty=True)
    return name
