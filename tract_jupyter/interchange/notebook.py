"""Notebooks in and out. A notebook is data: nothing in it is executed or imported.

Two laws:

* *notebook → entries → notebook* keeps the sources, types and ids of all cells, their tags and execution counts, of
  a notebook that was made elsewhere. Outputs come back as the text that was read of them.
* *entries → notebook → entries* is the identity, for entries without default parts (`entries.checked` removes them)
  and the same output limit. So a context that is written and read again gives the same messages.

The metadata `notebook` of an entry say where it was: `index` of the cell, `cell_type`, `id`, and where there are
any `tags`, `execution_count` and `attachments`; those of an output `index`, `output_of` (the cell's id), `data`
(what was named, not inlined) and `left_out` (how many characters).

Two laws:

* *notebook → entries → notebook* keeps the sources, types and ids of all cells, their tags and execution counts, of
  a notebook that was made elsewhere. Outputs come back as the text that was read of them.
* *entries → notebook → entries* is the identity, for entries without default parts (`entries.checked` removes them)
  and the same output limit. So a context that is written and read again gives the same messages.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.cells import (
    SMALLEST_LIMIT,
    CellText,
    from_cell,
    is_own_cell,
    outputs_text,
    to_cell,
    without_text,
)
from tract_jupyter.interchange.entries import DataReference, Entry, checked, entry, entry_of, said
from tract_jupyter.models.canonical import sha256
from tract_jupyter.models.context import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbformat import NotebookNode


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
            f"{name} is not a notebook that nbformat {nbformat.__version__} can read: {lines[0]:.200}; "
            "open it in Jupyter and save it, or repair its JSON"
        ) from None
    return notebook


def unused_id(wanted: Any, seed: str, used: set[str]) -> str:
    """Return `wanted` if it is a valid cell id not yet in `used`, otherwise one made from `seed`; add it to `used`."""
    given, attempt = wanted, 0
    while not _is_id(given) or given in used:
        given = sha256(f"{attempt}:{seed}".encode(errors="replace"))[:8]
        attempt += 1
    used.add(given)
    return str(given)


def _is_id(given: Any) -> bool:
    return isinstance(given, str) and _ID.fullmatch(given) is not None


def _text(source: Mapping[str, Any] | str | Path) -> tuple[str, str]:
    """Return the name of the notebook for errors, and its JSON."""
    if isinstance(source, str | Path):
        try:
            return str(source), Path(source).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise ContentError(f"the notebook {source} cannot be read: {error}") from None
    try:
        return "this", json.dumps(source)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContentError(
            f"this is not a notebook: {error}; give a path, or what nbformat.read returned"
        ) from None


def _identify(notebook: dict[str, Any], *, keep: bool) -> None:
    used: set[str] = set()
    for index, cell in enumerate(notebook["cells"]):
        cell["id"] = unused_id(cell.get("id") if keep else None, f"{index}:{cell['source']}", used)
    notebook["nbformat_minor"] = max(notebook["nbformat_minor"], _IDS_SINCE)


def cell_entry(cell: Mapping[str, Any], index: int, language: str | None) -> Entry:
    """Return the entry of a cell without its outputs. `language` is the notebook's."""
    about = {"index": index, "cell_type": cell["cell_type"], "id": cell["id"]}
    about.update(
        (key, value)
        for key, value in (
            ("tags", cell["metadata"].get("tags")),
            ("execution_count", cell.get("execution_count")),
            ("attachments", _attachments(cell)),
        )
        if value or value == 0
    )
    if cell["cell_type"] == "markdown":
        return said("user", cell["source"], metadata={"notebook": about})
    content = {"content_type": "artifact", "artifact_type": cell["cell_type"], "content": cell["source"]}
    if cell["cell_type"] == "code" and language:
        content["language"] = language
    return entry(content, {"notebook": about})


def output_entry(cell: Mapping[str, Any], index: int, limit: int) -> Entry | None:
    """Return the entry of a cell's outputs, in at most `limit` characters; None if they say nothing."""
    said_there = outputs_text(cell.get("outputs", ()), limit)
    if not said_there.text:
        return None
    about: dict[str, Any] = {"index": index, "output_of": cell["id"]}
    if said_there.data:
        about["data"] = [reference.to_dict() for reference in said_there.data]
    if said_there.left_out:
        about["left_out"] = said_there.left_out
    return entry({"content_type": "output", "text": said_there.text}, {"notebook": about})


def _attachments(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's attachments by name, each in its first representation."""
    bundles = (
        (name, next(iter(bundle.items()), None)) for name, bundle in cell.get("attachments", {}).items()
    )
    return {
        name: DataReference.of(*first).to_dict()
        for name, first in bundles
        if first and isinstance(first[1], str)
    }


OUTPUT_LIMIT: Final = 4000
"""Characters of a cell's outputs that are kept, if nobody says otherwise: about a thousand tokens."""

_KEY = "tract"  # in the metadata of a cell or output that is more than it looks
_MINOR = 5  # nbformat 4.5 gave cells their ids


def read_notebook(source: Mapping[str, Any] | str | Path, *, output_limit: int = OUTPUT_LIMIT) -> list[Entry]:
    """Return the entries of a notebook's cells, in their order.

    A code cell becomes an artifact of type `code` in the notebook's language, a raw cell one of type `raw`,
    Markdown what the user says; a cell's outputs follow it as one output, see `outputs`. Where the cells were is in
    the metadata `notebook`, see `own_cells`. Cells that `write_notebook` made become what they were, with their
    text as it is now; one whose heading or fence was changed is a cell like any other.

    Args:
        source: a path, or what nbformat or JSON gave. Older versions are upgraded.
        output_limit: how many characters of a cell's outputs are kept, at least 100.

    Raises:
        ContentError: it is no valid notebook, or a text in it is no Unicode.
    """
    if output_limit < SMALLEST_LIMIT:
        raise ContentError(
            f"output_limit is a number of characters, at least {SMALLEST_LIMIT}; got {output_limit}"
        )
    notebook = load_notebook(source)
    language = _language_of(notebook["metadata"])
    entries: list[Entry] = []
    for index, cell in enumerate(notebook["cells"]):
        known = from_cell(CellText(cell["cell_type"], cell["source"]), cell["metadata"].get(_KEY), language)
        entries.append(checked(known or cell_entry(cell, index, language), f"cell {index}"))
        output = _written_output(cell) or output_entry(cell, index, output_limit)
        if output is not None:
            entries.append(checked(output, f"the outputs of cell {index}"))
    return entries


def write_notebook(items: Iterable[Entry | Message], *, language: str | None = None) -> NotebookNode:
    """Return a notebook that shows a context.

    Cells of a notebook that was read come back as they were, code becomes code cells, and everything else Markdown
    under a heading that says who speaks; calls, results and JSON stand in fenced blocks. The metadata `tract` of a
    cell keep what its text does not say.

    Args:
        items: entries or messages.
        language: the notebook's; if left out, that of the first code, else Python.

    Raises:
        ContentError: an item is no entry.
    """
    import nbformat

    entries = [
        entry_of(item) if isinstance(item, Message) else checked(item, f"entry {index}")
        for index, item in enumerate(items)
    ]
    writer = _Writer(language or _first_language(entries) or "python")
    for index, item in enumerate(entries):
        writer.add(item, f"entry {index}")
    metadata = {"language_info": {"name": writer.language}}
    shape = {"cells": writer.cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": _MINOR}
    notebook: NotebookNode = nbformat.from_dict(shape)  # type: ignore[no-untyped-call]
    return notebook


class _Writer:
    """Makes the cells of one notebook."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.cells: list[dict[str, Any]] = []
        self._ids: set[str] = set()

    def add(self, entry: Entry, place: str) -> None:
        """Add a cell, or the outputs of the last one."""
        text = to_cell(entry, self.language, place)
        if self._is_output_of_last(entry):
            self._add_output(entry)
            return
        about = entry["metadata"]["notebook"] if is_own_cell(entry, text.cell_type) else {}
        index = len(self.cells)
        cell = _cell(text, about, unused_id(about.get("id"), f"{index}:{text.source}", self._ids))
        if cell_entry(cell, index, self.language) != entry:
            cell["metadata"][_KEY] = without_text(entry)
        self.cells.append(cell)

    def _is_output_of_last(self, entry: Entry) -> bool:
        about = entry.get("metadata", {}).get("notebook")
        if entry["content"]["content_type"] != "output" or not isinstance(about, dict) or not self.cells:
            return False
        last = self.cells[-1]
        return last["id"] == about.get("output_of") and last.get("outputs") == []

    def _add_output(self, entry: Entry) -> None:
        cell = self.cells[-1]
        output = {
            "output_type": "display_data",
            "data": {"text/plain": entry["content"]["text"]},
            "metadata": {},
        }
        cell["outputs"] = [output]
        if output_entry(cell, len(self.cells) - 1, OUTPUT_LIMIT) != entry:
            output["metadata"] = {_KEY: without_text(entry)}


def _cell(text: CellText, about: Mapping[str, Any], cell_id: str) -> dict[str, Any]:
    tags = about.get("tags")
    cell: dict[str, Any] = {
        "cell_type": text.cell_type,
        "id": cell_id,
        "metadata": {"tags": tags} if _are_tags(tags) else {},
        "source": text.source,
    }
    if text.cell_type == "code":
        count = about.get("execution_count")
        cell["execution_count"] = count if type(count) is int and count >= 0 else None
        cell["outputs"] = []
    return cell


def _are_tags(given: Any) -> bool:
    """Return True if nbformat accepts the outputs."""
    if not isinstance(given, list) or not all(
        isinstance(tag, str) and tag and "," not in tag for tag in given
    ):
        return False
    return len(set(given)) == len(given) > 0


def _written_output(cell: Mapping[str, Any]) -> Entry | None:
    """Return the entry that was written as the outputs of the cell."""
    outputs = cell.get("outputs", ())
    if len(outputs) != 1 or outputs[0]["output_type"] != "display_data":
        return None
    rest, text = outputs[0]["metadata"].get(_KEY), outputs[0]["data"].get("text/plain")
    content = rest.get("content") if isinstance(rest, dict) else None
    if not isinstance(content, dict) or content.get("content_type") != "output" or not isinstance(text, str):
        return None
    return {**rest, "content": {**content, "text": text}}


def _language_of(metadata: Mapping[str, Any]) -> str | None:
    language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language")
    return language if isinstance(language, str) else None


def _first_language(entries: list[Entry]) -> str | None:
    contents = (entry["content"] for entry in entries if entry["content"].get("artifact_type") == "code")
    return next((c["language"] for c in contents if isinstance(c.get("language"), str)), None)
