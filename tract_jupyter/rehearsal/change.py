"""A change of variables, files and settings that was made, and its undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

Certainty = Literal["exact", "named only"]


class UndoItem(NamedTuple):
    """One thing that an undo restores, or why it cannot.

    Attributes:
        kind: A variable, a file or a setting.
        name: Its name, or the path below the workspace.
        state: `restorable`, `changed since` (it is left as it is, unless forced), or `impossible`.
        detail: The effect of the undo, or the reason, in one line.
    """

    kind: Literal["variable", "file", "setting"]
    name: str
    state: Literal["restorable", "changed since", "impossible"]
    detail: str = ""


class Change:
    """A change that was made in the kernel and the workspace.

    Attributes:
        change_id: Its id in the backups.
        variables: The names of changed variables.
        files: The paths of changed files, below the workspace.
        settings: The names of changed settings.
        certainty: `exact` for adopted effects. `named only` if the code ran in the kernel: then only the variables and
            files that the code names were saved.
        memory: The size of the earlier values that it keeps in memory, in bytes.
    """

    def __init__(
        self,
        change_id: str,
        *,
        variables: tuple[str, ...] = (),
        files: tuple[str, ...] = (),
        settings: tuple[str, ...] = (),
        certainty: Certainty = "exact",
        memory: int = 0,
    ) -> None:
        self.change_id = change_id
        self.variables = variables
        self.files = files
        self.settings = settings
        self.certainty = certainty
        self.memory = memory

    def preview(self) -> tuple[UndoItem, ...]:
        """Return the items that `undo` would restore, without changing anything."""
        raise NotImplementedError

    def undo(self, *, force: Collection[str] = ()) -> tuple[UndoItem, ...]:
        """Restore the state before the change.

        Args:
            force: Names of items to restore although they changed since.

        Returns:
            The items. `restorable` means restored; the others stay as they are.
        """
        raise NotImplementedError

    def redo(self) -> tuple[UndoItem, ...]:
        """Make the change again after an undo. Items that changed since stay as they are."""
        raise NotImplementedError
