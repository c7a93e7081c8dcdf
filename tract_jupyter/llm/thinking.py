"""Reasoning that a server leaves in the text of a reply, between tags such as `<think>` and `</think>`.

It is at the beginning of the text, or in separate lines. Many servers send only the closing tag, since the prompt
has the opening one.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.models import Delta

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES: Final = ("think", "thinking", "thought", "seed:think")
_TAGS: Final = {
    **{f"<{name}>": f"</{name}>" for name in _NAMES},
    "[think]": "[/think]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi
}
_OPENING: Final = re.compile("|".join(map(re.escape, _TAGS)), re.IGNORECASE)
_CLOSING: Final = re.compile("|".join(map(re.escape, _TAGS.values())), re.IGNORECASE)
_LONGEST: Final = max(map(len, _TAGS.values()))
_MOST: Final = 50
"""How many tags of a reply are looked at: each takes time in proportion to the text."""
_MOST_SPACE: Final = 1_000
"""The most white space before a tag at the beginning of a stream."""
# also within lists and quotes
_FENCE: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*(`{3,}|~{3,})")
_ITEM: Final = re.compile(r" *(?:[-*+]|\d+[.)]) +")
_CODE_INDENT: Final = 4
_NEAR: Final = 20_000
"""The characters before and after a tag in which HTML is looked for."""
_HTML_CODE: Final = re.compile(r"<(/?)(code|pre|kbd|samp|tt)\b[^<>]*>", re.IGNORECASE)
_TICKS: Final = re.compile("`+")
_SENTENCE_ENDS: Final = tuple(""".!?:;…。)]}"'*`""")
_CONTINUES: Final = re.compile(r"[ \t]+[a-z]|[.,;:!?)]")
"""The text after a tag that a sentence mentions."""
_QUOTES: Final = {('"', '"'), ("'", "'"), ("“", "”"), ("(", ")"), ("«", "»")}


class ThoughtAndText(NamedTuple):
    """The reasoning of a reply, and its text without that."""

    thought: str
    text: str


def split_thought(text: str, known: str = "") -> ThoughtAndText:
    """Return the reasoning that a text contains between tags, and the rest. Tags in code or in a sentence are text.

    A text with an opening tag at its beginning, but no closing tag, was cut within the reasoning.

    Args:
        text: the text of a reply.
        known: reasoning from another field. A closing tag within the text then does not end reasoning.
    """
    thoughts, rest, place = [], text, 0
    end = None if _OPENING.match(text.lstrip()) else _lone_end(text, at_start=bool(known))
    if end is not None:
        thoughts, rest = [text[: end.start()]], text[end.end() :].lstrip()
    for _ in range(_MOST):
        opened = _OPENING.search(rest, place)
        if opened is None:
            break
        before = rest[: opened.start()]
        is_first = not before.strip()
        end = _end(rest, opened.end(), is_first=is_first)
        if end is None and not is_first:
            break
        if not is_first and (before.rpartition("\n")[2].strip() or _is_code(before, rest[opened.end() :])):
            place = opened.end()
            continue
        thoughts.append(rest[opened.end() : end.start() if end else None])
        after = rest[end.end() :].lstrip() if end else ""
        rest, place = ("" if is_first else before) + after, 0 if is_first else len(before)
    if not thoughts:
        return ThoughtAndText(known, text)
    new = [thought for thought in map(str.strip, thoughts) if thought not in known]
    return ThoughtAndText("\n\n".join(filter(None, [known, *new])), rest)


def _end(text: str, begin: int, *, is_first: bool) -> re.Match[str] | None:
    """Return the closing tag of the reasoning that begins at a place: the first one that is not in code."""
    tags = list(islice(_CLOSING.finditer(text, begin), _MOST))
    ends = [tag for tag in tags if not _is_code(text[begin : tag.start()], text[tag.end() :])]
    if is_first:
        return next(iter([*ends, *tags]), None)
    return next(
        (tag for tag in ends if not _is_mentioned(text[begin : tag.start()], text[tag.end() :])), None
    )


def _lone_end(text: str, *, at_start: bool) -> re.Match[str] | None:
    """Return the closing tag that ends reasoning without an opening tag; None if there is none."""
    for tag in islice(_CLOSING.finditer(text), _MOST):
        before, after = text[: tag.start()], text[tag.end() :]
        if (at_start and before.strip()) or _has_opening(before):
            return None
        if not _is_code(before, after) and not _is_mentioned(before, after):
            return tag
    return None


def _is_code(before: str, after: str) -> bool:
    """Return True if a tag between two texts is in code: of Markdown or HTML, fenced, inline or indented."""
    opened = deque(_HTML_CODE.finditer(before[-_NEAR:]), maxlen=1)
    closed = _HTML_CODE.search(after[:_NEAR]) if opened and not opened[0][1] else None
    return bool(closed and closed[1]) or _is_indented(before) or _is_fenced(before)


def _is_indented(before: str) -> bool:
    """Return True if a text ends in a line that is indented code. Indented lines of a list or paragraph are none."""
    *lines, line = before.expandtabs(_CODE_INDENT).split("\n")
    indent = _indent(line)
    if indent < _CODE_INDENT or not before.strip():
        return False
    above = next(
        (earlier for earlier in reversed(lines) if earlier.strip() and _indent(earlier) < indent), ""
    )
    item = _ITEM.match(above)
    if indent - (item.end() if item else 0) < _CODE_INDENT:
        return False
    continues = bool(lines and lines[-1].strip()) and _indent(lines[-1]) < indent
    return not (line.strip() and continues)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_fenced(before: str) -> bool:
    """Return True if a fence or a run of backticks is open at the end of a text."""
    fence = ""
    for line in before.split("\n"):
        match = _FENCE.match(line)
        if match is None:
            continue
        if not fence:
            fence = match[1] if match[1][0] == "~" or "`" not in line[match.end() :] else ""
        elif match[1].startswith(fence) and not line[match.end() :].strip():
            fence = ""
    ticks = 0
    for run in _TICKS.findall(before.rpartition("\n")[2]):
        ticks = len(run) if not ticks else 0 if len(run) == ticks else ticks
    return bool(fence or ticks)


def _has_opening(before: str) -> bool:
    """Return True if a text has an opening tag outside of code."""
    tags = islice(_OPENING.finditer(before), _MOST)
    return any(not _is_code(before[: tag.start()], before[tag.end() :]) for tag in tags)


def _is_mentioned(before: str, after: str) -> bool:
    """Return True if a sentence continues after a tag."""
    continues = _CONTINUES.match(after) is not None
    line = before.rpartition("\n")[2]
    if not before.strip():
        return continues
    if (before[-1], after[:1]) in _QUOTES:
        return True
    if not line.strip() or line == line.rstrip():  # the tag begins a line, or follows without a space
        return bool(line.strip()) and after[:1] in {*".,;:!?)"}
    return continues or not (line.rstrip().endswith(_SENTENCE_ENDS) or after.startswith("\n\n"))


class ThoughtStream:
    """Deltas that move the text between tags into the reasoning, if the text begins with an opening tag.

    Reasoning that `split_thought` finds at other places is known only after more text arrives.
    """

    def __init__(self) -> None:
        self._held = ""
        self._thinks = self._is_over = False
        self._thoughts = 0

    def of(self, delta: Delta) -> Iterator[Delta]:
        """Yield the new part of a delta. A possible beginning of a tag waits for the next delta."""
        if delta.kind != "text" or self._is_over:
            yield delta
            return
        self._held += delta.text
        while self._held and not self._is_over:
            if self._thinks:
                end = _CLOSING.search(self._held)
                cut = end.start() if end else self._tag_begins()
                if cut:
                    yield Delta("reasoning", self._held[:cut])
                self._held = self._held[end.end() if end else cut :]
                self._thinks = end is None
                if end is None:
                    return
                continue
            text = self._held.lstrip()
            opened = _OPENING.match(text) if self._thoughts < _MOST else None
            if opened:
                self._held, self._thinks = text[opened.end() :], True
                self._thoughts += 1
            elif len(self._held) < _MOST_SPACE and any(tag.startswith(text.lower()) for tag in _TAGS):
                return
            else:
                yield from self.rest()

    def rest(self) -> Iterator[Delta]:
        """Yield the text that waited: the stream has ended, or the text has begun."""
        waiting = self._held.lstrip() if self._thoughts and not self._thinks else self._held
        self._held, self._is_over = "", True
        if waiting:
            yield Delta("reasoning" if self._thinks else "text", waiting)

    def _tag_begins(self) -> int:
        """Return the length of the waiting text before a possible closing tag."""
        for place in range(max(0, len(self._held) - _LONGEST + 1), len(self._held)):
            if any(tag.startswith(self._held[place:].lower()) for tag in _TAGS.values()):
                return place
        return len(self._held)
