"""Notebooks in and out. A notebook is data: nothing in it is executed or imported.

Two laws:

* *notebook → entries → notebook* keeps the sources, types and ids of all cells, their tags and execution counts, of
  a notebook that was made elsewhere. Outputs come back as the text that was read of them.
* *entries → notebook → entries* is the identity, for entries without default parts (`entries.checked` removes them)
  and the same output limit. So a context that is written and read again gives the same messages.

The metadata `notebook` of an entry say where it was: `index` of the cell, `cell_type`, `id`, and where there are
any `tags`, `execution_count` and `attachments`; those of an output `index`, `output_of` (the cell's id), `data`
(what was named, not inlined) and `left_out` (how many characters).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.entries import PARTS, DataReference, Entry, checked, entry, entry_of, said
from tract_jupyter.interchange.outputs import SMALLEST_LIMIT, outputs_text
from tract_jupyter.models import Message, ToolCall, sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nbformat import NotebookNode


_IDS_SINCE = 5  # nbformat 4.5
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # its schema


def load_notebook(source: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """Read a notebook from a file, or from what nbformat or JSON gave; what is given stays as it is.

    Older notebooks are upgraded. Cells without an id get one that is made of their place and source, so that
    reading twice gives the same.

    Raises:
        ContentError: it cannot be read, or is not a valid notebook, or is of a version that nbformat does not know.
    """
    import nbformat
    from nbformat.reader import reads

    name, text = _name_and_json(source)
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


def _name_and_json(source: Mapping[str, Any] | str | Path) -> tuple[str, str]:
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
    the metadata `notebook`. Cells that `write_notebook` made become what they were, with their
    text as it is now; one whose heading or fence was changed is a cell like any other.

    Args:
        source: a path, or what nbformat or JSON gave. Older versions are upgraded.
        output_limit: how many characters of a cell's outputs are kept, at least 100.

    Raises:
        ContentError: it is not a valid notebook, or a text in it is not valid Unicode.
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
        ContentError: an item is not an entry.
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
    """Return True if nbformat accepts them as the tags of a cell."""
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


# --- an entry as a cell, and back
#
# A notebook's own cell is shown as it was, code as a code cell. Every other entry is shown for a reader, in a frame.
# All but its text is kept in the cell's metadata; the text is read from the source, so that it may be edited. What
# stands around it is made again when the cell is read, and must be there: no role is believed that the heading does
# not show.

_LANGUAGE: Final = re.compile(r"[\w+#.-]*")
_FENCED: Final = re.compile(r"`{3,}[^`\n]*\n(.*)\n`{3,}", re.DOTALL)
_TITLES: Final = {"instruction": "System", "reasoning": "Reasoning", "output": "Output", "freeform": "Data"}
_LISTS: Final = ("decisions", "failed_approaches", "next_steps")


class Frame(NamedTuple):
    """The frame of a text: what stands before and after it. `info` is the language of its fence, None for no fence."""

    heading: str = ""
    info: str | None = None
    tail: str = ""

    def around(self, text: str) -> str:
        """Return the framed text."""
        return f"{self.heading}{text if self.info is None else fenced(text, self.info)}{self.tail}"

    def inside(self, source: str) -> str:
        """Return the text that may have been framed. If it was, `around` gives the source back."""
        text = source.removeprefix(self.heading).removesuffix(self.tail)
        within = None if self.info is None else _FENCED.fullmatch(text)
        return within[1] if within else text


def markdown_frame(content: Mapping[str, Any], metadata: Mapping[str, Any], *, is_text: bool) -> Frame:
    """Return the frame of a content that is shown in a Markdown cell; `is_text`: not as JSON."""
    info = _info(content) if is_text else "json"
    return Frame(
        f"## {' '.join(_title(content, metadata).split())}\n\n", info, "".join(_tail(content, metadata))
    )


def fenced(text: str, info: str) -> str:
    """Return the text between backticks that do not occur in it."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def pretty(value: Any) -> str:
    """Return indented JSON for readers."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _title(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    kind: str = content["content_type"]
    if kind == "dialogue":
        role = content["role"].capitalize()
        return f"{role}: {content['name']}" if content.get("name") else f"{role}"
    if kind == "tool_io":
        return f"Tool {content['direction']}: {content['tool_name']}{' (failed)' if metadata.get('is_error') else ''}"
    if kind == "artifact":
        return f"Artifact: {content['artifact_type']}"
    if kind == "session":
        return f"Session {content['session_type']}"
    return _TITLES.get(kind, kind)


def _info(content: Mapping[str, Any]) -> str | None:
    kind = content["content_type"]
    if kind == "artifact":
        language = content.get("language") or ""
        if language == "markdown":
            return None
        return language if _LANGUAGE.fullmatch(language) else ""
    if kind == "output":
        output_format = content.get("format", "text")
        return None if output_format == "markdown" else "json" if output_format == "json" else ""
    is_answer = kind == "tool_io" or (kind == "dialogue" and content["role"] == "tool")
    return "" if is_answer else None


def _tail(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    if content["content_type"] == "session":
        for key in _LISTS:
            if content.get(key):
                title = key.replace("_", " ").capitalize()
                yield f"\n\n**{title}**\n\n" + "\n".join(f"- {item}" for item in content[key])
    for call in metadata.get("tool_calls") or ():
        yield f"\n\n**Calls {call['name']}**\n\n{fenced(pretty(call['arguments']), 'json')}"


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
    """Return the cell that shows an entry, in a notebook of the given language.

    Raises:
        ContentError: a part that this type of content has is missing or ill-typed; the message begins with `place`.
    """
    try:
        cell_type, frame = _frame(entry, language)
        return CellText(cell_type, frame.around(_text(entry["content"])))
    except (KeyError, TypeError, AttributeError) as error:
        raise ContentError(
            f"{place}: this is not a valid {entry['content']['content_type']} ({error!r})"
        ) from None


def from_cell(cell: CellText, rest: Any, language: str | None) -> Entry | None:
    """Return the entry from which `without_text` made `rest`, with the cell's text.

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
    """Return the entry without the parts that the source of its cell holds."""
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
    """Return True if the entry was read from a notebook cell of this type and still corresponds to one."""
    about = entry.get("metadata", {}).get("notebook")
    return isinstance(about, dict) and about.get("cell_type") == cell_type == _plain_type(entry)


def _plain_type(entry: Entry) -> str | None:
    """Return the type of the cells that become such an entry."""
    content = entry["content"]
    if entry.get("metadata", {}).get("tool_calls"):
        return None
    if content["content_type"] == "artifact":
        return {"code": "code", "raw": "raw"}.get(content["artifact_type"])
    is_users = content["content_type"] == "dialogue" and content["role"] == "user" and not content.get("name")
    return "markdown" if is_users else None


def _frame(entry: Entry, language: str | None) -> tuple[str, Frame]:
    """Return the type of the cell, and what stands around the text."""
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
        raise TypeError(f"its text is not a string but {type(text).__name__}")
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
    """Return True if this is a tool message whose payload is only a text."""
    payload = content.get("payload") if content["content_type"] == "tool_io" else None
    return isinstance(payload, dict) and list(payload) == ["content"] and isinstance(payload["content"], str)
