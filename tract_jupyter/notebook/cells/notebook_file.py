"""The cells in the notebook's file, for a front end without the extension."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.cells.messages import CELL_ID, source_hash

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST: Final = 200_000_000
"""Bytes."""
_KINDS: Final = frozenset({"code", "markdown", "raw"})


def read_file(path: Path | None) -> list[dict[str, Any]]:
    """Return the saved cells in the form of `messages.PageCell`. A cell without a valid id has an empty one.

    Raises:
        OperationError: the file is not known, or cannot be read as a notebook.
    """
    if path is None:
        raise OperationError(
            "no page with the JupyterLab extension is connected, and the front end does not report the notebook's "
            "file, so its cells cannot be read. Ask the user for the code"
        )
    try:
        if path.stat().st_size > _LARGEST:
            raise OperationError(f"{path.name} has over {_LARGEST:,} bytes, so it is not read")
        cells = json.loads(path.read_text("utf-8"))["cells"]
        return [_cell(cell, number) for number, cell in enumerate(cells, 1)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OperationError(
            f"{path.name} cannot be read as a notebook ({type(error).__name__}). Save the notebook, and try again"
        ) from None


def _cell(cell: dict[str, Any], number: int) -> dict[str, Any]:
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
