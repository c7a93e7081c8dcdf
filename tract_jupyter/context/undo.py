"""Undo and redo, based on the reflog.

If a recorded move led to the branch's position, undo returns to the position before that move. Otherwise the last
operation was a plain commit, and undo returns to the parent. The reflog also records each undo, and redo reads these
records.

A question and its notes (no reply came, or it was sent again) are one step. Otherwise the next undo would only remove a
note, and the unsent question would be in the context again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import DetachedHeadError, HistoryError
from tract_jupyter.storage import ANNOTATE, APPEND, BRANCHES

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.storage import Entry, Move, Position


class QuestionNote(StrEnum):
    """A note in an annotation's metadata: why a user message is sent or not."""

    SET_ASIDE = "set_aside"
    ASKED_AGAIN = "asked_again"
    OTHER_ASKED = "other_asked"

    @property
    def reason(self) -> str:
        """The reason for the log."""
        return _REASONS[self]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the note's commit."""
        return {_KEY: self.value}

    def is_of(self, entry: Entry) -> bool:
        """Return True if a commit is this note."""
        return entry.operation == ANNOTATE and entry.metadata.get(_KEY) == self


_KEY: Final = "question_note"
_REASONS: Final = {
    QuestionNote.SET_ASIDE: "it has no reply, so it is not sent; a retry of the turn sends it again",
    QuestionNote.ASKED_AGAIN: "it is sent again",
    QuestionNote.OTHER_ASKED: "it has no reply, and another message follows, so it is not sent",
}


@dataclass(frozen=True, slots=True)
class UndoStep:
    """The effect of an undo or redo, planned or done."""

    branch: str
    operation: str
    """The undone or repeated operation: `commit`, `merge`, `compress`, ..."""
    old: str | None
    new: str | None
    """The new position of the branch; None is before its first commit."""
    message: str = ""
    undoes: int | None = None

    def __str__(self) -> str:
        places = [place[:8] if place else "before the first commit" for place in (self.old, self.new)]
        return f"{self.branch}: {self.operation}{f' ({self.message})' if self.message else ''}: {' → '.join(places)}"


class Undo:
    """Reverts and repeats operations on one tract's current branch."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def preview(self, *, redo: bool = False) -> UndoStep:
        """Return the next step of `undo` or `redo`. Changes nothing.

        Raises:
            HistoryError: there is nothing to undo or redo.
        """
        with self._repository.database.read() as connection:
            return self._next(connection, redo=redo)[1]

    def run(self, *, redo: bool = False) -> UndoStep:
        """Undo or redo one operation on the current branch."""
        with self._repository.database.write() as connection:
            here, step = self._next(connection, redo=redo)
            if not self._repository.ref_rows.move(connection, step.branch, here.commit_hash, step.new):
                raise HistoryError(f"another process or thread moved branch {step.branch!r}; try again")
            self._repository.reflog_rows.add(
                connection, BRANCHES + step.branch, step.old, step.new, "redo" if redo else "undo",
                step.operation, step.undoes,
            )  # fmt: skip
        self._repository.refs.on_move()
        return step

    def _next(self, connection: Connection, *, redo: bool) -> tuple[Position, UndoStep]:
        here = self._repository.ref_rows.position(connection)
        if here.branch is None:
            raise DetachedHeadError("HEAD is detached: undo and redo move a branch; switch to one first")
        undone = self._undone(connection, here)
        step = self._redo(here, undone) if redo else self._undo(connection, here)
        if step.new is not None and self._repository.rows.get(connection, step.new) is None:
            raise HistoryError(
                f"cannot {'redo' if redo else 'undo'} the {step.operation} on {step.branch!r}: gc removed the commits "
                "of the new position"
            )
        return here, step

    def _undone(self, connection: Connection, here: Position) -> list[Move]:
        """Return the undos that can be redone, oldest first. Only undos and redos may come after them."""
        tail: list[Move] = []
        expected = here.commit_hash
        for move in self._repository.reflog_rows.newest_first(connection, BRANCHES + (here.branch or "")):
            if move.operation not in {"undo", "redo"} or move.new != expected:
                break
            tail.append(move)
            expected = move.old
        undone: list[Move] = []
        for move in reversed(tail):
            if move.operation == "undo":
                undone.append(move)
            elif undone:
                undone.pop()
        return undone

    def _redo(self, here: Position, undone: list[Move]) -> UndoStep:
        if not undone:
            raise HistoryError(
                f"nothing to redo on {here.branch!r}: there was no undo since its last commit or move"
            )
        last = undone[-1]
        return UndoStep(here.branch or "", last.message, here.commit_hash, last.old, undoes=last.undoes)

    def _undo(self, connection: Connection, here: Position) -> UndoStep:
        branch = here.branch or ""
        last = self._in_effect(connection, branch)
        if last is not None and last.new == here.commit_hash:
            return UndoStep(branch, last.operation, here.commit_hash, last.old, last.message, last.id)
        if here.commit_hash is None:
            raise HistoryError(f"nothing to undo on {branch!r}: it has no commits")
        entry = self._repository.rows.get(connection, here.commit_hash)
        if entry is None:
            return UndoStep(branch, "commit", here.commit_hash, None)
        moved_to = None if last is None else last.new
        entry = self._question_of(connection, entry, moved_to) or entry
        first = self._before_notes(connection, entry, moved_to)
        operation = entry.operation if entry.operation != APPEND else "commit"
        return UndoStep(branch, operation, here.commit_hash, first.parent_hash, entry.message)

    def _question_of(self, connection: Connection, entry: Entry, moved_to: str | None) -> Entry | None:
        """Return the question of a note, if only notes and commits of operations are between them."""
        if not _is_note(entry, entry.edit_target):
            return None
        question = entry.edit_target
        at: Entry | None = entry
        while at is not None and at.commit_hash != moved_to:
            if at.commit_hash == question:
                return at
            if not _is_note(at, question) and "operation_id" not in at.metadata:
                break
            at = self._parent(connection, at)
        return None

    def _before_notes(self, connection: Connection, entry: Entry, moved_to: str | None) -> Entry:
        """Return the first of the notes about other questions before a commit; without such notes, the commit."""
        parent = self._parent(connection, entry) if entry.operation == APPEND else None
        while parent is not None and QuestionNote.OTHER_ASKED.is_of(parent):
            if parent.commit_hash == moved_to:
                break
            entry, parent = parent, self._parent(connection, parent)
        return entry

    def _parent(self, connection: Connection, entry: Entry) -> Entry | None:
        return None if entry.parent_hash is None else self._repository.rows.get(connection, entry.parent_hash)

    def _in_effect(self, connection: Connection, branch: str) -> Move | None:
        """Return the last move of a branch that is not undone; None if there is none since the branch was created."""
        is_redone: dict[int, bool] = {}  # by move: True if its last change was a redo, False for an undo
        for move in self._repository.reflog_rows.newest_first(connection, BRANCHES + branch):
            if move.operation in {"undo", "redo"}:
                if move.undoes is not None:
                    is_redone.setdefault(move.undoes, move.operation == "redo")
            elif move.operation == "delete branch":
                return None
            elif is_redone.get(move.id, True):
                return move
        return None


def _is_note(entry: Entry, question: str | None) -> bool:
    """Return True for the note that a turn failed, or that its question was sent again."""
    is_note = QuestionNote.SET_ASIDE.is_of(entry) or QuestionNote.ASKED_AGAIN.is_of(entry)
    return is_note and entry.edit_target == question
