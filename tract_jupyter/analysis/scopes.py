"""Scopes and bindings: where a name is looked up, and what was noted of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


BindingKind = Literal["import", "value", "element", "function", "param", "opaque"]
ScopeKind = Literal["module", "function", "class", "comprehension"]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Child = tuple[ast.AST, "Scope"]


class Binding(NamedTuple):
    """One note of what a name is bound to.

    Attributes:
        kind: How: by import, to an expression's value, to one element of it, as parameter, or unknown.
        node: The expression or function.
        path: Which member, for unpacked targets: ``(1,)`` is the second; a text is an attribute.
        name: The dotted name of an import, or the parameter's own name.
    """

    kind: BindingKind
    node: ast.expr | FunctionNode | None = None
    path: tuple[str | int, ...] = ()
    name: str = ""


_OPAQUE = Binding("opaque")


@dataclass(eq=False, slots=True)
class Scope:
    """One scope; ``stars`` are the modules imported with ``*``, ``returns`` what a function may return."""

    kind: ScopeKind
    parent: Scope | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: dict[str, None] = field(default_factory=dict)
    returns: list[ast.expr] = field(default_factory=list)
    redirected: dict[str, Scope] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding = _OPAQUE) -> None:
        """Add a possibility to a name, in the scope that ``global`` or ``nonlocal`` chose."""
        self.redirected.get(name, self).bindings.setdefault(name, []).append(binding)

    def visible(self) -> Iterator[Scope]:
        """The scopes that a name used here is looked up in; a class body is visible only from itself."""
        yield self
        scope = self.parent
        while scope is not None:
            if scope.kind != "class":
                yield scope
            scope = scope.parent

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds the name, and to what; None when nobody bound it."""
        if name in self.bindings and not self.redirected:
            return self, self.bindings[name]
        for scope in self.visible():
            owner = scope.redirected.get(name, scope)
            found = owner.bindings.get(name)
            if found is not None:
                return owner, found
        return None
