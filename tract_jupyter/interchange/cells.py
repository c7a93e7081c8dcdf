"""An entry as the type and source of a cell, and back.

A notebook's own cell is shown as it was, code as a code cell. Every other entry is shown for a reader, see
`frames`. All but its text is kept in the cell's metadata; the text is read from the source, so that it may be
edited. What stands around it is made again when the cell is read, and must be there: no role is believed that the
heading does not show.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.entries import PARTS
from tract_jupyter.interchange.frames import Frame, markdown_frame, pretty
from tract_jupyter.models.toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.interchange.entries import Entry

_TEXT_FIELDS: Final = {
    "instruction": "text",
    "dialogue": "text",
    "reasoning": "text",
    "output": "text",
    "artifact": "content",
    "session": "summary",
}
_WITH_PAYLOAD: Final = frozenset({"tool_io", "freeform"})


class CellText(NamedTuple):
    """The type and the source of a cell."""

    cell_type: str
    source: str


def to_cell(entry: Entry, language: str | None, place: str) -> CellText:
    """The cell that shows an entry, in a notebook of the given language.

    Raises:
        ContentError: a part that this type of content has is missing or ill-typed; the message begins with `place`.
    """
    try:
        cell_type, frame = _frame(entry, language)
        return CellText(cell_type, frame.around(_text(entry["content"])))
    except (KeyError, TypeError, AttributeError) as error:
        raise ContentError(
            f"{place}: this is no valid {entry['content']['content_type']} ({error!r})"
        ) from None


def from_cell(cell: CellText, rest: Any, language: str | None) -> Entry | None:
    """The entry that `without_text` made `rest` of, with the cell's text.

    None if such an entry is not shown like this: another heading, no fence, other calls, no JSON where JSON must be.
    """
    if not isinstance(rest, dict) or not rest.keys() <= PARTS.keys():
        return None
    try:
        cell_type, frame = _frame(rest, language)
        text = frame.inside(cell.source)
        if CellText(cell_type, frame.around(text)) != cell:
            return None
        for call in rest.get("metadata", {}).get("tool_calls", ()):
            ToolCall.from_dict(call)
        return {**rest, "content": _with_text(rest["content"], text)}
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def without_text(entry: Entry) -> Entry:
    """The entry without what the source of its cell says."""
    content = entry["content"]
    kind = content["content_type"]
    if _is_text_answer(content):
        rest = {**content, "payload": {"content": ""}}
    elif kind in _TEXT_FIELDS or kind in _WITH_PAYLOAD:
        rest = {key: value for key, value in content.items() if key != _TEXT_FIELDS.get(kind, "payload")}
    else:
        rest = {"content_type": kind}
    return {**entry, "content": rest}


def is_own_cell(entry: Entry, cell_type: str) -> bool:
    """Whether the entry is a cell of this type of a notebook that was read, and still what such a cell becomes."""
    about = entry.get("metadata", {}).get("notebook")
    return isinstance(about, dict) and about.get("cell_type") == cell_type == _plain_type(entry)


def _plain_type(entry: Entry) -> str | None:
    """The type of the cells that become such an entry."""
    content = entry["content"]
    if entry.get("metadata", {}).get("tool_calls"):
        return None
    if content["content_type"] == "artifact":
        return {"code": "code", "raw": "raw"}.get(content["artifact_type"])
    is_users = content["content_type"] == "dialogue" and content["role"] == "user" and not content.get("name")
    return "markdown" if is_users else None


def _frame(entry: Entry, language: str | None) -> tuple[str, Frame]:
    """The type of the cell, and what stands around the text."""
    content = entry["content"]
    plain = _plain_type(entry)
    if plain == "raw" or (plain == "code" and content.get("language") in {None, language}):
        return plain, Frame()
    if plain is not None and is_own_cell(entry, plain):
        return plain, Frame()
    is_text = content["content_type"] in _TEXT_FIELDS or _is_text_answer(content)
    return "markdown", markdown_frame(content, entry.get("metadata", {}), is_text=is_text)


def _text(content: Mapping[str, Any]) -> str:
    kind = content["content_type"]
    if kind not in _TEXT_FIELDS and not _is_text_answer(content):
        return pretty(content["payload"] if kind in _WITH_PAYLOAD else _fields(content))
    text = content[_TEXT_FIELDS[kind]] if kind in _TEXT_FIELDS else content["payload"]["content"]
    if not isinstance(text, str):
        raise TypeError(f"its text is no text but {type(text).__name__}")
    return text


def _with_text(rest: Mapping[str, Any], text: str) -> dict[str, Any]:
    kind = rest["content_type"]
    if kind in _TEXT_FIELDS:
        return {**rest, _TEXT_FIELDS[kind]: text}
    if _is_text_answer(rest):
        return {**rest, "payload": {"content": text}}
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("it is an object")
    return {**rest, "payload": value} if kind in _WITH_PAYLOAD else {**value, "content_type": kind}


def _fields(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "content_type"}


def _is_text_answer(content: Mapping[str, Any]) -> bool:
    """Whether this is a tool's word whose payload is nothing but a text."""
    payload = content.get("payload") if content["content_type"] == "tool_io" else None
    return isinstance(payload, dict) and list(payload) == ["content"] and isinstance(payload["content"], str)
