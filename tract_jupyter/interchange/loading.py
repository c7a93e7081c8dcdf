"""Notebooks of any version, as valid notebooks of nbformat 4.5 or later, in which each cell has an id."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDS_SINCE = 5  # nbformat 4.5
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # its schema


def load_notebook(source: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """Read a notebook from a file, or from what nbformat or JSON gave; what is given stays as it is.

    Older notebooks are upgraded. Cells without an id get one that is made of their place and source, so that
    reading twice gives the same.

    Raises:
        ContentError: it cannot be read, or is no valid notebook, or is of a version that nbformat does not know.
    """
    import nbformat
    from nbformat.reader import reads

    name, text = _text(source)
    try:
        read = reads(text)  # type: ignore[no-untyped-call]
        keeps_ids = (read["nbformat"], read.get("nbformat_minor", 0)) >= (4, _IDS_SINCE)
        notebook: dict[str, Any] = nbformat.convert(read, 4)  # type: ignore[no-untyped-call]
        _identify(notebook, keep=keeps_ids)
        nbformat.validate(notebook)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        nbformat.ValidationError,
    ) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise ContentError(
            f"{name} is no notebook that nbformat {nbformat.__version__} can read: {lines[0]:.200}; "
            "open it in Jupyter and save it, or repair its JSON"
        ) from None
    return notebook


def unused_id(wanted: Any, seed: str, used: set[str]) -> str:
    """`wanted` if it may be a cell's id and is not used yet, else one that is made of `seed`; adds it to `used`."""
    given, attempt = wanted, 0
    while not _is_id(given) or given in used:
        given = sha256(f"{attempt}:{seed}".encode(errors="replace"))[:8]
        attempt += 1
    used.add(given)
    return str(given)


def _is_id(given: Any) -> bool:
    return isinstance(given, str) and _ID.fullmatch(given) is not None


def _text(source: Mapping[str, Any] | str | Path) -> tuple[str, str]:
    """How the notebook is called in an error, and its JSON."""
    if isinstance(source, str | Path):
        try:
            return str(source), Path(source).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise ContentError(f"the notebook {source} cannot be read: {error}") from None
    try:
        return "this", json.dumps(source)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContentError(
            f"this is no notebook: {error}; give a path, or what nbformat.read returned"
        ) from None


def _identify(notebook: dict[str, Any], *, keep: bool) -> None:
    used: set[str] = set()
    for index, cell in enumerate(notebook["cells"]):
        cell["id"] = unused_id(cell.get("id") if keep else None, f"{index}:{cell['source']}", used)
    notebook["nbformat_minor"] = max(notebook["nbformat_minor"], _IDS_SINCE)
