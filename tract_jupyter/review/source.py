"""The line of code that asked, in a cell, an action or a script."""

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
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models import show_value
from tract_jupyter.review.request import CodeBlock, ValueRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType


_FOREIGN = (str(Path(__file__).parent.parent), os.path.dirname(os.__file__))  # noqa: PTH120 # frames store file names as text
_AROUND = 3
_AROUND_IN_SCRIPT = 50  # users read a script as a whole
_MOST_FRAMES = 60
_CELL_MAGIC = "get_ipython().run_cell_magic("
_LINE_MAGIC = re.compile(r"get_ipython\(\)\.run_line_magic(\(.*\))(?=\s*$)", re.MULTILINE)


class CallSite(NamedTuple):
    """A line of a file or of a pseudo-file."""

    filename: str
    line: int

    def block(self) -> CodeBlock | None:
        """Return the line with its surroundings. For a script, return many more lines.

        Return None if the source is unknown or the call is a whole cell.
        """
        lines = linecache.getlines(self.filename)
        if not 0 < self.line <= len(lines) or _CELL_MAGIC in lines[self.line - 1]:
            return None
        around = _AROUND_IN_SCRIPT if self.filename.startswith("<script:") else _AROUND
        before = sum(1 for _ in takewhile(str.isspace, lines))  # in place of a cell's magic
        first = max(self.line - around, before + 1)
        code = lines[first - 1 : self.line + around]
        title = f"Asked by {_name(self.filename)}, line {self.line}"
        return CodeBlock(title, _as_typed("".join(code)), first_line=first, marked=self.line)


_asked_at: ContextVar[CallSite | None] = ContextVar("tract_asked_at", default=None)


@contextmanager
def asked_at(place: CallSite) -> Iterator[None]:
    """Set the asking line for a block whose code is not on this stack."""
    token = _asked_at.set(place)
    try:
        yield
    finally:
        _asked_at.reset(token)


def calling_site() -> CallSite | None:
    """Return the line from `asked_at`, or the innermost stack frame outside this package and installed libraries."""
    site = _asked_at.get()
    if site is not None:
        return site
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # `inspect.currentframe` does the same
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        filename = frame.f_code.co_filename
        if (
            not filename.startswith(_FOREIGN)
            and "site-packages" not in filename
            and filename[:8] != "<frozen "
        ):
            return CallSite(filename, frame.f_lineno)
        frame = frame.f_back
    return None


def _as_typed(code: str) -> str:
    """Convert IPython's rewritten magic calls back to the lines that the user typed."""

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


_LENGTH = 80
_MOST_NAMES = 8


class CodeRange(NamedTuple):
    """A range of a text in `ast` coordinates: lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


def code_range(frame: FrameType) -> CodeRange | None:
    """Return the code position of a frame. None if the code has no positions."""
    position = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return CodeRange(line, column, end_line, end_column)


def origins(code: str, call: CodeRange, values: Mapping[str, Any] | None = None) -> tuple[ValueRow, ...]:
    """Return a row for each argument of a call that is not a literal."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    node = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _place(node) == call), None
    )
    return () if node is None else tuple(_rows(code, node, values or {}))


def _rows(code: str, call: ast.Call, values: Mapping[str, Any]) -> Iterator[ValueRow]:
    arguments = [(f"argument {number}", node) for number, node in enumerate(call.args, 1)]
    arguments += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
    for name, expression in arguments:
        if not isinstance(expression, ast.Constant):
            text = ast.get_source_segment(code, expression) or ""
            yield ValueRow(name, "", text, _known(expression, values))


def _known(expression: ast.expr, values: Mapping[str, Any]) -> str:
    """List the values of the names in an expression: `n = 10, topic = {...}`."""
    names = dict.fromkeys(
        node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and node.id in values
    )
    return ", ".join(f"{name} = {show_value(values[name], _LENGTH)}" for name in list(names)[:_MOST_NAMES])


def _place(node: ast.expr) -> CodeRange:
    return CodeRange(
        node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    )
