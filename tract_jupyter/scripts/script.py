"""A script: its text, the name that tracebacks know it by, and its compiled statements."""

from __future__ import annotations

import ast
import hashlib
import io
import linecache
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import ScriptSyntaxError
from tract_jupyter.review.source import CodeRange

if TYPE_CHECKING:
    from types import CodeType

    from pydantic_monty import SourceRange

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


@dataclass(frozen=True)
class Script:
    """A script as its author wrote it. Its lines are counted from `first_line`: a cell begins with the magic's own."""

    code: str
    first_line: int = 1

    @cached_property
    def script_hash(self) -> str:
        """64 hex digits over the text."""
        return hashlib.sha256(self.code.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def filename(self) -> str:
        """The name that tracebacks use for it."""
        return f"<script:{self.script_hash[:12]}>"

    @property
    def actor(self) -> str:
        """The actor of its tool calls."""
        return f"script:{self.script_hash[:12]}"

    def compiled(self) -> tuple[CodeType, CodeType | None]:
        """Compile the statements, and the last expression if there is one; both may `await` at the top level.

        Raises:
            ScriptSyntaxError: it is no Python, with the line.
        """
        try:
            tree = ast.parse(self.placed, self.filename)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            body = compile(tree, self.filename, "exec", flags=_AWAIT, dont_inherit=True)
            if not isinstance(last, ast.Expr):
                return body, None
            value = compile(
                ast.Expression(last.value), self.filename, "eval", flags=_AWAIT, dont_inherit=True
            )
        except _PARSE_ERRORS as error:
            raise ScriptSyntaxError.of(error) from None
        return body, value

    def register(self) -> None:
        """Make its lines known to tracebacks and `inspect`."""
        lines = list(io.StringIO(self.placed, newline=None))
        # without a time of change, so that `linecache.checkcache` keeps it
        linecache.cache[self.filename] = (len(self.placed), None, lines, self.filename)

    def stretch(self, position: SourceRange) -> CodeRange:
        """Convert a sandbox's position into a range of the code."""
        return CodeRange(*self._place(position.start), *self._place(position.end))

    def _place(self, offset: int) -> tuple[int, int]:
        before = self.placed[:offset]
        return before.count("\n") + 1, len(before.rpartition("\n")[2].encode("utf-8", "surrogatepass"))

    @property
    def placed(self) -> str:
        """The text, padded so that its first line has its number."""
        return "\n" * (self.first_line - 1) + self.code
