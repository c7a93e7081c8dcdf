"""Saves of the open notebook during a turn of an outside agent, told apart from other changes of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.cells.notebook_file import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tract_jupyter.notebook.cells.pages import CellPages


class _Cell(NamedTuple):
    cell_id: str
    kind: str
    source: str


class NotebookSaves:
    """The file of the open notebook since the start of a turn.

    Args:
        path: the notebook.
        pages: the pages that show it.
    """

    def __init__(self, path: Path, pages: CellPages) -> None:
        self.path = path
        self._pages = pages
        self._before = _cells_in(path)

    @property
    def is_saved_only(self) -> bool:
        """True if the file has cells of the page, or its earlier ones, in their order. The rest is not compared.

        The user may edit a cell after the save, so each cell can be an earlier one.
        """
        now = _cells_in(self.path)
        if now is None or self._before is None:
            return False
        return now == self._before or _can_come_from(now, self._before, self._on_page())

    def _on_page(self) -> list[_Cell]:
        if self._pages.connected is None:
            return []
        try:
            snapshot = self._pages.read()
        except OperationError:
            return []
        return _cells(snapshot.cells) if snapshot.page is not None else []


def _can_come_from(now: list[_Cell], before: list[_Cell], page: list[_Cell]) -> bool:
    known, kept = {*before, *page}, set(before) & set(page or before)
    has_order = any(_has_order(now, other) for other in (before, page) if other)
    return set(now) <= known and kept <= set(now) and has_order


def _has_order(cells: list[_Cell], other: list[_Cell]) -> bool:
    """Return True if the cells that both have are in the same order."""
    ids, others = ([one.cell_id or one for one in each] for each in (cells, other))  # old files have no ids
    return [one for one in ids if one in others] == [one for one in others if one in ids]


def _cells(cells: Sequence[dict[str, Any]]) -> list[_Cell]:
    return [_Cell(cell["id"], cell["kind"], cell["source"]) for cell in cells]


def _cells_in(path: Path) -> list[_Cell] | None:
    """Return the cells of the file; None if it cannot be read as a notebook."""
    try:
        return _cells(read_file(path))
    except OperationError:
        return None
