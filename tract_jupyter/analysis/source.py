"""Source text as lines, spans and texts of syntax nodes, and helpers for parsing and calls."""

from __future__ import annotations

import ast
import os
import re
import threading
import warnings
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Span
from tract_jupyter.models import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

_NEWLINE = re.compile(r"\r\n|\r|\n")
"""The line ends of Python's tokenizer. ``str.splitlines`` has more, and would shift the line numbers."""

_WARNINGS = threading.Lock()  # the filters of warnings are one list for all threads
if hasattr(
    os, "register_at_fork"
):  # Windows has no fork. A fork must not begin with the lock of another thread
    os.register_at_fork(
        before=_WARNINGS.acquire, after_in_parent=_WARNINGS.release, after_in_child=_WARNINGS.release
    )

MAX_TEXT = 200
"""The longest source text in a finding, in characters."""

Positioned = ast.expr | ast.stmt | ast.alias | ast.pattern | ast.keyword | ast.arg | ast.excepthandler


def split_lines(text: str) -> list[str]:
    """Split a text into lines like Python's tokenizer, without the line ends."""
    return _NEWLINE.split(text)


def last_name(node: ast.AST) -> str:
    """Return the last name of a name or chain: `query` for `session.query`; empty for other nodes."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call, by position and by keyword."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, SystemError)
"""Errors of Python's parser."""


def parse(text: str) -> ast.Module:
    """Parse a cell or a function body. ``return`` and ``await`` are allowed at the top level."""
    with _WARNINGS, warnings.catch_warnings():
        # An invalid escape such as "\d" warns, and under "error" filters it would not even parse.
        warnings.simplefilter("ignore")
        return ast.parse(text)


class SourceText:
    """The code as its author wrote it. ``shifts`` has the number of columns removed from each line before parsing."""

    def __init__(self, text: str, parsed: str | None = None, shifts: Mapping[int, int] | None = None) -> None:
        self.lines = split_lines(text)
        # Columns of nodes refer to the parsed text. Findings quote the author's text.
        self._parsed = self.lines if parsed is None else split_lines(parsed)
        self._shifts = shifts or {}

    def span(self, node: Positioned) -> Span:
        """Return the span of a node, in characters of the author's text."""
        end_line = node.end_lineno or node.lineno
        end_column = node.col_offset if node.end_col_offset is None else node.end_col_offset
        return Span(
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, end_column),
        )

    def _column(self, line: int, offset: int) -> int:
        text = self._parsed[line - 1] if line <= len(self._parsed) else ""
        shift = self._shifts.get(line, 0)
        if text.isascii():
            return offset + shift
        return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore")) + shift

    def line_span(self, line: int) -> Span:
        """Return the span of a whole line, without its indentation."""
        text = self.lines[line - 1]
        return Span(line, len(text) - len(text.lstrip()), line, len(text))

    def text(self, span: Span) -> str:
        """Return the source text of a span, shortened if it is long."""
        lines = self.lines[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_column]
        lines[0] = lines[0][span.column :]
        text = "\n".join(lines)
        return cut(text, MAX_TEXT)
