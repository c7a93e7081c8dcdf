"""The records of what turns did outside of the context: calls of tools that write, and changes by scripts.

The undo of a turn reads them. Each record is a row of the event log, signed by the user. The state of an effect follows
from its rows: made, then perhaps undone, made again, and so on. An undo or redo has a row before and after it. So after
a crash, each finished step is known, and a step with an unknown end never runs again by itself.
"""

from __future__ import annotations

import json
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import ContentError, HistoryError, TractError, TrustError
from tract_jupyter.models import canonical_json, one_line, plain, printable, show_value
from tract_jupyter.review import this_process
from tract_jupyter.toolkit.ambient import changed_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from tract_jupyter.rehearsal import Change
    from tract_jupyter.review import Signer
    from tract_jupyter.storage import Database, Event, EventRows
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.results import ToolResult

_CALLED: Final = "effect.called"
_ENDED: Final = "effect.ended"
_CHANGED: Final = "effect.changed"
_LEFT: Final = "effect.left"
_MOVES: Final = "effect.moves"
_MOVED: Final = "effect.moved"
_FAILED: Final = "effect.failed"
_TURN: Final = "effect.turn"

_KIND: Final = "effect"
_MOST_CALLS: Final = 1_000
"""The number of calls of one turn with a record."""
_LONGEST_VALUE: Final = 64_000
_LONGEST_NAME: Final = 60
MEMORY_BUDGET: Final = 1024**3
"""The default budget for earlier values of variables, in bytes."""

EffectState = Literal["made", "unknown", "failed", "undone"]
"""`unknown`: a call, a revert or a repetition has no recorded end."""


@dataclass(frozen=True)
class RecordedEffect:
    """One effect of a turn.

    Attributes:
        question: the commit of the user's message of the turn.
        at: the time of its start.
        name: the name for the user: the call, or the reason of a change without a copy.
        tool: the tool of a call; empty for a change.
        arguments: the arguments of a call; None if they have no JSON form, or are too large.
        result: the result of a call, as JSON data.
        has_result: False if the result is unknown, has no JSON form, or is too large.
        state: its current state.
        is_undoing: True if the last started step was an undo, False for a redo or the call itself.
        error: the error of the last step; empty if there was none.
        change_id: the change of a script; empty for a call.
        lost: its files that were not saved.
        why: the reason why it cannot be undone; empty if it can.
        is_exact: False if the script ran in the kernel, so only what its code names was saved.
        is_own: True if this user signed all its rows.
    """

    effect_id: str
    question: str
    at: datetime
    name: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None
    result: Any = None
    has_result: bool = False
    state: EffectState = "made"
    is_undoing: bool = False
    error: str = ""
    change_id: str = ""
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    why: str = ""
    is_exact: bool = True
    is_own: bool = True


@dataclass(frozen=True)
class UndoneTurn:
    """The record of an undone turn.

    `tip` is the position before the undo; empty if the conversation stayed.
    """

    question: str
    branch: str
    tip: str
    at: datetime


class EffectRecords:
    """The records of one tract, and the changes of this process with the earlier values of variables.

    Their rows are signed, so another writer of the store cannot add a call.

    Attributes:
        memory_budget: bytes for earlier values of variables. The oldest are dropped first.
    """

    def __init__(self, database: Database, events: EventRows, signer: Signer) -> None:
        self._database = database
        self._events = events
        self._signer = signer
        self._changes: dict[str, Change] = {}
        self._dropped: set[str] = set()
        self._lock = threading.Lock()
        self.memory_budget = MEMORY_BUDGET

    # --- reading

    def of(self, question: str) -> list[RecordedEffect]:
        """Return the effects of a turn, in order."""
        effects: dict[str, RecordedEffect] = {}
        for row in self._rows("effect.*", question):
            _apply(effects, row, question, is_own=self._verifies(row))
        return list(effects.values())

    def unsigned(self) -> list[Event]:
        """Return the rows without a signature of this user, oldest first."""
        return [row for row in self._rows("effect.*") if not self._verifies(row)]

    def undone(self) -> list[UndoneTurn]:
        """Return the undone turns that are not redone, oldest first."""
        turns: dict[str, UndoneTurn] = {}
        for row in self._rows(_TURN):
            if self._verifies(row):
                data = row.data
                turns.pop(str(data["question"]), None)
                if not data["redo"]:
                    turn = UndoneTurn(
                        str(data["question"]), str(data["branch"]), str(data["tip"]), row.created_at
                    )
                    turns[turn.question] = turn
        return list(turns.values())

    def change(self, effect: RecordedEffect) -> Change | None:
        """Return the change of this process with that id; None after a restart, or if it was dropped."""
        with self._lock:
            return self._changes.get(effect.change_id)

    def was_dropped(self, effect: RecordedEffect) -> bool:
        """Return True if this process dropped the earlier values of a change, because of the budget."""
        return effect.change_id in self._dropped

    @property
    def memory_used(self) -> int:
        """The size of the earlier values of variables, in bytes."""
        with self._lock:
            return sum(change.memory for change in self._changes.values())

    # --- writing

    def recorder(self, question: Callable[[], str]) -> TurnRecorder:
        """Return the recorder of one turn. `question` returns the commit of its message."""
        return TurnRecorder(self, question)

    def moves(self, effect: RecordedEffect, *, redo: bool) -> None:
        """Record that an undo or redo of an effect starts.

        Raises:
            HistoryError: another process has started it.
            StoreError: the record cannot be stored, so the step must not start.
        """
        with self._database.write():
            now = next((one for one in self.of(effect.question) if one.effect_id == effect.effect_id), effect)
            if (now.state, now.is_undoing) != (effect.state, effect.is_undoing):
                raise HistoryError(f"another process works on {effect.name or 'this change'}; try again")
            self._write_step(_MOVES, effect, redo=redo, process=this_process())

    def moved(self, effect: RecordedEffect, *, redo: bool, result: Any = None) -> None:
        """Record that an undo or redo of an effect is complete."""
        self._write_step(_MOVED, effect, redo=redo, **_stored("result", result))

    def failed(self, effect: RecordedEffect, *, redo: bool, error: str) -> None:
        """Record that an undo or redo of an effect failed. It may be tried again."""
        self._write_step(_FAILED, effect, redo=redo, error=one_line(error, 500))

    def turn_moved(self, question: str, branch: str, tip: str, *, redo: bool = False) -> None:
        """Record that a turn was undone, or redone."""
        self.write(_TURN, question=question, branch=branch, tip=tip, redo=redo)

    def keep(self, change: Change) -> None:
        """Keep a change of this process. Drop the oldest values of variables if the budget is exceeded."""
        with self._lock:
            self._changes[change.change_id] = change
            used = sum(one.memory for one in self._changes.values())
            for change_id, one in list(self._changes.items()):
                if used <= self.memory_budget:
                    break
                if one.memory:
                    used -= one.memory
                    self._dropped.add(change_id)
                    del self._changes[change_id]

    def write(self, event_type: str, **data: Any) -> None:
        """Store a signed row."""
        signature = ""
        with suppress(TrustError):  # then the preview says that the record is not signed
            signature = self._signer.sign(_KIND, [event_type, data])
        with self._database.write() as connection:
            self._events.append(connection, event_type, "user", {**data, "signature": signature})

    def _write_step(self, event_type: str, effect: RecordedEffect, **data: Any) -> None:
        self.write(event_type, id=effect.effect_id, question=effect.question, **data)

    def _rows(self, event_type: str, containing: str = "") -> Iterable[Event]:
        with self._database.read() as connection:
            return reversed(self._events.newest(connection, event_type, None, containing))

    def _verifies(self, row: Event) -> bool:
        data = {name: value for name, value in row.data.items() if name not in {"signature", "triggered_by"}}
        return self._signer.verify(_KIND, [row.event_type, data], str(row.data.get("signature")))


class TurnRecorder:
    """Records the effects of one turn, in any of its threads."""

    def __init__(self, records: EffectRecords, question: Callable[[], str]) -> None:
        self._records = records
        self._find = question
        self._calls = 0
        self._lock = threading.Lock()
        self._found: str | None = None

    @property
    def question(self) -> str:
        """The commit of the turn's message; empty if there is none."""
        if self._found is None:
            self._found = self._find()
        return self._found

    def call(
        self, tool: ToolDefinition, values: Mapping[str, Any], make: Callable[[], ToolResult]
    ) -> ToolResult:
        """Make a call of a tool that writes, with a record before and after it.

        A revert of the tool covers the calls within it.

        Raises:
            StoreError: the record cannot be stored, so the call was not made.
        """
        with self._lock:
            self._calls += 1
            number = self._calls
        if not self.question or number > _MOST_CALLS:
            if number == _MOST_CALLS + 1:
                self.left(f"further calls after the first {_MOST_CALLS:,}")
            return make()
        effect_id = secrets.token_hex(8)
        self._records.write(
            _CALLED,
            id=effect_id,
            question=self.question,
            tool=tool.name,
            name=call_name(tool, values),
            **_stored("arguments", values),
        )
        inner = None if tool.revert is not None else self
        with changed_context(effects=inner):
            result = make()
        error = "" if result.success else one_line(result.error, 500)
        with suppress(TractError):  # without this record, the end of the call is unknown
            self._records.write(
                _ENDED, id=effect_id, question=self.question, error=error, **_stored("result", result.output)
            )
        return result

    def changed(self, change: Change) -> None:
        """Record a change of variables, files and settings by a script."""
        if not self.question or not (change.variables or change.files or change.settings or change.lost):
            return
        self._records.write(
            _CHANGED,
            id=secrets.token_hex(8),
            question=self.question,
            change=change.change_id,
            variables=list(change.variables),
            files=list(change.files),
            settings=list(change.settings),
            lost=list(change.lost),
            exact=change.certainty == "exact",
        )
        self._records.keep(change)

    def left(self, what: str, why: str = "not saved; cannot be undone") -> None:
        """Record something that no undo takes back, such as changes of a script without copies, with the reason."""
        if self.question:
            self._records.write(_LEFT, id=secrets.token_hex(8), question=self.question, name=what, why=why)


def call_name(tool: ToolDefinition, values: Mapping[str, Any]) -> str:
    """Return a call in one short line: its title, or `notify("#birds")`."""
    if tool.title is not None:
        return one_line(printable(tool.title(values)), _LONGEST_NAME)
    shown = ", ".join(
        json.dumps(value, ensure_ascii=False) if isinstance(value, str) else show_value(value, _LONGEST_NAME)
        for value in values.values()
    )
    return one_line(printable(f"{tool.name}({shown})"), _LONGEST_NAME)


def _stored(name: str, value: Any) -> dict[str, Any]:
    """Return a value under a name; nothing if it has no JSON form or is too large."""
    try:
        text = canonical_json(value)
        return {name: plain(value)} if len(text) <= _LONGEST_VALUE else {}
    except ContentError:
        return {}


def _apply(effects: dict[str, RecordedEffect], row: Event, question: str, *, is_own: bool) -> None:
    data, effect_id = row.data, str(row.data.get("id"))
    if row.event_type in {_CALLED, _CHANGED, _LEFT}:
        if data.get("question") == question:
            effects[effect_id] = _begun(row, is_own=is_own)
        return
    effect = effects.get(effect_id)
    if effect is None:
        return
    if not is_own:
        effects[effect_id] = replace(effect, is_own=False)
        return
    redo = bool(data.get("redo"))
    result = {"result": data["result"], "has_result": True} if "result" in data else {}
    if row.event_type == _ENDED:
        error = str(data.get("error") or "")
        effects[effect_id] = replace(effect, state="failed" if error else "made", error=error, **result)
    elif row.event_type == _MOVES:
        effects[effect_id] = replace(effect, state="unknown", is_undoing=not redo, error="")
    elif row.event_type == _MOVED:
        effects[effect_id] = replace(
            effect,
            state="made" if redo else "undone",
            is_undoing=not redo,
            error="",
            **(result if redo else {}),
        )
    elif row.event_type == _FAILED:
        effects[effect_id] = replace(
            effect, state="undone" if redo else "made", is_undoing=not redo, error=str(data.get("error"))
        )


def _begun(row: Event, *, is_own: bool) -> RecordedEffect:
    data = row.data
    arguments = data.get("arguments")

    def names(key: str) -> tuple[str, ...]:
        return tuple(map(str, data.get(key) or ()))

    return RecordedEffect(
        str(data["id"]), str(data["question"]), row.created_at, str(data.get("name") or ""),
        str(data.get("tool") or ""), arguments if isinstance(arguments, dict) else None,
        state="unknown" if row.event_type == _CALLED else "made", change_id=str(data.get("change") or ""),
        variables=names("variables"), files=names("files"), settings=names("settings"), lost=names("lost"),
        why=str(data.get("why") or ""),
        is_exact=bool(data.get("exact", True)), is_own=is_own,
    )  # fmt: skip
