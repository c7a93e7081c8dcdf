"""An entry as the type and source of a cell, and back.

A notebook's own cell is shown as it was, code as a code cell. Every other entry is shown for a reader, see
`frames`. All but its text is kept in the cell's metadata; the text is read from the source, so that it may be
edited. What stands around it is made again when the cell is read, and must be there: no role is believed that the
heading does not show.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.entries import PARTS, DataReference
from tract_jupyter.models.toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tract_jupyter.interchange.entries import Entry


# ECMA-48: control sequences, strings such as titles and links (ended by BEL or ST), and two-character escapes
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def without_escapes(text: str) -> str:
    """Return the text without colours, links and movements of the cursor; no escape character is left."""
    return _ESCAPES.sub("", text).replace("\x1b", "") if "\x1b" in text else text


def as_seen(text: str) -> str:
    """Return what a terminal shows in the end: the last state of a line that is rewritten, such as a progress bar."""
    text = without_escapes(text).replace("\r\n", "\n")
    return "\n".join(_last_state(line) for line in text.split("\n")) if "\r" in text else text


def bounded(text: str, limit: int) -> tuple[str, int]:
    """Return the text in at most `limit` characters, and how many were left out.

    Head and tail are kept, and a line between them says how much is missing. `limit` must leave room for that line.
    """
    if len(text) <= limit:
        return text, 0
    kept = limit - len(_gap(len(text)))
    tail = kept // 2
    left_out = len(text) - kept
    return f"{text[: kept - tail]}{_gap(left_out)}{text[len(text) - tail :]}", left_out


def _gap(count: int) -> str:
    return f"\n[... {count:,} characters left out ...]\n"


def _last_state(line: str) -> str:
    states = [state for state in line.split("\r") if state]
    return states[-1] if states else ""


SMALLEST_LIMIT: Final = 100
"""Characters; less leaves no room to say what was left out."""

_TEXTS: Final = ("text/markdown", "text/plain", "text/latex")
_SHOWN_BY_NOTHING_ELSE: Final = re.compile(r"<IPython\.core\.display\.\w+ object>")
_ERROR_LINES = 3
_FRAME: Final = re.compile(r"(File |Cell In|Input In|<ipython-input)")
_OWN_FRAME: Final = re.compile(r"(File .*)?(Cell In|Input In|<ipython-input)")
_ARROW: Final = re.compile(r"-+> *\d+ ?(.*)")


@dataclass(slots=True)
class OutputText:
    """The text of outputs, the number of characters left out, and the data that they referred to."""

    text: str
    left_out: int = 0
    data: list[DataReference] = field(default_factory=list)


def outputs_text(outputs: Iterable[Mapping[str, Any]], limit: int) -> OutputText:
    """Return the text of outputs (nbformat 4), in at most `limit` characters.

    Of a rich output the Markdown, else the plain text, else LaTeX or JSON is taken; images, sound, video and what
    has no text are named by type, size and hash. Of an error: its name, its message, and the last lines of the
    user's own code.
    """
    pieces: list[str] = []
    data: list[DataReference] = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            pieces.append(as_seen(output["text"]))
        elif kind == "error":
            pieces.append(_error(output))
        else:
            lines, references = _bundle(output["data"])
            pieces.extend(lines)
            data.extend(references)
    text, left_out = bounded(_joined(pieces).encode(errors="replace").decode(), limit)
    return OutputText(text, left_out, data)


def _joined(pieces: list[str]) -> str:
    """Return the pieces, each on a line of its own."""
    ends = [piece if piece.endswith("\n") else f"{piece}\n" for piece in pieces[:-1]]
    return "".join((*ends, *pieces[-1:]))


def _bundle(bundle: Mapping[str, Any]) -> tuple[list[str], list[DataReference]]:
    """Return the lines of a MIME bundle, and the data that they name."""
    shown = next((bundle[kind] for kind in _TEXTS if _is_shown(bundle, kind)), None)
    if shown is None and "application/json" in bundle:
        shown = json.dumps(bundle["application/json"], ensure_ascii=False)
    lines = [] if shown is None else [as_seen(shown)]
    data = [_reference(kind, bundle[kind]) for kind in bundle if _is_named(kind, shown is None)]
    return [*lines, *map(str, data)], data


def _is_shown(bundle: Mapping[str, Any], kind: str) -> bool:
    text = bundle.get(kind)
    return isinstance(text, str) and not (kind == "text/plain" and _SHOWN_BY_NOTHING_ELSE.fullmatch(text))


def _is_named(kind: str, nothing_shown: bool) -> bool:  # noqa: FBT001 # private
    if kind.partition("/")[0] in {"image", "audio", "video"} or kind == "application/pdf":
        return True
    return nothing_shown and kind != "text/plain"


def _reference(kind: str, value: Any) -> DataReference:
    if not isinstance(value, str):
        return DataReference.of_text(kind, json.dumps(value))
    is_text = kind.startswith("text/") or kind.endswith(("+xml", "json", "javascript"))
    return DataReference.of_text(kind, value) if is_text else DataReference.of(kind, value)


def _error(output: Mapping[str, Any]) -> str:
    lines = [f"{output['ename']}: {without_escapes(output['evalue'])}"]
    own = _own_lines(without_escapes("\n".join(output["traceback"])).splitlines())
    return "\n".join([*lines, *(f"    {line}" for line in own[-_ERROR_LINES:])])


def _own_lines(traceback: list[str]) -> list[str]:
    """Return the lines of the user's code that the traceback points at; none if it is not one of IPython's."""
    own: list[str] = []
    in_own = False
    for line in traceback:
        if _FRAME.match(line):
            in_own = _OWN_FRAME.match(line) is not None
        arrow = _ARROW.match(line)
        if arrow is not None and in_own:
            own.append(arrow[1].strip())
    return own


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
