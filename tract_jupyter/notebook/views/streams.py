"""Printed text of a program, as in a notebook: overwritten lines, and colors of ANSI codes."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from tract_jupyter.models import counted
from tract_jupyter.notebook.views.html import element, fragment

if TYPE_CHECKING:
    from tract_jupyter.notebook.views.html import Html, HtmlPart

MOST_TEXT: Final = 20_000
"""The most visible characters of a stream: half from its start, half from its end."""
_HALF: Final = MOST_TEXT // 2

_MOVES = re.compile(r"((?<!\r)\r+\n|[\n\r\b]|\x1b\[\d{0,3}A)")
_OTHER_CODES = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[\d;?]*[A-Za-ln-z]|\x1b[()][A-Z0-9]")
_STYLES = re.compile(r"\x1b\[([\d;]*)m")
_COLORS: Final = (
    "#3e424d", "#e75c58", "#00a250", "#ddb62b", "#208ffb", "#d160c4", "#60c6c8", "#c5c1b4",
    "#282c36", "#b22b31", "#007427", "#b27d12", "#0065ca", "#a03196", "#258f8f", "#a1a6b2",
)  # fmt: skip
"""Jupyter's 16 colors for ANSI codes."""
_LEVELS: Final = (0, 95, 135, 175, 215, 255)  # of the 6 × 6 × 6 colours


class PrintedText:
    """Text of a stream. Carriage returns, backspaces and cursor-up codes overwrite lines, as in a terminal."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = [[]]  # characters, because changing a string copies the whole line
        self._row = 0
        self._column = 0
        self._size = 1  # of all lines, each with its line break
        self._left_out = 0
        self._head = ""

    def write(self, text: str) -> None:
        """Add text. The time is proportional to its length."""
        end = 0
        for move in _MOVES.finditer(text):
            begin, after = move.span()
            if begin > end:
                self._put(text[end:begin])
            self._move(move[0])
            end = after
        self._put(text[end:])

    def text(self) -> str:
        """Return the text, with a note in place of omitted characters."""
        text = self._joined()
        left_out = self._left_out
        if len(self._head) + len(text) <= MOST_TEXT and not left_out:
            return self._head + text
        complete = self._head + text if not left_out else ""
        head, tail = (complete[:_HALF], complete[_HALF:]) if complete else (self._head, text)
        left_out += max(len(tail) - _HALF, 0)
        note = f"\n… {counted(left_out, 'character')} not shown; print less to see all …\n"
        return f"{head}{note}{tail[-_HALF:]}"

    def _joined(self) -> str:
        return "\n".join(map("".join, self._lines))

    def _move(self, move: str) -> None:
        if move.endswith("\n"):
            self._row, self._column = self._row + 1, 0
            if self._row == len(self._lines):
                self._lines.append([])
                self._grow(1)
        elif move == "\r":
            self._column = 0
        elif move == "\b":
            self._column = max(self._column - 1, 0)
        else:
            self._row = max(self._row - int(move[2:-1] or 1), 0)

    def _put(self, piece: str) -> None:
        line = self._lines[self._row]
        before = len(line)
        end = self._column + len(piece)
        line[self._column : end] = piece
        self._column = end
        self._grow(len(line) - before)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > 2 * MOST_TEXT:
            self._shorten()

    def _shorten(self) -> None:
        """Keep only the start and the end."""
        text = self._joined()
        if not self._head:
            self._head, text = text[:_HALF], text[_HALF:]
        self._left_out += max(len(text) - _HALF, 0)
        end = text[-_HALF:]
        from_end = len(self._lines) - self._row
        self._lines = [list(line) for line in end.split("\n")]
        self._row = max(len(self._lines) - from_end, 0)
        self._column = min(self._column, len(self._lines[self._row]))
        self._size = len(end) + 1


def without_codes(text: str) -> str:
    """Return a text without its ANSI codes."""
    return _STYLES.sub("", _OTHER_CODES.sub("", text))


def ansi_html(text: str) -> Html:
    """Return a text as HTML: ANSI colors as styles, the rest escaped."""
    parts: list[HtmlPart] = []
    style: dict[str, str] = {}
    pieces = _STYLES.split(_OTHER_CODES.sub("", text))
    for number, piece in enumerate(pieces):
        if number % 2:
            _apply(piece, style)
        elif piece:
            css = ";".join(style.values())
            parts.append(element("span", piece, style=css) if css else piece)
    return fragment(parts)


_SIMPLE: Final = {
    1: ("weight", "font-weight:600"),
    2: ("weight", "opacity:.7"),
    3: ("slant", "font-style:italic"),
    4: ("line", "text-decoration:underline"),
}
_ENDS: Final = {22: "weight", 23: "slant", 24: "line", 39: "color", 49: "background-color"}


def _apply(codes: str, style: dict[str, str]) -> None:
    numbers = deque(int(number_text or 0) for number_text in codes.split(";") if len(number_text) < 4)  # noqa: PLR2004 # none is longer
    while numbers:
        code = numbers.popleft()
        if code == 0:
            style.clear()
        elif code in _SIMPLE:
            name, css = _SIMPLE[code]
            style[name] = css
        elif code in _ENDS:
            style.pop(_ENDS[code], None)
        elif code in {38, 48}:
            color = _long_color(numbers)
            name = "color" if code == 38 else "background-color"  # noqa: PLR2004 # as ANSI has it
            style |= {name: f"{name}:{color}"} if color else {}
        else:
            for first, name, start in ((30, "color", 0), (40, "background-color", 0),
                                       (90, "color", 8), (100, "background-color", 8)):  # fmt: skip
                if first <= code < first + 8:
                    style[name] = f"{name}:{_COLORS[start + code - first]}"


def _long_color(numbers: deque[int]) -> str:
    """Take one of 256 colors or an RGB color from the codes; empty if there is none."""
    kind = numbers.popleft() if numbers else 0
    if kind == 2 and len(numbers) >= 3:  # noqa: PLR2004 # as ANSI has it
        red, green, blue = (min(numbers.popleft(), 255) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    if kind != 5 or not numbers:  # noqa: PLR2004
        return ""
    number = min(numbers.popleft(), 255)
    if number < len(_COLORS):
        return _COLORS[number]
    if number >= 232:  # noqa: PLR2004 # greys
        grey = 8 + 10 * (number - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    red, green, blue = (_LEVELS[(number - 16) // step % 6] for step in (36, 6, 1))
    return f"#{red:02x}{green:02x}{blue:02x}"
