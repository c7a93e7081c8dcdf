"""Undo and redo of a whole turn: variables, files, settings, tool calls, and the conversation.

An undo takes back the effects in reverse order. The conversation goes last, and only if no step failed. So after a
failure or a crash the turn is still there, and the next undo continues it. Each step is recorded before and after it,
and none runs twice.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tract_jupyter.exceptions import CodeDecisionError, HistoryError, TractError
from tract_jupyter.loop.stored import PastTurn, past_turns
from tract_jupyter.models import counted, one_line, parse_message
from tract_jupyter.storage import MEMORY, read_moment
from tract_jupyter.toolkit import NOTEBOOK, runs_for_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    from tract_jupyter.context import Repository
    from tract_jupyter.rehearsal import Backups, Change, TableChange, UndoItem
    from tract_jupyter.review import Signer
    from tract_jupyter.storage import Database
    from tract_jupyter.toolkit import EffectRecords, RecordedEffect, ToolDefinition, ToolExecutor, UndoneTurn

TurnItemKind = Literal["conversation", "variable", "file", "setting", "call"]
TurnItemState = Literal["restorable", "changed since", "impossible", "failed"]
_CONVERSATION: Final = "conversation"
_TEXT: Final = 60
_MOST_COMPARED: Final = 30
_LOST: Final = "the code does not name it, so it was not saved"
_GONE: Final = "its earlier value is gone, because the kernel was restarted"
_DROPPED: Final = "its earlier value was dropped, because the memory for earlier values is full"


class TurnItem(NamedTuple):
    """One item of the undo or redo of a turn.

    Attributes:
        kind: the conversation, a variable, a file, a setting or a tool call.
        name: its name; for a call, the call in short.
        state: `restorable`; `changed since`, so it stays as it is unless it is forced; `impossible`; or `failed`, and
            another undo tries it again. In a result, `restorable` means that it was done.
        detail: the effect, or the reason, in one line.
        exact: the exact path of a file, or the id of a call. Different items can have the same name on display.
        differences: the changes that the undo makes, in a preview: a diff of a file, or rows of a table. None if they
            are not known.
    """

    kind: TurnItemKind
    name: str
    state: TurnItemState
    detail: str = ""
    exact: str = ""
    differences: str | TableChange | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The kind, and the exact name, path or id."""
        return self.kind, self.exact or self.name

    def is_in(self, chosen: Collection[str | tuple[str, str]]) -> bool:
        """Return True if the item is chosen: by its key, its exact path, or the name of a variable, setting or call."""
        name = self.exact if self.kind == "file" and self.exact else self.name
        return self.key in chosen or name in chosen


@dataclass(frozen=True)
class TurnUndo:
    """The plan or the result of the undo or redo of a turn.

    Attributes:
        question: the commit of the user's message.
        text: the beginning of that message.
        at: its time.
        items: in the order of the undo's display: the conversation first.
        is_redo: True for a redo.
        is_done: True for a result, False for a plan.
        memory_used: bytes of earlier values of variables in this process.
        memory_budget: their limit, `t.effects.memory_budget`.
        is_exact: False if a script ran in the kernel, so only variables and files that its code names were saved.
    """

    question: str
    text: str
    at: datetime
    items: tuple[TurnItem, ...]
    is_redo: bool = False
    is_done: bool = False
    memory_used: int = 0
    memory_budget: int = 0
    is_exact: bool = True

    @property
    def has_only_conversation(self) -> bool:
        """True if the turn changed nothing but the conversation."""
        return all(item.kind == _CONVERSATION for item in self.items)

    def items_in(self, state: TurnItemState) -> tuple[TurnItem, ...]:
        """Return the items in a state."""
        return tuple(item for item in self.items if item.state == state)

    @property
    def verb(self) -> str:
        """`Undo` for a plan. For a result `Undone`, `Partly undone` if an item failed, or `Not undone` if all stay."""
        if not self.is_done:
            return "Redo" if self.is_redo else "Undo"
        done = "redone" if self.is_redo else "undone"
        if self.items and not self.items_in("restorable"):
            return f"Not {done}"
        return f"Partly {done}" if self.items_in("failed") else done.capitalize()

    def __str__(self) -> str:
        marks = {"restorable": "↶", "changed since": "!", "impossible": "×", "failed": "×"}
        lines = [f"{marks[item.state]} {item.name}: {item.detail}" for item in self.items]
        return "\n".join([f"{self.verb}: {self.text}", *lines])


@dataclass(frozen=True)
class _Step:
    """An effect, with its items and the work of its undo or redo. `names` are forced items."""

    effect: RecordedEffect
    items: tuple[TurnItem, ...]
    run: Callable[[Collection[str | tuple[str, str]]], tuple[TurnItem, ...]] | None = None


class TurnUndoer:
    """Undoes and redoes turns of one tract.

    Args:
        repository: the history.
        records: the effects of turns.
        executor: returns the executor, which calls reverts.
        backups: returns the earlier contents of files.
    """

    def __init__(
        self,
        repository: Repository,
        records: EffectRecords,
        executor: Callable[[], ToolExecutor],
        backups: Callable[[], Backups],
    ) -> None:
        self._repository = repository
        self._records = records
        self._executor = executor
        self._backups = backups

    def preview(self, turn: str | PastTurn, *, redo: bool = False) -> TurnUndo:
        """Return the items that an undo or redo of a turn would restore. Changes nothing.

        Args:
            turn: the turn, or a commit of it.
            redo: for a redo.

        Raises:
            HistoryError: the commit is not in a turn, or a redo has nothing to repeat.
            CommitNotFoundError: there is no such commit.
        """
        plan = self._plan(turn, redo=redo)
        steps = self._steps(plan.question, redo=redo)
        is_exact = all(step.effect.is_exact for step in steps)
        return replace(
            plan,
            is_exact=is_exact,
            items=(*plan.items, *_merged(item for step in steps for item in step.items)),
        )

    def run(
        self,
        turn: str | PastTurn,
        *,
        redo: bool = False,
        force: Collection[str | tuple[str, str]] = (),
        only_conversation: bool = False,
    ) -> TurnUndo:
        """Undo or redo a turn.

        Args:
            turn: the turn, or a commit of it.
            redo: redo instead of undo.
            force: names, exact paths, or keys of items to restore although they changed since.
            only_conversation: leave all effects as they are.

        Returns:
            The result. If an item failed, the conversation stays, and another call tries it again.

        Raises:
            HistoryError: as for `preview`, or another process works on the same turn.
            CodeDecisionError: code of a model calls this.
            StoreError: a step cannot be recorded.
        """
        if runs_for_model(self._executor()):
            raise CodeDecisionError(
                "only the user can undo a turn; code that runs for a model cannot. Call it in your own cell"
            )
        plan = self._plan(turn, redo=redo)
        done: list[TurnItem] = []
        if not only_conversation:
            for effect in self._in_order(plan.question, redo=redo):
                # the step before may have restored what this one needs
                step = self._step(effect, redo=redo)
                done += step.items if step.run is None else self._run(step, force, redo=redo)
        said = plan.items
        if any(item.state == "failed" for item in done):
            said = tuple(item._replace(state="changed since", detail=_STAYS) for item in said)
        elif any(item.state == "restorable" for item in said) or (redo and not said):
            self._move(plan.question, redo=redo, moves=bool(said))
            said = tuple(item._replace(detail=_done(item.detail)) for item in said)
        items = (*said, *_merged(done, is_done=True))
        return replace(plan, items=items, is_done=True, memory_used=self._records.memory_used)

    # --- the conversation

    def _plan(self, turn: str | PastTurn, *, redo: bool) -> TurnUndo:
        """Return the plan with the item of the conversation, if there is one."""
        repository = self._repository
        turns = past_turns(repository, repository.refs.position.commit_hash)
        question = turn.question if isinstance(turn, PastTurn) else self._question(turns, turn)
        entry = repository.commits.entry(question)
        text = one_line(parse_message(str(entry.content.get("text") or ""))[1], _TEXT)
        items = self._redo_items(turns, question) if redo else self._undo_items(turns, question)
        return TurnUndo(
            question, text, read_moment(entry.created_at), items, redo,
            memory_used=self._records.memory_used, memory_budget=self._records.memory_budget,
        )  # fmt: skip

    def _question(self, turns: Sequence[PastTurn], name: str) -> str:
        commit = self._repository.commits.get(name).commit_hash
        for turn in turns:
            if commit == turn.question or any(one.message.commit_hash == commit for one in turn.messages):
                return turn.question
        content = self._repository.commits.entry(commit).content
        if content.get("role") == "user":  # of another branch, or undone
            return commit
        raise HistoryError(
            f"commit {commit[:8]} is not in a turn of the current branch; use the commit of its message"
        )

    def _undo_items(self, turns: Sequence[PastTurn], question: str) -> tuple[TurnItem, ...]:
        at = next((number for number, turn in enumerate(turns) if turn.question == question), None)
        if at is None:
            if self._undone_turn(question) is not None:
                return ()
            return (_conversation("impossible", "it is not on the current branch"),)
        if self._repository.refs.position.branch is None:
            return (_conversation("impossible", "HEAD is detached; switch to a branch first"),)
        later = len(turns) - at - 1
        if later:
            why = f"{counted(later, 'later turn')} {'builds' if later == 1 else 'build'} on it, so its messages stay"
            return (_conversation("impossible", f"{why}; reset(COMMIT) goes back further"),)
        messages = counted(1 + len(turns[at].messages), "message")
        leave = "leaves" if messages == "1 message" else "leave"
        return (_conversation("restorable", f"{messages} {leave} the context"),)

    def _redo_items(self, turns: Sequence[PastTurn], question: str) -> tuple[TurnItem, ...]:
        undone = self._undone_turn(question)
        if undone is None:
            raise HistoryError(f"the turn {question[:8]} was not undone, so there is nothing to redo")
        if not undone.tip or any(turn.question == question for turn in turns):
            return ()
        here = self._repository.refs.position
        if here.branch != undone.branch:
            return (_conversation("impossible", f"it was undone on branch {undone.branch!r}"),)
        if here.commit_hash != self._parent(question):
            return (_conversation("impossible", "the branch has moved since"),)
        return (_conversation("restorable", "its messages return to the context"),)

    def _undone_turn(self, question: str) -> UndoneTurn | None:
        return next((turn for turn in self._records.undone() if turn.question == question), None)

    def _parent(self, question: str) -> str | None:
        return self._repository.commits.get(question).parent_hash

    def _move(self, question: str, *, redo: bool, moves: bool) -> None:
        """Move the branch before the turn, or back to its end, with the record in the same transaction."""
        refs, undone = self._repository.refs, self._undone_turn(question)
        with self._repository.database.write():
            here = refs.position
            if moves and redo:
                refs.move_current(undone.tip if undone else None, "redo turn", f"to {question[:8]}")
            elif moves:
                refs.move_current(self._parent(question), "undo turn", f"to before {question[:8]}")
            tip = here.commit_hash or ""
            self._records.turn_moved(question, here.branch or "", "" if redo else tip, redo=redo)
        refs.on_move()

    # --- effects

    def _in_order(self, question: str, *, redo: bool) -> list[RecordedEffect]:
        """Return the effects to undo, newest first, or to redo, oldest first."""
        effects = self._records.of(question)
        if redo:
            return [effect for effect in effects if effect.state == "undone" or _is_open_redo(effect)]
        return [effect for effect in reversed(effects) if effect.state != "undone"]

    def _steps(self, question: str, *, redo: bool) -> list[_Step]:
        return [
            self._step(effect, redo=redo, is_preview=True) for effect in self._in_order(question, redo=redo)
        ]

    def _step(self, effect: RecordedEffect, *, redo: bool, is_preview: bool = False) -> _Step:
        if not effect.is_own:
            why = "its record is not signed by you, so it stays as it is"
            name = effect.name or ", ".join((*effect.variables, *effect.files))
            return _Step(effect, (TurnItem("call", name, "impossible", why),))
        if effect.change_id:
            return self._change_step(effect, redo=redo, is_preview=is_preview)
        if not effect.tool:
            return _Step(effect, (TurnItem("call", effect.name, "impossible", effect.why),))
        return self._call_step(effect, redo=redo)

    def _run(
        self, step: _Step, force: Collection[str | tuple[str, str]], *, redo: bool
    ) -> tuple[TurnItem, ...]:
        is_chosen = any(
            item.state == "restorable" or (item.state == "changed since" and item.is_in(force))
            for item in step.items
        )
        # an interrupted move of a change is completed, also if only its record is missing
        is_open = bool(step.effect.change_id) and step.effect.state == "unknown"
        if step.run is None or not (is_chosen or is_open):
            return step.items
        self._records.moves(step.effect, redo=redo)
        try:
            return step.run(force)
        except TractError as error:
            self._records.failed(step.effect, redo=redo, error=str(error))
            return tuple(
                item._replace(state="failed", detail=one_line(str(error), 200)) for item in step.items
            )

    # --- a change of a script

    def _change_step(self, effect: RecordedEffect, *, redo: bool, is_preview: bool) -> _Step:
        change, why = self._change_of(effect)
        items = (
            ()
            if change is None
            else _items_of(change.preview(redo=redo), change if is_preview and not redo else None)
        )
        gone = () if redo else tuple(self._gone(effect, {item.key[1] for item in items}, change, why))
        if change is None:
            return _Step(effect, gone)

        def run(force: Collection[str | tuple[str, str]], change: Change = change) -> tuple[TurnItem, ...]:
            done = _items_of(change.redo() if redo else change.undo(force=force))
            self._records.moved(effect, redo=redo)
            return (*done, *gone)

        return _Step(effect, (*items, *gone), run)

    def _change_of(self, effect: RecordedEffect) -> tuple[Change | None, str]:
        """Return the change, or the reason why its files cannot be restored."""
        live = self._records.change(effect)
        if live is not None or not effect.files:
            return live, ""
        try:
            return self._backups().change(effect.change_id), ""
        except TractError as error:
            return None, one_line(str(error), 200)

    def _gone(
        self, effect: RecordedEffect, known: Collection[str], change: Change | None, why: str
    ) -> Iterator[TurnItem]:
        lost = _DROPPED if self._records.was_dropped(effect) else _GONE
        is_live = change is not None and self._records.change(effect) is change
        if not is_live:
            yield from (TurnItem("variable", name, "impossible", lost) for name in effect.variables)
            yield from (TurnItem("setting", name, "impossible", lost) for name in effect.settings)
        if change is None:
            yield from (TurnItem("file", name, "impossible", why) for name in effect.files)
        yield from (TurnItem("file", name, "impossible", _LOST) for name in effect.lost if name not in known)

    # --- a call

    def _call_step(self, effect: RecordedEffect, *, redo: bool) -> _Step:
        tool = self._executor().get(effect.tool)
        state, detail = _redo_of_call(effect, tool) if redo else _undo_of_call(effect, tool)
        item = TurnItem("call", effect.name, state, detail)

        def run(_force: Collection[str | tuple[str, str]]) -> tuple[TurnItem, ...]:
            arguments = effect.arguments or {}
            executor = self._executor()
            if redo:
                result = executor.execute(effect.tool, arguments)
            else:
                result = executor.revert(effect.tool, arguments, effect.result)
            if not result.success:
                self._records.failed(effect, redo=redo, error=result.error)
                verb = "the repeated call" if redo else "its revert"
                return (
                    item._replace(state="failed", detail=f"{verb} failed: {one_line(result.error, 200)}"),
                )
            self._records.moved(effect, redo=redo, result=result.output)
            return (item._replace(state="restorable", detail="called again" if redo else "reverted"),)

        return _Step(effect, (item,), None if state == "impossible" else run)


def open_backups(database: Database, private: Path, seal: Signer) -> Backups:
    """Return the earlier contents of files that turns of a store changed, and complete an interrupted change.

    Args:
        database: the store. The folder is next to its file; for a store in memory it is removed with the backups.
        private: the user's private folder, for a store on a server.
        seal: signs the journals of the changes. The folder of a store may come from another person.
    """
    from tract_jupyter.rehearsal import Backups

    if database.location == MEMORY:
        temporary = tempfile.mkdtemp(prefix="tract-backups-")
        backups = Backups(Path(temporary))
        weakref.finalize(backups, shutil.rmtree, temporary, ignore_errors=True)
        return backups
    if "://" in database.location:
        name = re.sub(r"\W", "", database.store_id)  # the server may not be the user's
        return Backups(private / "backups" / name, seal=seal)
    store = Path(database.location).absolute()
    backups = Backups(store.with_name(f"{store.name}.backups"), seal=seal)
    if backups.folder.exists():
        backups.recover()
    return backups


def _done(detail: str) -> str:
    return (
        detail.replace("leaves the", "left the")
        .replace("leave the", "left the")
        .replace("return to", "are back in")
    )


_STAYS: Final = "its messages stay until every step is done; undo it again"


def _conversation(state: TurnItemState, detail: str) -> TurnItem:
    return TurnItem(_CONVERSATION, _CONVERSATION, state, detail)


def _is_open_redo(effect: RecordedEffect) -> bool:
    return effect.state == "unknown" and not effect.is_undoing and bool(effect.has_result or effect.change_id)


def _items_of(items: Sequence[UndoItem], change: Change | None = None) -> tuple[TurnItem, ...]:
    """Return the items of a change. With the change, the first ones have their differences."""
    return tuple(
        TurnItem(
            item.kind, item.name, item.state, item.detail, item.path,
            None if change is None or number >= _MOST_COMPARED else change.differences(item),
        )
        for number, item in enumerate(items)
    )  # fmt: skip


def _merged(items: Iterator[TurnItem] | Sequence[TurnItem], *, is_done: bool = False) -> list[TurnItem]:
    """Return one item for each variable, file and setting.

    The newest change decides whether an item can be restored. If it can, the older changes can too, so the item gets
    the detail of the oldest one. The steps of calls stay separate.
    """
    merged: dict[tuple[tuple[str, str], int], TurnItem] = {}
    for number, item in enumerate(items):
        key = (item.key, number if item.kind == "call" else 0)
        newer = merged.get(key)
        if newer is None:
            merged[key] = item
        elif newer.state == "restorable" and item.state != "impossible":
            state = item.state if is_done else "restorable"
            detail = newer.detail if item.state == "changed since" else item.detail
            merged[key] = newer._replace(state=state, detail=detail, differences=None)
    return list(merged.values())


def _undo_of_call(effect: RecordedEffect, tool: ToolDefinition | None) -> tuple[TurnItemState, str]:
    """Return whether a call can be reverted, and the reason or the effect."""
    at = f"{effect.at.astimezone():%H:%M}"
    why = _why_no_revert(effect, tool)
    if tool is None or tool.revert is None or why:
        return "impossible", f"{'failed' if effect.state == 'failed' else 'called'} at {at}; {why}"
    if effect.state == "unknown":
        what = "its revert" if effect.is_undoing else "it"
        return "changed since", f"{what} began at {at}, and its end is unknown"
    if effect.error:
        return "restorable", f"its revert failed ({effect.error}); it is tried again"
    how = "" if tool.owner == NOTEBOOK else f"; {tool.revert.handler.__name__} takes it back"
    return "restorable", f"called at {at}{how}"


def _why_no_revert(effect: RecordedEffect, tool: ToolDefinition | None) -> str:
    if effect.state == "failed":
        return "its effect is unknown"
    if tool is None:
        return "its tool is not defined here. Define it, then undo again"
    if tool.revert is None:
        return "cannot be undone"
    needs_result = any(parameter.name == "result" for parameter in tool.revert.parameters)
    if effect.arguments is None or (needs_result and not effect.has_result):
        return "its arguments or its result are not known, so it cannot be undone"
    return ""


def _redo_of_call(effect: RecordedEffect, tool: ToolDefinition | None) -> tuple[TurnItemState, str]:
    if tool is None or effect.arguments is None:
        return "impossible", "its tool is not defined here, so it is not called again"
    if effect.state == "unknown":
        return "changed since", "it was called again, and the end is unknown"
    return "restorable", "is called again"
