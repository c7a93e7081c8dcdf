"""Order of bindings and uses: after ``exec = print`` the name is no builtin, after ``if 0: exec = print`` it may be.

A name at the top level or in a class body has its outer meaning until the code binds it. A binding replaces this
meaning for a use if every path to the use passes the binding, and no code deletes the name. A local name of a function
has no outer meaning.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.program import NameScope, Program

OUTER_NAMES = frozenset(dir(builtins)) | {"__builtins__", "get_ipython", "tools", "tract", "pending"}
"""Names with a meaning although no code binds them."""

EVERYTHING = "*"
"""The entry for all names. It means that code deletes unknown names."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor)
_WITHS = (ast.With, ast.AsyncWith)
_HEADERS = (*_LOOPS, *_WITHS, ast.ExceptHandler, ast.match_case)
_TRIES: tuple[type[ast.AST], ...] = (ast.Try, *((ast.TryStar,) if hasattr(ast, "TryStar") else ()))
_IN_TARGETS = (ast.Tuple, ast.List, ast.Starred, ast.pattern, ast.withitem)
_BLOCKS = ("body", "orelse", "finalbody")


@dataclass
class _Bindings:
    """The bindings of one name.

    Attributes:
        after: The statements that run only after a binding, by the node whose block contains them.
        covered: The branches that bind the name, by their ``if`` or ``try``.
        first_cell: The number of the first cell whose top level binds the name.
    """

    after: dict[ast.AST, set[ast.AST]] = field(default_factory=dict)
    covered: dict[ast.AST, set[object]] = field(default_factory=dict)
    first_cell: int | None = None


class Dominance:
    """The order of bindings and uses in a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._statements: dict[ast.AST, ast.AST] = {}
        self._known: dict[tuple[NameScope, str], _Bindings] = {}
        self._first_calls: dict[ast.Module, dict[ast.AST, ast.AST | None]] = {}

    def is_bound(self, use: ast.Name, owner: NameScope) -> bool:
        """Return True if every path to a use of the name passes a binding of the owner."""
        if not self._program.deleted.isdisjoint({use.id, EVERYTHING}):
            return False
        binders = self._program.binders.get((owner, use.id))
        if binders is None:
            return False
        bindings = self._known.get((owner, use.id))
        if bindings is None:
            bindings = self._known[owner, use.id] = _Bindings()
            for binder in binders:
                self._add(binder, bindings)
        return any(self._is_after(child, parent, bindings) for child, parent in self._path(use))

    def _is_after(self, child: ast.AST | None, parent: ast.AST, bindings: _Bindings) -> bool:
        if isinstance(parent, ast.Module) and bindings.first_cell is not None:
            here = self._program.cells[parent]
            # Without a call below a function, later cells are the first to call it.
            if bindings.first_cell < here or (child is None and bindings.first_cell == here):
                return True
        return child in bindings.after.get(parent, ())

    def _path(self, use: ast.Name) -> Iterator[tuple[ast.AST | None, ast.AST]]:
        """Yield the statements around a use, each with the node around it.

        A function's body runs at the first statement below its definition that may call it.
        """
        child, is_deferred = self._statement_of(use), False
        while (parent := self._program.parent_of.get(child)) is not None:
            yield child, parent
            if isinstance(parent, ast.Module) and is_deferred:
                yield self._first_call(child, parent), parent
            # The decorators and defaults of a function belong to the statement itself.
            is_deferred = is_deferred or isinstance(parent, _FUNCTIONS)
            child = parent

    def _statement_of(self, node: ast.AST) -> ast.AST:
        """Return the innermost statement, handler or case around a node."""
        passed = []
        while not isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            passed.append(node)
            around = self._statements.get(node) or self._program.parent_of.get(node)
            if around is None:
                break
            node = around
        self._statements.update(dict.fromkeys(passed, node))
        return node

    def _first_call(self, statement: ast.AST, module: ast.Module) -> ast.AST | None:
        """Return the first statement from this one on that may call a function; None if there is none."""
        known = self._first_calls.get(module)
        if known is None:
            known = self._first_calls[module] = {}
            first = None
            for each in reversed(module.body):
                first = first if only_binds(each) else each
                known[each] = first
        return known.get(statement)

    def _add(self, binder: ast.AST, bindings: _Bindings) -> None:
        node, parent = binder, self._program.parent_of.get(binder)
        while isinstance(parent, _IN_TARGETS):
            node, parent = parent, self._program.parent_of.get(parent)
        if isinstance(node, (ast.stmt, ast.ExceptHandler)):
            self._add_statement(node, bindings)
        elif isinstance(parent, ast.Assign) or (isinstance(parent, ast.AnnAssign) and parent.value):
            self._add_statement(parent, bindings)
        elif parent is not None and isinstance(parent, _HEADERS):
            bindings.after.setdefault(parent, set()).update(parent.body)

    def _add_statement(self, statement: ast.AST, bindings: _Bindings) -> None:
        parent: ast.AST | None = self._program.parent_of.get(statement)
        while parent is not None and statement not in bindings.after.get(parent, ()):
            name, block = next(
                (name, block) for name in _BLOCKS if statement in (block := getattr(parent, name, ()))
            )
            index = block.index(statement)
            if any(isinstance(before, ast.Raise) for before in block[:index]):
                return
            bindings.after.setdefault(parent, set()).update(block[index + 1 :])
            if isinstance(parent, ast.Module):
                cell = self._program.cells[parent]
                bindings.first_cell = cell if bindings.first_cell is None else min(cell, bindings.first_cell)
            node = self._covered_node(name, parent, bindings)
            if node is None:
                return
            statement, parent = node, self._program.parent_of.get(node)

    def _covered_node(self, block: str, parent: ast.AST, bindings: _Bindings) -> ast.AST | None:
        """Return the ``if`` or ``try`` around a block if each of its branches binds the name."""
        branch: object = block
        node = parent
        if isinstance(parent, ast.ExceptHandler):
            branch, node = parent, self._program.parent_of[parent]
        if not isinstance(node, (ast.If, *_TRIES)):
            return None
        covered = bindings.covered.setdefault(node, set())
        covered.add("body" if branch == "orelse" and isinstance(node, _TRIES) else branch)
        needed = {"body", "orelse"} if isinstance(node, ast.If) else {"body", *getattr(node, "handlers", ())}
        return node if needed <= covered or "finalbody" in covered else None


def only_binds(statement: ast.stmt) -> bool:
    """Return True if a statement calls nothing."""
    if isinstance(statement, ast.ClassDef):
        parts = [*statement.decorator_list, *statement.keywords, *statement.bases]
        return all(isinstance(part, ast.Name) for part in parts) and all(map(only_binds, statement.body))
    if isinstance(statement, _FUNCTIONS):
        arguments = statement.args
        parts = [*statement.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)]
        return (
            all(isinstance(part, (ast.Constant, ast.Name)) for part in parts) and not statement.decorator_list
        )
    if isinstance(statement, (ast.Assign, ast.Expr)):
        return isinstance(statement.value, (ast.Constant, ast.Name))
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass))
