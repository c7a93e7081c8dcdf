"""A script: its text, its name in tracebacks, and its compiled statements."""

from __future__ import annotations

import ast
import hashlib
import io
import linecache
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import ScriptSyntaxError
from tract_jupyter.review import CodeRange
from tract_jupyter.toolkit import SCRIPT_FILES

if TYPE_CHECKING:
    from types import CodeType

    from pydantic_monty import SourceRange

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)

MAIN = "main"
"""The id of the default script notebook."""
OWN: Final = "user"
"""The id of the user's own variables, for scripts in the kernel."""


@dataclass(frozen=True)
class Script:
    """A script as its author wrote it. Its lines count from `first_line`, because a cell begins with the magic."""

    code: str
    first_line: int = 1

    @cached_property
    def script_hash(self) -> str:
        """The hash of the text, 64 hex digits."""
        return hashlib.sha256(self.code.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def filename(self) -> str:
        """The script's name in tracebacks."""
        return f"{SCRIPT_FILES}{self.script_hash[:12]}>"

    @property
    def actor(self) -> str:
        """The actor of its tool calls."""
        return f"script:{self.script_hash[:12]}"

    def compiled(self, *, has_tools: bool = False) -> tuple[CodeType, CodeType | None]:
        """Compile the statements, and the last expression if there is one. Both may `await` at the top level.

        With `has_tools`, the name `tools` is the tools at run time, and the script may import from it.

        Raises:
            ScriptSyntaxError: The code is not Python. The error has the line.
        """
        try:
            tree = ast.parse(self.padded, self.filename)
            if has_tools:
                tree = ast.fix_missing_locations(_ToolImports().visit(tree))
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

    @property
    def names(self) -> frozenset[str]:
        """The names that the code uses or binds."""
        return frozenset(node.id for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Name))

    @property
    def without_tool_imports(self) -> str:
        """The text for a copy of the kernel, where `tools` is only a name: imports from it become assignments."""
        tree = ast.parse(self.code)
        if not any(
            isinstance(node, ast.Import | ast.ImportFrom) and _imports_tools(node) for node in ast.walk(tree)
        ):
            return self.code
        return ast.unparse(ast.fix_missing_locations(_ToolImports().visit(tree)))

    def register(self) -> None:
        """Register the lines for tracebacks and `inspect`."""
        lines = list(io.StringIO(self.padded, newline=None))
        # without a modification time, `linecache.checkcache` keeps the entry
        linecache.cache[self.filename] = (len(self.padded), None, lines, self.filename)

    def range_of(self, position: SourceRange) -> CodeRange:
        """Convert a sandbox's position into a range of the code."""
        return CodeRange(*self._place(position.start), *self._place(position.end))

    def _place(self, offset: int) -> tuple[int, int]:
        before = self.padded[:offset]
        return before.count("\n") + 1, len(before.rpartition("\n")[2].encode("utf-8", "surrogatepass"))

    @property
    def padded(self) -> str:
        """The text with empty lines before it, which give the first line its number."""
        return "\n" * (self.first_line - 1) + self.code


_TOOLS: Final = "tools"
_ALL: Final = "globals().update({n: getattr(tools, n) for n in tools.list_tools() if '.' not in n})"


class _ToolImports(ast.NodeTransformer):
    """Turns imports from `tools` into assignments. `tools` is a name in every script, not a Python module.

    `sys.modules` belongs to the whole process, and may have a module of the user with the same name.
    """

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:  # the protocol of `ast`
        others = [alias for alias in node.names if not _is_of_tools(alias.name)]
        named = [_bound(a.asname, a.name) for a in node.names if _is_of_tools(a.name) and a.asname]
        return self._instead(node, [ast.Import(others)] if others else [], named)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        if node.level or node.module is None or not _is_of_tools(node.module):
            return node
        named = [
            ast.parse(_ALL).body[0]
            if a.name == "*"
            else _bound(a.asname or a.name, f"{node.module}.{a.name}")
            for a in node.names
        ]
        return self._instead(node, [], named)

    def _instead(self, node: ast.stmt, imports: list[ast.stmt], named: list[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = [*imports, *named] or [ast.Pass()]
        for part in (part for each in statements for part in ast.walk(each)):
            ast.copy_location(part, node)
        return statements


def _imports_tools(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and _is_of_tools(node.module or "")
    return any(_is_of_tools(alias.name) for alias in node.names)


def _is_of_tools(module: str) -> bool:
    return module.partition(".")[0] == _TOOLS


def _bound(name: str, path: str) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], ast.parse(path, mode="eval").body)
