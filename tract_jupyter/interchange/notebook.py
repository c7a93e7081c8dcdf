"""Notebooks in and out. A notebook is data: nothing in it is executed or imported.

Two laws:

* *notebook → entries → notebook* keeps the sources, types and ids of all cells, their tags and execution counts, of
  a notebook that was made elsewhere. Outputs come back as the text that was read of them.
* *entries → notebook → entries* is the identity, for entries without default parts (`entries.checked` removes them)
  and the same output limit. So a context that is written and read again gives the same messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.cells import CellText, from_cell, is_own_cell, to_cell, without_text
from tract_jupyter.interchange.entries import Entry, checked, entry_of
from tract_jupyter.interchange.loading import load_notebook, unused_id
from tract_jupyter.interchange.outputs import SMALLEST_LIMIT
from tract_jupyter.interchange.own_cells import cell_entry, output_entry
from tract_jupyter.models.context import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from nbformat import NotebookNode

OUTPUT_LIMIT: Final = 4000
"""Characters of a cell's outputs that are kept, if nobody says otherwise: about a thousand tokens."""

_KEY = "tract"  # in the metadata of a cell or output that is more than it looks
_MINOR = 5  # nbformat 4.5 gave cells their ids


def read_notebook(source: Mapping[str, Any] | str | Path, *, output_limit: int = OUTPUT_LIMIT) -> list[Entry]:
    """The entries of a notebook's cells, in their order.

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
    """A notebook that shows a context.

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
    for index, entry in enumerate(entries):
        writer.add(entry, f"entry {index}")
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
    """Whether nbformat takes them."""
    if not isinstance(given, list) or not all(
        isinstance(tag, str) and tag and "," not in tag for tag in given
    ):
        return False
    return len(set(given)) == len(given) > 0


def _written_output(cell: Mapping[str, Any]) -> Entry | None:
    """The entry that was written as the outputs of the cell."""
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
