"""Misspelt names (TJ801): names in an operation's code that neither its definition nor Python has."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import LIKELY, LOW, Rule, register
from tract_jupyter.exceptions import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.view import CodeView, KnownNames

_KNOWN: Final = frozenset(dir(builtins)) | {"get_ipython", "display", "__name__", "__builtins__", "pending"}
"""Names that every action can use. IPython puts the first two among the builtins."""
_MAKES_NAMES: Final = frozenset({"exec", "eval", "globals", "locals", "vars"})


@register
class Misspelt(Rule):
    """Uses a name that neither the operation nor Python has.

    ## What it does
    Compares what the code of an action names with the definition of its operation: attributes and actions of
    `pending`, keys of `pending.fields`, and names that nothing defines.

    ## Why it matters
    The code fails there when it runs, perhaps after half of its work. Usually the name is misspelt.

    ## Example
    An action with `pending.aprove()`, or with `pending.fields["pth"]` where the field is called `path`.

    ## What to do instead
    Correct the name, or add the field, parameter, action or import that is missing.
    """

    code = "TJ801"
    name = "misspelt-name"
    category = Category.UNKNOWN
    level = LOW
    effect = "is a name that nothing defines"
    remedy = "Correct the name, or define it."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Compare the names in the code with the known ones."""
        known = view.known_names
        if known is None:
            return
        nodes = list(view.nodes)
        bound = {name for node in nodes for name in _bound(node)}
        yield from self._undefined(view, nodes, bound | _KNOWN | set(known.parameters), known)
        if "pending" not in bound:
            yield from self._unknown_members(view, nodes, known)
            yield from self._unknown_fields(view, nodes, known)

    def _undefined(
        self, view: CodeView, nodes: list[ast.AST], names: set[str], known: KnownNames
    ) -> Iterator[Finding]:
        used = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        stars = any(isinstance(node, ast.alias) and node.name == "*" for node in nodes)
        if stars or any(node.id in _MAKES_NAMES for node in used):
            return
        for node in used:
            if node.id not in names:
                meant = (
                    f" pending.{node.id} is there."
                    if node.id in (known.members or ())
                    else nearest(node.id, names)
                )
                yield self._told(view, node, f"Nothing defines the name {node.id!r}.{meant}")

    def _unknown_members(self, view: CodeView, nodes: list[ast.AST], known: KnownNames) -> Iterator[Finding]:
        if known.members is None:
            return
        used = [node for node in nodes if isinstance(node, ast.Attribute) and _is_pending(node.value)]
        members = set(known.members).union(node.attr for node in used if not isinstance(node.ctx, ast.Load))
        for node in used:
            if node.attr not in members and not node.attr.startswith("_"):
                meant = nearest(node.attr, members)
                yield self._told(view, node, f"A pending has nothing called {node.attr!r}.{meant}")

    def _unknown_fields(self, view: CodeView, nodes: list[ast.AST], known: KnownNames) -> Iterator[Finding]:
        if known.fields is None:
            return
        used = [
            (node, node.slice) for node in nodes if isinstance(node, ast.Subscript) and _is_fields(node.value)
        ]
        written = {
            key.value
            for node, key in used
            if isinstance(node.ctx, ast.Store) and isinstance(key, ast.Constant)
        }
        for node, key in used:
            if (
                not isinstance(key, ast.Constant)
                or not isinstance(key.value, str)
                or key.value in known.fields
            ):
                continue
            meant = nearest(key.value, known.fields)
            if meant or key.value not in written:
                yield self._told(view, node, f"The operation has no field {key.value!r}.{meant}")

    def _told(self, view: CodeView, where: ast.expr, reason: str) -> Finding:
        return self.finding(view, where, reason, confidence=LIKELY)


def _is_pending(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "pending"


def _is_fields(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "fields" and _is_pending(node.value)


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, wherever they can be seen from."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case _ if type(node).__name__ in {"TypeVar", "ParamSpec", "TypeVarTuple"}:  # Python 3.12 and later
            yield str(getattr(node, "name", ""))
