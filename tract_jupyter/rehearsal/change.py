"""A change of variables, files and settings that was made, and its undo."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from unicodedata import normalize

from tract_jupyter.rehearsal.baseline import digest
from tract_jupyter.rehearsal.describe import describe, memory_of
from tract_jupyter.rehearsal.files import (
    MOST_READ,
    content_below,
    is_blocked,
    shown_path,
    state_below,
    text_diff,
)
from tract_jupyter.rehearsal.linux import opened
from tract_jupyter.rehearsal.settings import MISSING, ChangedSetting, current, same_setting, set_setting
from tract_jupyter.rehearsal.tables import compare_frames

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.rehearsal.backups import Backups, FileRecord, JournalRecord, Side
    from tract_jupyter.rehearsal.effects import TableChange

Certainty = Literal["exact", "named only"]
State = Literal["restorable", "changed since", "impossible"]


_MOST_ROWS: Final = 100_000


class UndoItem(NamedTuple):
    """One thing that an undo restores, or why it cannot.

    Attributes:
        kind: A variable, a file or a setting.
        name: Its name, or the path below the workspace, as printable text.
        state: `restorable`, `changed since` (it is left as it is, unless forced), or `impossible`.
        detail: The effect of the undo, or the reason, in one line.
        path: The exact path of a file. Files with different paths can have the same name on display.
    """

    kind: Literal["variable", "file", "setting"]
    name: str
    state: State
    detail: str = ""
    path: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The kind, and the exact name or path."""
        return self.kind, self.path or self.name

    def is_in(self, chosen: Collection[str | tuple[str, str]]) -> bool:
        """Return True if the item is chosen by its exact name or path, or by its key."""
        return self.key in chosen or self.key[1] in chosen


ABSENT: Final = object()
"""The value of a variable that does not exist."""


@dataclass(slots=True)
class VariableRecord:
    """A variable of a change.

    Attributes:
        name: Its name.
        before: The object before, or `ABSENT`.
        after: The object after, or `ABSENT`.
        digests: The digests of both, as far as they are known; empty if not.
        problem: The reason why the old value cannot be restored.
        at: The side that the namespace has now, as far as the change knows.
    """

    name: str
    before: Any
    after: Any
    digests: tuple[str, str] = ("", "")
    problem: str = ""
    at: Side = "after"


@dataclass(slots=True)
class SettingRecord:
    """A setting of a change, before and after."""

    before: ChangedSetting
    after: ChangedSetting
    at: Side = "after"


class Change:
    """A change that was made in the kernel and the workspace.

    Attributes:
        change_id: Its id in the backups.
        certainty: `exact` for adopted effects. `named only` if the code ran in the kernel: then only the variables and
            files that the code names were saved.
    """

    def __init__(
        self,
        change_id: str,
        *,
        record: JournalRecord | None = None,
        backups: Backups | None = None,
        namespace: dict[str, Any] | None = None,
        variables: Sequence[VariableRecord] = (),
        settings: Sequence[SettingRecord] = (),
        lost: Sequence[UndoItem] = (),
        certainty: Certainty = "exact",
    ) -> None:
        self.change_id = change_id
        self.certainty: Certainty = certainty
        self._record = record
        self._backups = backups
        self._namespace = namespace if namespace is not None else {}
        self._variables = tuple(variables)
        self._settings = tuple(settings)
        self._lost = tuple(lost)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of changed variables."""
        return tuple(variable.name for variable in self._variables)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of changed files, below the workspace."""
        return tuple(shown_path(file.path) for file in self._files)

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of changed settings."""
        return tuple(setting.after.name for setting in self._settings)

    @property
    def lost(self) -> tuple[str, ...]:
        """The names of changed files that were not saved, so they cannot be restored."""
        return tuple(item.name for item in self._lost)

    @property
    def memory(self) -> int:
        """The size of the earlier values that it keeps in memory, in bytes."""
        return sum(
            memory_of(variable.before) for variable in self._variables if variable.before is not ABSENT
        )

    def preview(self, *, redo: bool = False) -> tuple[UndoItem, ...]:
        """Return the items that `undo`, or `redo`, would restore. Changes nothing."""
        return self._items("after" if redo else "before")

    def differences(self, item: UndoItem) -> str | TableChange | None:
        """Return the changes that an undo of an item makes: a diff of a text file, or rows of a table.

        None if it is neither, is too large, or cannot be restored.
        """
        if item.kind == "variable":
            for one in self._variables:
                if one.name == item.name and not one.problem and _is_small(one.before):
                    return compare_frames(self._namespace.get(one.name), one.before)
        for file in self._files if item.kind == "file" and item.state != "impossible" else ():
            if file.path == item.path and self._record is not None and self._backups is not None:
                now = content_below(self._record.workspace, file.path)
                return text_diff(file.path, now, self._backups.content(file.before, MOST_READ)) or None
        return None

    def undo(self, *, force: Collection[str | tuple[str, str]] = ()) -> tuple[UndoItem, ...]:
        """Restore the state before the change.

        Args:
            force: Names, exact paths, or keys of items to restore although they changed since.

        Returns:
            The items. `restorable` means restored; the others stay as they are.

        Raises:
            RehearsalError: a file cannot be written. Nothing was restored.
        """
        return self._move("before", force)

    def redo(self) -> tuple[UndoItem, ...]:
        """Make the change again after an undo. Items that changed since stay as they are.

        Raises:
            RehearsalError: a file cannot be written. Nothing was changed.
        """
        return self._move("after", ())

    @property
    def _files(self) -> list[FileRecord]:
        return [] if self._record is None else self._record.files

    def _items(self, side: Side) -> tuple[UndoItem, ...]:
        items = [self._variable(one, side) for one in self._variables if one.at != side]
        items += _distinct([self._file(one, side) for one in self._files if one.at != side])
        items += [_setting(one, side) for one in self._settings if one.at != side]
        return (*items, *(self._lost if side == "before" else ()))

    def _variable(self, variable: VariableRecord, side: Side) -> UndoItem:
        here, there = (
            (variable.after, variable.before) if side == "before" else (variable.before, variable.after)
        )
        marks = variable.digests[::-1] if side == "before" else variable.digests
        if variable.problem and side == "before":
            return UndoItem("variable", variable.name, "impossible", variable.problem)
        is_same = self._namespace.get(variable.name, ABSENT) is here and _is_unchanged(here, marks[0])
        if not is_same or not _is_unchanged(there, marks[1]):
            return UndoItem("variable", variable.name, "changed since", "its value changed since")
        detail = "removed" if there is ABSENT else f"again {describe(there)}"
        return UndoItem("variable", variable.name, "restorable", detail)

    def _file(self, file: FileRecord, side: Side) -> UndoItem:
        state: State = "restorable"
        detail = "restored" if file.exists(side) else "removed"
        if self._backups is None or not self._backups.has(file.state(side)):
            state, detail = "impossible", "its content was removed to save space"
        elif self._now(file) != file.state(file.at):
            state, detail = "changed since", "its content changed since"
        return UndoItem("file", shown_path(file.path), state, detail, file.path)

    def _now(self, file: FileRecord) -> Any:
        if self._record is None:
            return None
        try:
            with opened(self._record.workspace) as workspace:
                if is_blocked(workspace, file.path):
                    return "another kind of entry"
                return None if file.is_folder else state_below(workspace, file.path)
        except OSError:
            return "unreadable"

    def _move(self, side: Side, force: Collection[str | tuple[str, str]]) -> tuple[UndoItem, ...]:
        items = tuple(
            item._replace(state="restorable") if item.state == "changed since" and item.is_in(force) else item
            for item in self._items(side)
        )
        moved = {item.key for item in items if item.state == "restorable"}
        self._move_files(side, [("file", file.path) in moved for file in self._files])
        for variable in self._variables:
            if ("variable", variable.name) in moved and variable.at != side:
                self._bind(variable, side)
        for setting in self._settings:
            if ("setting", setting.after.name) in moved and setting.at != side:
                set_setting(setting.before if side == "before" else setting.after)
                setting.at = side
        return items

    def _move_files(self, side: Side, are_moved: list[bool]) -> None:
        if self._backups is None or self._record is None:
            return
        numbers = [
            number
            for number, (file, is_moved) in enumerate(zip(self._files, are_moved, strict=True))
            if is_moved and file.at != side
        ]
        self._backups.rescue(self._record, numbers)
        self._backups.move(self._record, side, numbers)

    def _bind(self, variable: VariableRecord, side: Side) -> None:
        value = variable.before if side == "before" else variable.after
        if value is ABSENT:
            self._namespace.pop(variable.name, None)
        else:
            self._namespace[variable.name] = value
        variable.at = side


def _distinct(items: list[UndoItem]) -> list[UndoItem]:
    """Return items whose details name the exact path, if two of them look alike on display."""
    looks = [normalize("NFC", item.name).casefold() for item in items]
    counts = Counter(looks)
    return [
        item._replace(detail=f"{item.detail}; exact path {item.path!a}") if counts[look] > 1 else item
        for item, look in zip(items, looks, strict=True)
    ]


def _is_small(value: Any) -> bool:
    """Return True for a table that is compared quickly."""
    shape = getattr(value, "shape", ())
    return isinstance(shape, tuple) and len(shape) == 2 and shape[0] <= _MOST_ROWS  # noqa: PLR2004 # a table


def _is_unchanged(value: Any, mark: str) -> bool:
    return value is ABSENT or not mark or digest(value) == mark


def _setting(setting: SettingRecord, side: Side) -> UndoItem:
    here = setting.after if side == "before" else setting.before
    if not same_setting(current(here.kind, here.key), here.value):
        return UndoItem("setting", setting.after.name, "changed since", "its value changed since")
    there = setting.before if side == "before" else setting.after
    return UndoItem(
        "setting", setting.after.name, "restorable", "removed" if there.value is MISSING else "restored"
    )
