"""Data flow: the expressions that flow into names, and the normal forms of expressions.

The resolver returns the *possible* values of an expression, and ignores unknown ones. This module tracks the unknown
part. `dotted` returns ``?`` if the resolver knows nothing. `is_certain` tests that the resolver knows all values.
`into` yields the expressions that flow into an unknown one. `NormalForms` spells an expression without the code's own
names.
"""

from __future__ import annotations

import ast
import hashlib
from typing import TYPE_CHECKING

from tract_jupyter.analysis import folding
from tract_jupyter.analysis.program import NameScope, Program
from tract_jupyter.analysis.resolver import MAX_EVALUATIONS, Resolver
from tract_jupyter.analysis.rules import module_level, rules_for
from tract_jupyter.analysis.source import arguments_of, parse
from tract_jupyter.analysis.values import ASSUMED, MAX_ALTERNATIVES, MAX_NAME, Value, canonical, named, union

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tract_jupyter.analysis.program import Binding

MAX_DEPTH = 30
"""The nesting that is followed and spelled out. Deeper expressions are unknown, and appear as a digest."""

MAX_DOTTED = 64

_JOINERS = frozenset({"os.path.join", "pathlib.Path"})
_ACCESS = (ast.Attribute, ast.Subscript)
_ASSIGNED = frozenset({"value", "element"})
"""The kinds of bindings to an expression, or to a part of it."""
_LITERALS: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.List, ast.ListComp), "builtins.list"),
    **dict.fromkeys((ast.Dict, ast.DictComp), "builtins.dict"),
    **dict.fromkeys((ast.Set, ast.SetComp), "builtins.set"),
    ast.Tuple: "builtins.tuple",
    ast.JoinedStr: "builtins.str",
}

MAX_NODES = 400
MAX_FORM = 160
NAME = "_"

Key = tuple[NameScope | None, str]
"""A name and the scope that binds it; None for an outside name."""


_NOWHERE = NameScope("module")


class Flows:
    """The names of one piece of code, and the expressions that flow into them.

    The code must parse. ``parameters`` are names that the caller binds.
    """

    def __init__(self, code: str, parameters: Collection[str]) -> None:
        self.tree = parse(code)
        self.program = Program()
        self.nodes = self.program.add(self.tree)
        self.resolver = FreeNames(self.program, parameters)
        self._into_objects: dict[Key, list[ast.expr]] = {}
        self._dotted: dict[ast.AST, frozenset[str]] = {}
        self._certain: dict[ast.AST, bool] = {}
        self._classes: dict[str, list[ast.ClassDef]] = {}
        self._active: set[ast.AST] = set()
        self._cuts = self._evaluations = self._depth = 0
        for node in self.nodes:
            if isinstance(node, ast.Name):
                self._note(node)
            elif isinstance(node, ast.ClassDef):
                self._classes.setdefault(node.name, []).append(node)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around this one."""
        return self.program.parent_of.get(node)

    def texts(self, node: ast.expr) -> tuple[str, ...]:
        """Return the possible texts of an expression, with ``values.HOLE`` for unknown pieces."""
        return self.resolver.value(node).texts

    def key(self, node: ast.Name) -> Key:
        """Return a name with the scope that binds it; None for an outside name."""
        lookup = self.program.scope_of.get(node, self.program.module).find(node.id)
        return (lookup[0] if lookup else None, node.id)

    def _bindings(self, key: Key) -> list[Binding]:
        return key[0].bindings.get(key[1], []) if key[0] is not None else []

    # flows

    def _note(self, name: ast.Name) -> None:
        """Record the expressions that flow into the object that a name refers to."""
        if not isinstance(name.ctx, ast.Load):
            return
        key, outer = self.key(name), self.access(name)
        parent, written = self.parent(outer), self.program.written.get(outer)
        sources = self._into_objects.setdefault(key, [])
        if written is not None:
            sources.append(written)
        elif key[0] is not None and isinstance(parent, ast.Call) and parent.func is outer is not name:
            sources += arguments_of(parent)  # rows.append(...)
        elif key[0] is not None and outer is name and isinstance(parent, ast.Assign):
            sources += [target for target in parent.targets if isinstance(target, ast.Name)]  # an alias

    def access(self, node: ast.expr) -> ast.expr:
        """Return the longest chain of attributes and items that begins with the node."""
        parent = self.parent(node)
        while isinstance(parent, _ACCESS) and parent.value is node:
            node, parent = parent, self.parent(parent)
        return node

    def _sources(self, key: Key) -> Iterator[ast.expr]:
        yield from self._into_objects.get(key, ())
        for binding in self._bindings(key):
            if binding.kind in _ASSIGNED and isinstance(binding.node, ast.expr):
                yield binding.node
            if isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                yield from self._of_function(binding.node, called=binding.kind == "param")
        for own in self._classes.get(key[1], ()):
            for node in ast.walk(own):
                if isinstance(node, (ast.Return, ast.Assign, ast.AnnAssign)) and node.value is not None:
                    yield node.value

    def _of_function(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, *, called: bool
    ) -> Iterator[ast.expr]:
        if not called:
            yield from self.program.scope_of[function].returns
            return
        yield from function.args.defaults
        yield from (default for default in function.args.kw_defaults if default is not None)
        parent = self.parent(function)
        names = [getattr(function, "name", "")]
        if isinstance(parent, ast.Assign):
            names = [target.id for target in parent.targets if isinstance(target, ast.Name)]
        calls = [call for name in names for call in self.program.calls.get(name, ())]
        for call in [parent, *calls] if isinstance(parent, ast.Call) and parent.func is function else calls:
            yield from arguments_of(call)

    def into(self, node: ast.expr, seen: set[Key]) -> Iterator[ast.expr]:
        """Yield the expressions that flow into the names of an expression, directly or through other names.

        Skip the names in ``seen``, and add the visited names to it.
        """
        stack = [node]
        while stack:
            for part in ast.walk(stack.pop()):
                if isinstance(part, ast.Name) and (key := self.key(part)) not in seen:
                    seen.add(key)
                    sources = list(self._sources(key))
                    stack.extend(sources)
                    yield from sources

    # names

    def dotted(self, node: ast.expr) -> frozenset[str]:
        """Return the possible dotted names of an expression; unknown names begin with ``?``.

        The result is empty for the code's own functions and classes.
        """
        known = self._dotted.get(node)
        if known is not None:
            return known
        if node in self._active or len(self._active) > MAX_DEPTH:
            self._cuts += 1
            return frozenset({"?"})
        self._active.add(node)
        self._evaluations += 1
        cuts = self._cuts
        names = self.resolver.value(node).names | self._spelt(node)
        self._active.discard(node)
        short = frozenset(name for name in names if len(name) <= MAX_NAME)
        names = short if len(short) == len(names) <= MAX_DOTTED else short | {"?"}
        # A result that was cut short inside a cycle is incomplete for other callers.
        if self._cuts == cuts or not self._active or self._evaluations > MAX_EVALUATIONS:
            self._dotted[node] = names
        return names

    def _spelt(self, node: ast.expr) -> frozenset[str]:
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if isinstance(node, _ACCESS):
            owners = self.dotted(node.value) or {"?"}
            member = f".{node.attr}" if isinstance(node, ast.Attribute) else "[...]"
            return frozenset(canonical(owner + member) for owner in owners)
        if isinstance(node, ast.Call):
            return frozenset(canonical(f"{name}()") for name in self.dotted(node.func))
        choices = _choices(node)
        if choices:
            return frozenset().union(*map(self.dotted, choices))
        return frozenset() if isinstance(node, ast.Lambda) else frozenset({_literal(node)})

    def _of_name(self, node: ast.Name) -> frozenset[str]:
        return frozenset().union(*map(self._of_binding, self._bindings(self.key(node))))

    def _of_binding(self, binding: Binding) -> frozenset[str]:
        unknown = frozenset({"?"})
        if binding.kind not in _ASSIGNED or not isinstance(binding.node, ast.expr):
            is_known = binding.kind in {"import", "function", "class"}
            return frozenset() if is_known and not getattr(binding.node, "decorator_list", ()) else unknown
        is_part = binding.kind == "element" or bool(binding.path)
        if binding.via and (is_part or binding.via != "with"):
            return unknown
        names = self.dotted(binding.node)
        return frozenset(f"{name}[...]" for name in names) or unknown if is_part else names

    def is_certain(self, node: ast.expr) -> bool:
        """Return True if the resolver found all possible texts of the expression."""
        known = self._certain.get(node)
        if known is not None:
            return known
        self._certain[node] = False  # the result within a cycle
        parts = self._parts(node) if self._depth < MAX_DEPTH else None
        self._depth += 1
        known = parts is not None and all(map(self.is_certain, parts))
        self._depth -= 1
        self._certain[node] = known and len(self.resolver.value(node).consts) < MAX_ALTERNATIVES
        return self._certain[node]

    def _parts(self, node: ast.expr) -> list[ast.expr] | None:
        """Return the expressions that determine the texts of a node; None if the resolver may miss some."""
        parts = _PARTS.get(type(node))
        if parts is not None:
            return parts(node)
        if isinstance(node, ast.Name):
            bindings = self._bindings(self.key(node))
            values = [each.node for each in bindings if each.kind == "value" and not (each.path or each.via)]
            known = [value for value in values if isinstance(value, ast.expr)]
            return known if known and len(known) == len(bindings) else None
        if isinstance(node, ast.Call) and node.args and not node.keywords:
            functions = self.dotted(node.func)
            return node.args if functions and functions <= _JOINERS else None
        names = self.dotted(node)
        return [] if names and all(folding.known_value(name) is not None for name in names) else None


def _choices(node: ast.expr) -> list[ast.expr]:
    """Return the expressions that this one chooses its value from."""
    if isinstance(node, (ast.Await, ast.NamedExpr, ast.Starred)):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return node.values if isinstance(node, ast.BoolOp) else []


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return f"builtins.{type(node.value).__name__}"
    return _LITERALS.get(type(node), "?")


def _formatted(node: ast.FormattedValue) -> list[ast.expr] | None:
    return [node.value] if node.conversion == -1 and node.format_spec is None else None


def _operands(node: ast.BinOp) -> list[ast.expr] | None:
    return [node.left, node.right] if isinstance(node.op, (ast.Add, ast.Div)) else None


_PARTS: dict[type[ast.expr], Callable[..., list[ast.expr] | None]] = {
    ast.Constant: lambda node: [] if isinstance(node.value, (str, bytes, int)) else None,
    ast.JoinedStr: lambda node: node.values,
    ast.FormattedValue: _formatted,
    ast.BinOp: _operands,
    ast.IfExp: lambda node: [node.body, node.orelse],
}


class FreeNames(Resolver):
    """A resolver with free names: the parameters, and the names that no code binds."""

    assumed = ASSUMED

    def __init__(self, program: Program, parameters: Collection[str]) -> None:
        super().__init__(program)
        self._parameters = {name: named(_parameter(name)) for name in parameters}

    def name(self, name: str, scope: NameScope) -> Value:
        """Return the value of a name. Until the top level binds it, it has its outer meaning."""
        lookup = scope.find(name)
        outside = self._parameters.get(name) or self._unbound(name, _NOWHERE)
        if lookup is None:
            if name in self._parameters:
                return outside
            starred = self._unbound(name, scope)
            return union((starred, outside if outside.names else named(name)))
        bound = super().name(name, scope)
        return union((bound, outside)) if lookup[0].kind in {"module", "class"} else bound


class _OuterNames(Resolver):
    assumed = ASSUMED


def _parameter(name: str) -> str:
    """Return the dotted name of a parameter. It differs from a module or builtin of the same name."""
    known = _OuterNames(Program()).name(name, _NOWHERE).names
    return f"{name}(parameter)" if known or module_level(name) or rules_for(f"{name}.member") else name


class NormalForms:
    """The normal forms of the expressions of one piece of code."""

    def __init__(self, code: str, flows: Flows) -> None:
        # The same text gives the same nodes in the same order.
        self._copies = dict(zip(ast.walk(flows.tree), ast.walk(parse(code)), strict=True))
        self._known: dict[ast.AST, str] = {}
        arguments = {node.arg for node in flows.nodes if isinstance(node, ast.arg)}
        for node, other in self._copies.items():
            if isinstance(node, ast.Name) and isinstance(other, ast.Name):
                other.id = _name(node, flows)
            elif isinstance(other, (ast.arg, ast.keyword)) and other.arg in arguments:
                other.arg = NAME

    def of(self, node: ast.AST) -> str:
        """Return the normal form of an expression."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = shorten(_spelt(self._copies[node]))
        return known


def shorten(text: str) -> str:
    """Return a short text unchanged, and a long text as its beginning and a digest."""
    if len(text) <= MAX_FORM:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{text[: MAX_FORM // 2]}… ({digest[:16]})"


def _name(node: ast.Name, flows: Flows) -> str:
    """Return the normal form of a name: unchanged if free, in full if imported, otherwise ``_``."""
    key = flows.key(node)
    if key[0] is None:
        return node.id
    bindings = key[0].bindings.get(key[1], [])
    imported = {binding.name for binding in bindings if binding.kind == "import"}
    return imported.pop() if len(imported) == 1 and len(bindings) == 1 else NAME


def _spelt(tree: ast.AST) -> str:
    if _is_small(tree):
        try:
            return ast.unparse(tree)
        except ValueError:  # an integer with too many digits, an f-string with a backslash
            pass
    digest = hashlib.sha256()
    for piece in _pieces(tree):
        digest.update(piece.encode("utf-8", "backslashreplace") + b"\0")
    return f"{type(tree).__name__} ({digest.hexdigest()[:16]})"


def _is_small(tree: ast.AST) -> bool:
    stack = [(tree, 0)]
    for seen in range(MAX_NODES):
        if not stack:
            return True
        node, depth = stack.pop()
        if depth > MAX_DEPTH or seen == MAX_NODES - 1:
            return False
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return False


def _pieces(tree: ast.AST) -> Iterator[str]:
    """Yield the parts of an expression iteratively, because it may be nested deeply."""
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            yield type(item).__name__
            stack.extend(getattr(item, field, None) for field in reversed(item._fields))
        elif isinstance(item, list):
            yield f"[{len(item)}]"
            stack.extend(reversed(item))
        else:
            yield hex(item) if isinstance(item, int) else repr(item)
