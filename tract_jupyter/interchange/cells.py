"""An entry as the type and source of a cell, and back.

A notebook's own cell is shown as it was. Every other entry is shown for a reader: a heading says who speaks or what it is,
then comes the text (code that is not the notebook's, results and JSON in a fence), then what belongs to it (calls, the lists
of a session). All but the text is kept in the cell's metadata; the text is read from the source, so that it may be edited.
What stands around it is made again when the cell is read, and must be there: a role that the heading does not show is not
believed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json

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
_LANGUAGE: Final = re.compile(r"[\w+#.-]*")
_FENCE: Final = re.compile(r"(`{3,})[^`\n]*\n(.*)\n(`{3,})", re.DOTALL)


class CellText(NamedTuple):
    """The type and the source of a cell."""

    cell_type: str
    source: str


class _Frame(NamedTuple):
    """What stands around the text of an entry. `info` is the fence's language; None where there is no fence."""

    cell_type: str
    heading: str = ""
    info: str | None = None
    tail: str = ""


def to_cell(entry: Entry, language: str, place: str) -> CellText:
    """The cell that shows an entry, in a notebook of the given language.

    Raises:
        ContentError: a part that this type of content has is missing or no text; the message begins with `place`.
    """
    try:
        body = _body(entry["content"])
        frame = _frame(entry, language)
    except (KeyError, TypeError, AttributeError) as error:
        raise ContentError(f"{place}: this is no valid {entry['content']['content_type']} ({error!r})") from None
    if frame.info is not None:
        fence = _fence(body)
        body = f"{fence}{frame.info}\n{body}\n{fence}"
    return CellText(frame.cell_type, f"{frame.heading}{body}{frame.tail}")


def from_cell(cell: CellText, rest: Any, language: str) -> Entry | None:
    """The entry whose `without_text` is `rest`, with the text of the cell; None if no such entry looks like the cell."""
    try:
        frame = _frame(rest, language)
        body = cell.source.removeprefix(frame.heading).removesuffix(frame.tail)
        fenced = _FENCE.fullmatch(body) if frame.info is not None else None
        content = _with_body(rest["content"], fenced[2] if fenced else body)
        entry = {**rest, "content": content}
        return entry if to_cell(entry, language, "") == cell else None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def without_text(entry: Entry) -> Entry:
    """The entry without what the source of its cell says."""
    content = entry["content"]
    shown = {_TEXT_FIELDS.get(content["content_type"])} or set()
    kept = _kept(content)
    return {**entry, "content": {key: content[key] for key in kept if key not in shown}}


def is_own_cell(entry: Entry, cell_type: str) -> bool:
    """Whether the entry is a cell of this type of a notebook that was read, and still what such a cell becomes."""
    about = entry.get("metadata", {}).get("notebook")
    return isinstance(about, dict) and about.get("cell_type") == cell_type == _plain_type(entry["content"])


def _plain_type(content: Mapping[str, Any]) -> str | None:
    if content["content_type"] == "artifact":
        return {"code": "code", "raw": "raw"}.get(content["artifact_type"])
    is_users = content["content_type"] == "dialogue" and content["role"] == "user" and not content.get("name")
    return "markdown" if is_users else None


def _frame(entry: Entry, language: str) -> _Frame:
    content = entry["content"]
    plain = _plain_type(content)
    if plain == "raw" or (plain == "code" and content.get("language") in {None, language}):
        return _Frame(plain)
    if plain is not None and is_own_cell(entry, plain):
        return _Frame(plain)
    metadata = entry.get("metadata", {})
    return _Frame("markdown", f"## {_title(content, metadata)}\n\n", _info(content), _tail(content, metadata))


def _title(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    kind = content["content_type"]
    if kind == "dialogue":
        title = f"{content['role'].capitalize()}: {content['name']}" if content.get("name") else content["role"].capitalize()
    elif kind == "tool_io":
        failed = content["direction"] == "result" and metadata.get("is_error")
        title = f"Tool {content['direction']}: {content['tool_name']}{' (failed)' if failed else ''}"
    elif kind == "artifact":
        title = f"Artifact: {content['artifact_type']}"
    elif kind == "session":
        title = f"Session {content['session_type']}"
    else:
        title = {"instruction": "System", "reasoning": "Reasoning", "output": "Output", "freeform": "Data"}.get(kind, kind)
    return " ".join(title.split())


def _info(content: Mapping[str, Any]) -> str | None:
    """The language of the fence; None for prose."""
    kind = content["content_type"]
    if kind in {"instruction", "reasoning", "session"} or (kind == "dialogue" and content["role"] != "tool"):
        return None
    if kind == "artifact":
        name = content.get("language") or ""
        return None if name == "markdown" else name if _LANGUAGE.fullmatch(name) else ""
    if kind == "output":
        return {"markdown": None, "json": "json"}.get(content.get("format", "text"), "")
    return "" if kind == "dialogue" or _is_text_answer(content) else "json"


def _tail(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    lists = (
        f"\n\n**{key.replace('_', ' ').capitalize()}**\n\n" + "\n".join(f"- {item}" for item in content[key])
        for key in ("decisions", "failed_approaches", "next_steps")
        if content["content_type"] == "session" and content.get(key)
    )
    calls = (
        f"\n\n**Calls {call['name']}**\n\n{fence}json\n{arguments}\n{fence}"
        for call in metadata.get("tool_calls", ())
        for arguments in [_pretty(call["arguments"])]
        for fence in [_fence(arguments)]
    )
    return "".join((*lists, *calls))


def _body(content: Mapping[str, Any]) -> str:
    """The text of the content, which the source shows."""
    field = _TEXT_FIELDS.get(content["content_type"])
    text = content[field] if field else content["payload"]["content"] if _is_text_answer(content) else None
    if text is None:
        return _pretty(_shown_value(content))
    if not isinstance(text, str):
        raise TypeError(f"{field} is text, not {type(text).__name__}")
    return text


def _with_body(rest: Mapping[str, Any], body: str) -> dict[str, Any]:
    """The content whose other parts are `rest`."""
    kind = rest["content_type"]
    if kind in _TEXT_FIELDS:
        return {**rest, _TEXT_FIELDS[kind]: body}
    if _is_text_answer(rest):
        return {**rest, "payload": {"content": body}}
    value = json.loads(body)
    return {**rest, "payload": value} if kind in {"tool_io", "freeform"} else {**value, **rest}


def _kept(content: Mapping[str, Any]) -> list[str]:
    """The keys of a content that its cell's metadata keep; the text field is among them."""
    kind = content["content_type"]
    if kind in _TEXT_FIELDS:
        return list(content)
    if kind in {"tool_io", "freeform"}:
        return [key for key in content if key != "payload"]
    return ["content_type"]


def _is_text_answer(content: Mapping[str, Any]) -> bool:
    ...


def _shown_value(content: Mapping[str, Any]) -> Any:
    if content["content_type"] in {"tool_io", "freeform"}:
        return content["payload"]
    return {key: value for key, value in content.items() if key != "content_type"}


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _fence(text: str) -> str:
    """Backticks that do not occur in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)
