"""The line of code that asked: of a cell, an action or a script."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.review.request import CodeBlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_FOREIGN = (str(Path(__file__).parent.parent), os.path.dirname(os.__file__))  # noqa: PTH120 # frames name files as text
_AROUND = 3
_AROUND_IN_SCRIPT = 50  # what a script does is read as a whole
_MOST_FRAMES = 60
_CELL_MAGIC = "get_ipython().run_cell_magic("
_LINE_MAGIC = re.compile(r"get_ipython\(\)\.run_line_magic(\(.*\))(?=\s*$)", re.MULTILINE)


class Place(NamedTuple):
    """A line of a file, or of what goes for one."""

    filename: str
    line: int

    def block(self) -> CodeBlock | None:
        """The line with those around it, of a script all that can be read.

        None where the source is not known, or is a cell as a whole.
        """
        lines = linecache.getlines(self.filename)
        if not 0 < self.line <= len(lines) or _CELL_MAGIC in lines[self.line - 1]:
            return None
        around = _AROUND_IN_SCRIPT if self.filename.startswith("<script:") else _AROUND
        before = sum(1 for _ in takewhile(str.isspace, lines))  # in place of a cell's magic
        first = max(self.line - around, before + 1)
        shown = lines[first - 1 : self.line + around]
        title = f"Asked by {_name(self.filename)}, line {self.line}"
        return CodeBlock(title, _as_typed("".join(shown)), first_line=first, marked=self.line)


_told: ContextVar[Place | None] = ContextVar("_told", default=None)


@contextmanager
def asked_at(place: Place) -> Iterator[None]:
    """Name the line for what is asked meanwhile: of code that is not on this stack."""
    token = _told.set(place)
    try:
        yield
    finally:
        _told.reset(token)


def asking_place() -> Place | None:
    """The innermost line on the stack that is neither ours nor a library's, unless it is told otherwise."""
    told = _told.get()
    if told is not None:
        return told
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # `inspect.currentframe` is the same, and no better
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        filename = frame.f_code.co_filename
        if (
            not filename.startswith(_FOREIGN)
            and "site-packages" not in filename
            and filename[:8] != "<frozen "
        ):
            return Place(filename, frame.f_lineno)
        frame = frame.f_back
    return None


def _as_typed(code: str) -> str:
    """With line magics as a person typed them, which IPython rewrote as calls."""

    def typed(call: re.Match[str]) -> str:
        try:
            name, line = ast.literal_eval(call[1])
        except (ValueError, SyntaxError):
            return call[0]
        return f"%{name} {line}".rstrip()

    return _LINE_MAGIC.sub(typed, code)


def _name(filename: str) -> str:
    if filename.startswith("<"):
        return filename
    return "a cell" if "ipykernel_" in filename or "ipython-input" in filename else Path(filename).name
