"""The outputs of a cell as one bounded text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.interchange.plain_text import as_seen, bounded, without_escapes
from tract_jupyter.interchange.references import DataReference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    """What outputs say: their text, how many characters were left out, what data were there."""

    text: str
    left_out: int = 0
    data: list[DataReference] = field(default_factory=list)


def outputs_text(outputs: Iterable[Mapping[str, Any]], limit: int) -> OutputText:
    """The text of outputs (nbformat 4), in at most `limit` characters.

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
    """The pieces, each on a line of its own."""
    ends = [piece if piece.endswith("\n") else f"{piece}\n" for piece in pieces[:-1]]
    return "".join((*ends, *pieces[-1:]))


def _bundle(bundle: Mapping[str, Any]) -> tuple[list[str], list[DataReference]]:
    """The lines of a MIME bundle, and the data that they name."""
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
    """The lines of the user's code that the traceback points at; none if it is not one of IPython's."""
    own: list[str] = []
    in_own = False
    for line in traceback:
        if _FRAME.match(line):
            in_own = _OWN_FRAME.match(line) is not None
        arrow = _ARROW.match(line)
        if arrow is not None and in_own:
            own.append(arrow[1].strip())
    return own
