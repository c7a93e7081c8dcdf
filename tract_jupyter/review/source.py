"""The line of code that asked: of a cell, an action or a script."""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.review.request import CodeBlock

if TYPE_CHECKING:
    from types import FrameType

_FOREIGN = (str(Path(__file__).parent.parent), os.path.dirname(os.__file__))  # noqa: PTH120 # frames name files as text
_AROUND = 3
_MOST_FRAMES = 60


class Place(NamedTuple):
    """A line of a file, or of what goes for one."""

    filename: str
    line: int

    def block(self) -> CodeBlock | None:
        """The line with those around it, None where the source is not known."""
        lines = linecache.getlines(self.filename)
        if not 0 < self.line <= len(lines):
            return None
        first = max(self.line - _AROUND, 1)
        shown = lines[first - 1 : self.line + _AROUND]
        title = f"Asked by {_name(self.filename)}, line {self.line}"
        return CodeBlock(title, "".join(shown), first_line=first, marked=self.line)


def asking_place() -> Place | None:
    """The innermost line on the stack that is neither ours nor a library's."""
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


def _name(filename: str) -> str:
    if filename.startswith("<"):
        return filename
    return "a cell" if "ipykernel_" in filename or "ipython-input" in filename else Path(filename).name
