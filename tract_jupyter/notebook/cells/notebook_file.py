"""The notebook's file: its cells, for a front end without the extension, and its saves during a turn.

A save of the open notebook during a turn of an outside agent is told apart from other changes of its file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.cells.messages import CELL_ID, source_hash

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tract_jupyter.notebook.cells.pages import CellPages

_LARGEST: Final = 200_000_000
"""Bytes."""
_KINDS: Final = frozenset({"code", "markdown", "raw"})


def read_file(path: Path | None) -> list[dict[str, Any]]:
    """Return the saved cells in the form of `messages.PageCell`. A cell without a valid id has an empty one."""
    if path is None:
        raise OperationError(
            "no page with the JupyterLab extension is connected, and the front end does not report the notebook's "
            "file, so its cells cannot be read. Ask the user for the code"
        )
    try:
        if path.stat().st_size > _LARGEST:
            raise OperationError(f"{path.name} has over {_LARGEST:,} bytes, so it is not read")
        cells = json.loads(path.read_text("utf-8"))["cells"]
        return [_page_cell(cell, number) for number, cell in enumerate(cells, 1)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OperationError(
            f"{path.name} cannot be read as a notebook ({type(error).__name__}). Save the notebook, and try again"
        ) from None


def _page_cell(cell: dict[str, Any], number: int) -> dict[str, Any]:
    source = cell.get("source", "")
    source = source if isinstance(source, str) else "".join(source)
    name, count, kind = cell.get("id"), cell.get("execution_count"), str(cell.get("cell_type"))
    outputs, metadata = cell.get("outputs"), cell.get("metadata")
    mark = metadata.get("tract") if isinstance(metadata, dict) else None
    return {
        "id": name if isinstance(name, str) and CELL_ID.fullmatch(name) else "",
        "kind": kind if kind in _KINDS else "raw", "source": source,
        "hash": source_hash(source), "number": number, "execution_count": count if type(count) is int else None,
        "outputs": [one for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else [],
        "metadata_tract": mark if isinstance(mark, dict) else None,
    }  # fmt: skip


# ---- saves


class _Cell(NamedTuple):
    cell_id: str
    kind: str
    source: str


class NotebookSaves:
    """The file of the open notebook since the start of a turn."""

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
