"""Cells and their outputs as data for a model: bounded texts and images, without keys."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AttachmentError
from tract_jupyter.llm import why_not_sent
from tract_jupyter.models import AttachedFile, cut_middle
from tract_jupyter.notebook.cells.edits import LONGEST_SOURCE
from tract_jupyter.notebook.cells.messages import source_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.notebook.cells.edits import KnownTexts

_LONGEST_OUTPUT: Final = 6_000
_LONGEST_CHECKED: Final = 200_000
_MOST_OUTPUTS: Final = 20
_LARGEST_IMAGE: Final = 1_000_000
"""Bytes."""
_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")


def cell_data(cell: Mapping[str, Any], known: KnownTexts) -> dict[str, Any]:
    """Return a cell for a model.

    Only a cell with its whole source has a hash, so only such a cell can be edited. In JSON with sorted keys, the hash
    follows the source, so the beginning of a long answer does not have it.
    """
    data: dict[str, Any] = {"id": cell["id"], "number": cell["number"], "kind": cell["kind"]}
    if cell["execution_count"] is not None:
        data["execution_count"] = cell["execution_count"]
    source = cell["source"]
    if len(source) > LONGEST_SOURCE or cell["hash"] != source_hash(source):  # the page cut it
        return {**data, "source": _sendable(source, LONGEST_SOURCE // 10), "note": "too long to edit here"}
    why = why_not_sent(source)
    if why:
        return {**data, "note": f"not shown, because it {why}"}
    return {**data, "source": source, **({"source_hash": known.add(cell)} if cell["id"] else {})}


def output_data(cell: Mapping[str, Any]) -> list[str]:
    """Return the texts of a cell's outputs."""
    outputs = cell.get("outputs") or []
    texts = [_sendable(text, _LONGEST_OUTPUT) for text in map(_text_of, outputs[:_MOST_OUTPUTS]) if text]
    more = len(outputs) - _MOST_OUTPUTS
    return [*texts, *([f"[{more:,} more outputs]"] if more > 0 else [])]


def output_images(cell: Mapping[str, Any]) -> Iterator[AttachedFile]:
    """Yield the PNG images of a cell's outputs. Only their headers are read."""
    for output in (cell.get("outputs") or [])[:_MOST_OUTPUTS]:
        encoded = _joined(_data(output).get("image/png"))
        if 0 < len(encoded) <= _LARGEST_IMAGE * 4 // 3:
            with suppress(AttachmentError, ValueError):
                yield AttachedFile.of(f"cell {cell['number']}.png", base64.b64decode(encoded))


def _text_of(output: Mapping[str, Any]) -> str:
    kind, data = output.get("output_type"), _data(output)
    if kind == "stream":
        return _joined(output.get("text"))
    if kind == "error":
        head = f"{_joined(output.get('ename'))}: {_joined(output.get('evalue'))}"
        traceback = output.get("traceback")
        return "\n".join(
            [
                *filter(lambda line: isinstance(line, str), traceback if isinstance(traceback, list) else ()),
                head,
            ]
        )
    others = sorted(str(name)[:60] for name in data if name != "text/plain")
    note = f"[also as {', '.join(others[:5])}]" if others else ""
    return "\n".join(filter(None, [_joined(data.get("text/plain")), note]))


def _data(output: Mapping[str, Any]) -> dict[str, Any]:
    data = output.get("data")
    return data if isinstance(data, dict) else {}


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _sendable(text: str, limit: int) -> str:
    """Return a text without escapes for a terminal, cut in the middle; without it, if it may have a key."""
    plain = _ANSI.sub("", text[:_LONGEST_CHECKED])
    why = why_not_sent(plain)
    return f"[not shown, because it {why}]" if why else cut_middle(plain, limit)
