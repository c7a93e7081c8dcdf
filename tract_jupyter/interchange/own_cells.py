"""A notebook's own cells as entries: code and raw cells are artifacts, Markdown is the user's, outputs are outputs.

The metadata `notebook` of an entry say where it was: `index` of the cell, `cell_type`, `id`, and where there are
any `tags`, `execution_count` and `attachments`; those of an output `index`, `output_of` (the cell's id), `data`
(what was named, not inlined) and `left_out` (how many characters).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.interchange.entries import Entry, entry, said
from tract_jupyter.interchange.outputs import outputs_text
from tract_jupyter.interchange.references import DataReference

if TYPE_CHECKING:
    from collections.abc import Mapping


def cell_entry(cell: Mapping[str, Any], index: int, language: str | None) -> Entry:
    """The entry of a cell without its outputs. `language` is the notebook's."""
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
    """The entry of a cell's outputs, in at most `limit` characters; None if they say nothing."""
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
    """What a cell carries, by name; of each thing its first representation."""
    bundles = (
        (name, next(iter(bundle.items()), None)) for name, bundle in cell.get("attachments", {}).items()
    )
    return {
        name: DataReference.of(*first).to_dict()
        for name, first in bundles
        if first and isinstance(first[1], str)
    }
