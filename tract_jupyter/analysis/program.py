"""One or several cells that share their names: scopes, parents, calls, attributes.

One iterative walk over the tree (code may be nested deeper than Python's stack allows) has `notes` record for
every scope what its names are bound to. A note says "the second member of this expression"; the resolver
evaluates it only when somebody asks.
"""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tract_jupyter.analysis.notes import SYNTAX
from tract_jupyter.analysis.scopes import Binding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.budget import Clock
    from tract_jupyter.analysis.scopes import BindingKind, Child


class Program:
    """Scopes, parents and call sites of one or several cells that share the module scope.

    Attributes:
        module: The scope that the cells share.
        parent_of: The node around each node.
        scope_of: The scope that a name stands in, or that a function opens.
        calls: Calls by the name that they call.
        fields: What attributes of objects are set to, by the attribute's name, whatever the object.
        methods: Functions in classes by name.
        classes: Classes by name.
    """

    def __init__(self) -> None:
        self.module = Scope("module")
        self.parent_of: dict[ast.AST, ast.AST] = {}
        self.scope_of: dict[ast.AST, Scope] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.methods: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.classes: dict[str, list[ast.ClassDef]] = {}
        self._nodes: list[ast.AST] = []

    def add(self, tree: ast.Module, clock: Clock | None = None) -> list[ast.AST]:
        """Read a tree, iteratively, and return its nodes: each after the one around it.

        Raises:
            TooLongError: There is no time left on the clock.
        """
        order = self._nodes
        before = len(order)
        stack: list[Child] = [(tree, self.module)]
        while stack:
            node, scope = stack.pop()
            order.append(node)
            if clock is not None and not len(order) % 1024:
                clock.check()
            note, opens, fields = SYNTAX[type(node)]
            if note is not None:
                note(self, node, scope)
            if opens is None:
                self._push_children(node, fields, scope, stack, order)
                continue
            children = opens(self, node, scope)
            for child, _ in children:
                self.parent_of[child] = node
            stack.extend(reversed(children))
        return order[before:]

    @contextmanager
    def tentatively(self) -> Iterator[None]:
        """Forget afterwards whatever is added inside."""
        length, stars = len(self._nodes), dict(self.module.stars)
        tables: list[dict[str, Any]] = [
            self.module.bindings,
            self.calls,
            self.fields,
            self.methods,
            self.classes,
        ]
        known = [{name: len(members) for name, members in table.items()} for table in tables]
        try:
            yield
        finally:
            for node in self._nodes[length:]:
                self.parent_of.pop(node, None)
                self.scope_of.pop(node, None)
            del self._nodes[length:]
            self.module.stars = stars
            for table, before in zip(tables, known, strict=True):
                _restore(table, before)

    def _push_children(
        self, node: ast.AST, fields: tuple[str, ...], scope: Scope, stack: list[Child], order: list[ast.AST]
    ) -> None:
        parent_of = self.parent_of
        for name in fields:
            value = getattr(node, name, None)
            for child in reversed(value) if type(value) is list else (value,):
                if child is None:
                    continue
                parent_of[child] = node
                # More than half of all nodes are names that are read, and constants: these end here.
                if isinstance(child, ast.Name) and type(child.ctx) is ast.Load:
                    self.scope_of[child] = scope
                    order.append(child)
                elif isinstance(child, ast.Constant):
                    order.append(child)
                else:
                    stack.append((child, scope))

    def sole_value(self, name: ast.Name) -> ast.expr | None:
        """The expression that a name stands for when it is bound just once, by an assignment."""
        found = self.scope_of.get(name, self.module).find(name.id)
        bindings = found[1] if found is not None else []
        if len(bindings) != 1 or bindings[0].kind != "value" or bindings[0].path:
            return None
        return bindings[0].node if isinstance(bindings[0].node, ast.expr) else None

    def bind_target(
        self,
        scope: Scope,
        target: ast.expr,
        value: ast.expr,
        kind: BindingKind = "value",
        path: tuple[int, ...] = (),
    ) -> None:
        """Note what an assignment target is bound to; members of a tuple target become paths."""
        stack = [(target, path)]
        while stack:
            current, where = stack.pop()
            if isinstance(current, ast.Name):
                scope.bind(current.id, Binding(kind, value, where))
                if scope.kind == "class" and not where:
                    self.fields.setdefault(current.id, []).append(value)
            elif isinstance(current, ast.Attribute) and not where:
                self.fields.setdefault(current.attr, []).append(value)
            elif isinstance(current, ast.Starred):
                stack.append((current.value, where))
            elif isinstance(current, (ast.Tuple, ast.List)):
                stack.extend((member, (*where, index)) for index, member in enumerate(current.elts))

    @staticmethod
    def bind_pattern(
        scope: Scope, pattern: ast.pattern, subject: ast.expr, path: tuple[str | int, ...]
    ) -> None:
        """Note what a name in a pattern captures."""
        if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
            scope.bind(pattern.name, Binding("value", subject, path))


def _restore(table: dict[str, Any], lengths: dict[str, int]) -> None:
    for name in list(table):
        if name in lengths:
            del table[name][lengths[name] :]
        else:
            del table[name]
