"""The text of a cell's outputs, as plain text in bounds: what a reader of a terminal or a notebook sees."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.interchange.entries import DataReference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
