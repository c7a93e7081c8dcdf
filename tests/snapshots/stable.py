"""Compare a text that users see with a file. Times, ids and hashes are replaced first."""

from __future__ import annotations

import difflib
import os
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

FOLDER = Path(__file__).parent
UPDATE = "TRACT_UPDATE_SNAPSHOTS"
COMMAND = f"{UPDATE}=1 python -m pytest tests/snapshots"
_TIME = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|[+-]\d\d:\d\d)?")
_WHEN = re.compile(r"\b\d{1,2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d\d:\d\d\b")
_CELL = re.compile(r"(<|&lt;)ipython-input-\d+-[0-9a-f]+(>|&gt;)")
_HASH = re.compile(r"\b[0-9a-f]{8,64}(?:-[0-9a-f]{4}){0,3}\b")
_CUT_HASH = re.compile(r"\b[0-9a-f]{1,7} …")
_QUOTED = re.compile(r"( name: )'(<id \d+>)'$", re.MULTILINE)  # YAML quotes a short hash of digits only
_SIZE = re.compile(r"(sha256 <id \d+>), [\d,]+ characters")
_MEASURED = re.compile(r"\b\d+\.\d{6,}\b")
_SECONDS = re.compile(r"\b\d+(\.\d+)? (ms|s)\b")


def check(name: str, text: str) -> None:
    """Compare a text with the snapshot of that name, or write it if the environment asks for an update."""
    path = FOLDER / name
    text = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return
    kept = path.read_text() if path.exists() else ""
    difference = list(
        difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", lineterm="", n=2)
    )
    assert not difference, "\n".join(
        [f"{name} has changed. If the change is wanted: {COMMAND}", *difference[:200]]
    )


def stable(text: str, *paths: Path) -> str:
    """Replace the paths of this run, times, durations, ids and hashes; equal hashes become equal numbers."""
    for path in paths:
        text = text.replace(str(path), "<folder>")
    text = _CELL.sub("<cell>", _WHEN.sub("<time>", _TIME.sub("<time>", text)))
    text = _MEASURED.sub("<measured>", text)
    numbers: dict[str, int] = {}
    text = _HASH.sub(lambda found: f"<id {numbers.setdefault(found[0][:8], len(numbers) + 1)}>", text)
    text = _QUOTED.sub(r"\1\2", text)
    text = _CUT_HASH.sub("<cut> …", _SIZE.sub(r"\1, <size> characters", text))
    return _SECONDS.sub("<duration>", text)


_BLOCKS = {
    "details", "summary", "div", "p", "pre", "table", "tr", "ul", "ol", "li", "section", "h1", "h2", "h3", "h4", "svg",
}  # fmt: skip
_EMPTY = {"br", "hr", "img", "input"}
_UNSEEN = {"style", "thead", "tbody"}
_KEPT = ("class", "role", "aria-label", "title", "data-testid", "data-status", "open")


class _Outline(HTMLParser):
    """Writes each block of a page on a line, indented by its depth, without manual pages of rules."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.line = ""
        self.open: list[tuple[str, bool]] = []
        self.skipped_from = 0

    def end_line(self) -> None:
        depth = sum(tag in _BLOCKS for tag, _ in self.open)
        self.lines += [" " * depth + part.rstrip() for part in self.line.split("\n") if part.strip()]
        self.line = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kept = "".join(f' {name}="{value or ""}"' for name, value in attrs if name in _KEPT and value != "")
        is_block = tag in _BLOCKS
        is_named = bool(re.search(r"(class=\"\w{3}|label|title)", kept))
        is_shown = tag not in _UNSEEN and (is_named or tag not in {"span", "i"})
        if not self.skipped_from:
            if is_block:
                self.end_line()
            self.line += f"<{tag}{kept}>" if is_shown else " " if kept == ' class="c"' else ""
            self.line += " " if is_block or tag in {"td", "th"} else ""
        if tag not in _EMPTY:
            self.open.append((tag, is_shown))
            if tag == "style" or kept == ' class="page"':
                self.skipped_from = self.skipped_from or len(self.open)

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS and not self.skipped_from:
            self.end_line()
        if tag not in _EMPTY:
            is_skipped = bool(self.skipped_from)
            if len(self.open) == self.skipped_from:
                self.skipped_from = 0
            _, is_shown = self.open.pop()
            is_closed = is_shown and not is_skipped and tag not in {*_BLOCKS, "td", "th"}
            self.line += f"</{tag}>" if is_closed else " " if tag in {"td", "th"} else ""

    def handle_data(self, data: str) -> None:
        if not self.skipped_from:
            self.line += escape(data, quote=False)


def outline(html: str) -> str:
    """Return a page as indented lines without styles, syntax colors and keys."""
    parser = _Outline()
    parser.feed(html)
    parser.close()
    parser.end_line()
    return "\n".join(parser.lines)
