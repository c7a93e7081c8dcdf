"""A program of one or several cells that share their names: scopes, parents, calls, attributes.

One iterative walk over the tree records the bindings of all names in each scope. (Code may be nested deeper than
Python's stack allows.) A binding is a reference such as "the second member of this expression". The resolver evaluates
it on demand.
"""

from __future__ import annotations

import ast
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tract_jupyter.analysis.dominance import EVERYTHING, OUTER_NAMES, only_binds
from tract_jupyter.analysis.source import last_name
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.analysis.limits import Deadline


BindingKind = Literal["import", "value", "element", "function", "class", "param", "opaque"]
BindingVia = Literal["", "with", "augmented", "captured", "default"]
ScopeKind = Literal["module", "function", "class", "comprehension"]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Child = tuple[ast.AST, "NameScope"]


class Binding(NamedTuple):
    """One possible binding of a name.

    Attributes:
        kind: An import, an expression's value, one of its elements, a parameter, or unknown.
        node: The expression or function.
        path: The member, for unpacked targets: ``(1,)`` is the second one; a text is an attribute.
        name: The dotted name of an import, or the parameter's own name.
        via: The syntax that gives the name a value other than the expression's own: ``with``, ``+=``, the capture of a
            pattern, or the default of a parameter. Empty for an assignment.
    """

    kind: BindingKind
    node: ast.expr | FunctionNode | ast.ClassDef | None = None
    path: tuple[str | int, ...] = ()
    name: str = ""
    via: BindingVia = ""


_OPAQUE = Binding("opaque")


@dataclass(eq=False, slots=True)
class NameScope:
    """One scope. ``stars`` are modules imported with ``*``, and ``returns`` a function's possible results."""

    kind: ScopeKind
    parent: NameScope | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: dict[str, None] = field(default_factory=dict)
    returns: list[ast.expr] = field(default_factory=list)
    redirected: dict[str, NameScope] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding = _OPAQUE) -> None:
        """Add a binding to a name, in the scope that ``global`` or ``nonlocal`` selected."""
        self.redirected.get(name, self).bindings.setdefault(name, []).append(binding)

    def visible(self) -> Iterator[NameScope]:
        """Yield the scopes for the lookup of a name. A class body is visible only from itself."""
        yield self
        scope = self.parent
        while scope is not None:
            if scope.kind != "class":
                yield scope
            scope = scope.parent

    def find(self, name: str) -> tuple[NameScope, list[Binding]] | None:
        """Return the scope that binds the name, and the bindings; None for an unbound name."""
        if name in self.bindings and not self.redirected:
            return self, self.bindings[name]
        for scope in self.visible():
            owner = scope.redirected.get(name, scope)
            bindings = owner.bindings.get(name)
            if bindings is not None:
                return owner, bindings
        return None


_LEAF_FIELDS = words("""
    ctx op ops id attr arg kind name asname level module type_comment conversion simple is_async rest kwd_attrs
""")
"""Fields without syntax that the analysis needs."""


_LEAVES = frozenset({ast.Constant, ast.MatchSingleton, ast.Global, ast.Nonlocal})


def _child_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields that may hold children, in reverse order for a stack."""
    leaves = kind._fields if kind in _LEAVES else _LEAF_FIELDS
    return tuple(name for name in reversed(kind._fields) if name not in leaves)


def children_of(node: ast.AST, scope: NameScope, *leave_out: str) -> list[Child]:
    """Return the direct children in source order, each with its scope."""
    children: list[Child] = []
    for name in reversed(SYNTAX[type(node)].fields):
        value = None if name in leave_out else getattr(node, name, None)
        if isinstance(value, list):
            children.extend((item, scope) for item in value if isinstance(item, ast.AST))
        elif isinstance(value, ast.AST):
            children.append((value, scope))
    return children


def _name(program: Program, node: ast.Name, scope: NameScope) -> None:
    program.scope_of[node] = scope
    if isinstance(node.ctx, ast.Load):
        return
    if isinstance(node.ctx, ast.Del):
        program.deleted.add(node.id)
    elif scope.kind != "function" and _only_annotates(program.parent_of.get(node)):
        return  # ``exec: object`` binds nothing, but within a function it makes the name local
    program.note_binder(scope, node.id, node)
    if node.id not in scope.redirected.get(node.id, scope).bindings:
        scope.bind(node.id)  # bound by syntax that no note below knows, such as a type alias


def _only_annotates(node: ast.AST | None) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is None


def _assign(program: Program, node: ast.Assign, scope: NameScope) -> None:
    for target in node.targets:
        program.bind_target(scope, target, node.value)


def _annotated(program: Program, node: ast.AnnAssign | ast.AugAssign, scope: NameScope) -> None:
    if node.value is not None:
        via: BindingVia = "augmented" if isinstance(node, ast.AugAssign) else ""
        program.bind_target(scope, node.target, node.value, via=via)


def _walrus(program: Program, node: ast.NamedExpr, scope: NameScope) -> None:
    program.bind_target(scope, node.target, node.value)
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
        program.bind_target(scope, node.target, node.value)


def _for(program: Program, node: ast.For | ast.AsyncFor, scope: NameScope) -> None:
    program.bind_target(scope, node.target, node.iter, "element")


def _with_item(program: Program, node: ast.withitem, scope: NameScope) -> None:
    if node.optional_vars is not None:
        program.bind_target(scope, node.optional_vars, node.context_expr, via="with")


def _match(program: Program, node: ast.Match, scope: NameScope) -> None:
    """Bind the captures of patterns: the subject, or one of its attributes or members."""
    for case in node.cases:
        stack: list[tuple[ast.pattern, tuple[str | int, ...]]] = [(case.pattern, ())]
        while stack:
            pattern, path = stack.pop()
            if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
                scope.bind(pattern.name, Binding("value", node.subject, path, via="captured"))
                program.note_binder(scope, pattern.name, pattern)
            stack.extend(_inner_patterns(pattern, path))


def _inner_patterns(
    pattern: ast.pattern, path: tuple[str | int, ...]
) -> Iterator[tuple[ast.pattern, tuple[str | int, ...]]]:
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield pattern.pattern, path
    elif isinstance(pattern, ast.MatchOr):
        yield from ((inner, path) for inner in pattern.patterns)
    elif isinstance(pattern, ast.MatchClass):
        named = zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
        yield from ((inner, (*path, name)) for name, inner in named)
    elif isinstance(pattern, (ast.MatchSequence, ast.MatchMapping)):
        yield from ((inner, (*path, index)) for index, inner in enumerate(pattern.patterns))


def _import(program: Program, node: ast.Import, scope: NameScope) -> None:
    for alias in node.names:
        first = alias.name.split(".")[0]
        program.note_binder(scope, alias.asname or first, node)
        scope.bind(alias.asname or first, Binding("import", name=alias.name if alias.asname else first))


def _import_from(program: Program, node: ast.ImportFrom, scope: NameScope) -> None:
    for alias in node.names:
        program.note_binder(scope, alias.asname or alias.name, node)
        if node.level:  # a module of the user's own, whatever its name
            scope.bind(alias.asname or alias.name)
        elif alias.name == "*":
            scope.stars[node.module or ""] = None
        else:
            scope.bind(alias.asname or alias.name, Binding("import", name=f"{node.module}.{alias.name}"))


def _global(program: Program, node: ast.Global, scope: NameScope) -> None:
    scope.redirected.update(dict.fromkeys(node.names, program.module))


def _nonlocal(_program: Program, node: ast.Nonlocal, scope: NameScope) -> None:
    for name in node.names:
        owner = next(
            (outer for outer in scope.visible() if outer is not scope and name in outer.bindings), None
        )
        if owner is not None:
            scope.redirected[name] = owner


def _return(_program: Program, node: ast.Return | ast.Yield, scope: NameScope) -> None:
    if node.value is not None:
        scope.returns.append(node.value)


def _caught(
    program: Program, node: ast.ExceptHandler | ast.MatchStar | ast.MatchMapping, scope: NameScope
) -> None:
    name = node.rest if isinstance(node, ast.MatchMapping) else node.name
    if name is None:
        return
    scope.bind(name)
    if isinstance(node, ast.ExceptHandler):
        program.deleted.add(name)  # at the handler's end
    else:
        program.note_binder(scope, name, node)


def _call(program: Program, node: ast.Call, _scope: NameScope) -> None:
    if isinstance(node.func, ast.Name):
        program.calls.setdefault(node.func.id, []).append(node)
    elif isinstance(node.func, ast.Attribute):
        program.calls.setdefault(f".{node.func.attr}", []).append(node)
    last = last_name(node.func)
    if last in _ADDERS and isinstance(node.func, ast.Attribute) and node.args:
        key = node.args[0] if len(node.args) > 1 else None
        program.store(node.func.value, key, node.args[-1])
    if last in _REMOVERS:
        program.deleted.update(_removed(node.args, node.func))
    if last.endswith("Namespace"):  # of types or argparse: each keyword becomes an attribute
        for keyword in node.keywords:
            program.fields.setdefault(keyword.arg or "", []).append(keyword.value)


_ADDERS = frozenset({"append", "add", "insert", "setdefault", "appendleft", "put", "put_nowait"})
_REMOVERS = frozenset({"pop", "__delitem__", "clear", "popitem", "delattr", "__delattr__"})
_NAMESPACES = frozenset({"globals", "locals", "vars"})


def _removed(keys: list[ast.expr], owner: ast.expr) -> Iterator[str]:
    """Yield the removed names if the owner is a namespace: ``globals().pop("exec")``."""
    texts = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    yield from texts
    space = owner.value if isinstance(owner, ast.Attribute) else owner
    if not texts and isinstance(space, ast.Call) and getattr(space.func, "id", "") in _NAMESPACES:
        yield EVERYTHING


def _delete(program: Program, node: ast.Delete, _scope: NameScope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Attribute):
            program.deleted.add(target.attr)
        elif isinstance(target, ast.Subscript):
            program.deleted.update(_removed([target.slice], target.value))


def _comprehension(
    program: Program, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: NameScope
) -> list[Child]:
    inner = NameScope("comprehension", scope)
    children: list[Child] = []
    for index, generator in enumerate(node.generators):
        program.bind_target(inner, generator.target, generator.iter, "element")
        # The first iterable is evaluated outside: [os for os in [os]] means the outer os.
        children.append((generator.iter, inner if index else scope))
        children.append((generator.target, inner))
        children.extend((test, inner) for test in generator.ifs)
    return children + children_of(node, inner, "generators")


def _function(program: Program, node: FunctionNode, scope: NameScope) -> list[Child]:
    inner = NameScope("function", scope)
    program.scope_of[node] = inner
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    for index, arg in enumerate(positional):
        inner.bind(arg.arg, Binding("param", node, (index,), arg.arg))
        if index >= first_default:
            inner.bind(arg.arg, Binding("value", arguments.defaults[index - first_default], via="default"))
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        inner.bind(arg.arg, Binding("param", node, (), arg.arg))
        if default is not None:
            inner.bind(arg.arg, Binding("value", default, via="default"))
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            inner.bind(extra.arg)
    if isinstance(node, ast.Lambda):
        inner.returns.append(node.body)
        return [*children_of(arguments, scope), (node.body, inner)]
    scope.bind(node.name, Binding("function", node))
    program.note_binder(scope, node.name, node)
    if scope.kind == "class":
        program.methods.setdefault(node.name, []).append(node)
    outside = [*children_of(node, scope, "args", "body"), *children_of(arguments, scope)]
    return [*outside, *((statement, inner) for statement in node.body)]


def _class(program: Program, node: ast.ClassDef, scope: NameScope) -> list[Child]:
    scope.bind(node.name, Binding("class", node))
    program.note_binder(scope, node.name, node)
    program.classes.setdefault(node.name, []).append(node)
    inner = NameScope("class", scope)
    return [*children_of(node, scope, "body"), *((statement, inner) for statement in node.body)]


_NOTES: dict[type[ast.AST], Callable[..., None]] = {
    ast.Name: _name,
    ast.Assign: _assign,
    **dict.fromkeys((ast.AnnAssign, ast.AugAssign), _annotated),
    ast.NamedExpr: _walrus,
    **dict.fromkeys((ast.For, ast.AsyncFor), _for),
    ast.withitem: _with_item,
    ast.Match: _match,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    **dict.fromkeys((ast.Return, ast.Yield), _return),
    **dict.fromkeys((ast.ExceptHandler, ast.MatchStar, ast.MatchMapping), _caught),
    ast.Call: _call,
    ast.Delete: _delete,
}
_OPENS_SCOPE: dict[type[ast.AST], Callable[..., list[Child]]] = {
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _comprehension),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _function),
    ast.ClassDef: _class,
}


class NodeKind(NamedTuple):
    """The handling of a kind of node: its bindings, its new scope, and the fields that may hold children."""

    note: Callable[..., None] | None
    opens: Callable[..., list[Child]] | None
    fields: tuple[str, ...]


class _Syntax(dict[type[ast.AST], NodeKind]):
    def __missing__(self, kind: type[ast.AST]) -> NodeKind:
        handling = self[kind] = NodeKind(_NOTES.get(kind), _OPENS_SCOPE.get(kind), _child_fields(kind))
        return handling


SYNTAX = _Syntax()
"""The handling of each kind of node."""


class Program:
    """Scopes, parents and call sites of one or several cells that share the module scope.

    Attributes:
        module: The scope that the cells share.
        parent_of: The node around each node.
        scope_of: The scope of a name, or the scope that a function opens.
        calls: Calls by the name of the function.
        fields: Values of attributes by the attribute's name, of all objects.
        methods: Functions in classes by name.
        classes: Classes by name.
        cells: The trees, each with its number.
        binders: The nodes that bind a name of a scope. Only names with an outer meaning are recorded.
        deleted: Names that some code deletes.
        magics: The user's own magics by name: ``!`` and a shell command, ``%`` and the other name of a magic, or
            the name of a function.
        members: The items of containers, each with its key, by the name of the variable or ``.attribute``.
        written: The values of assignments to attributes and items, by the target.
        nodes: All nodes of all cells, in order.
    """

    def __init__(self) -> None:
        self.module = NameScope("module")
        self.parent_of: dict[ast.AST, ast.AST] = {}
        self.scope_of: dict[ast.AST, NameScope] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.methods: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.classes: dict[str, list[ast.ClassDef]] = {}
        self.cells: dict[ast.Module, int] = {}
        self.binders: dict[tuple[NameScope, str], list[ast.AST]] = {}
        self.deleted: set[str] = set()
        self.magics: dict[str, str] = {}
        self.members: dict[str, list[tuple[ast.expr | None, ast.expr]]] = {}
        self.written: dict[ast.AST, ast.expr] = {}
        self.nodes: list[ast.AST] = []

    def note_binder(self, scope: NameScope, name: str, node: ast.AST) -> None:
        """Record the node that binds a name, if the name also has an outer meaning."""
        owner = scope.redirected.get(name, scope)
        if owner.kind == "class" or (owner.kind == "module" and name in OUTER_NAMES):
            self.binders.setdefault((owner, name), []).append(node)

    def add(self, tree: ast.Module, deadline: Deadline | None = None) -> list[ast.AST]:
        """Add a tree, and return its nodes. Each node comes after its parent."""
        order, parent_of, scope_of = self.nodes, self.parent_of, self.scope_of
        before = len(order)
        self.cells[tree] = len(self.cells)
        stack: list[Child] = [(tree, self.module)]
        while stack:
            node, scope = stack.pop()
            order.append(node)
            if deadline is not None and not len(order) % 1024:
                deadline.check()
            note, opens, fields = SYNTAX[type(node)]
            if note is not None:
                note(self, node, scope)
            if opens is not None:
                children = opens(self, node, scope)
                parent_of.update((child, node) for child, _ in children)
                stack.extend(reversed(children))
                continue
            for name in fields:
                value = getattr(node, name, None)
                for child in reversed(value) if type(value) is list else (value,):
                    if child is None:
                        continue
                    parent_of[child] = node
                    # More than half of all nodes are names that are read, and constants: these end here.
                    kind = type(child)
                    if kind is ast.Constant:
                        order.append(child)
                    elif kind is ast.Name and type(child.ctx) is ast.Load:
                        scope_of[child] = scope
                        order.append(child)
                    else:
                        stack.append((child, scope))
        return order[before:]

    @contextmanager
    def tentatively(self) -> Iterator[None]:
        """Remove everything that the block adds at the end of the block."""
        length, stars, deleted = len(self.nodes), dict(self.module.stars), set(self.deleted)
        own_magics = dict(self.magics)
        tables: list[dict[Any, Any]] = [
            self.binders,
            self.members,
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
            for node in self.nodes[length:]:
                self.cells.pop(node, None)  # type: ignore[call-overload]
                self.parent_of.pop(node, None)
                self.scope_of.pop(node, None)
                self.written.pop(node, None)
            del self.nodes[length:]
            self.module.stars, self.deleted, self.magics = stars, deleted, own_magics
            for table, before in zip(tables, known, strict=True):
                _restore(table, before)

    def replace_older(self, tree: ast.Module) -> None:
        """Drop the bindings of earlier cells that the functions and classes of a cell that ran replace."""
        for statement in tree.body:
            if not only_binds(statement) or isinstance(statement, (ast.Import, ast.ImportFrom)):
                return  # it may have failed before the rest ran
            bound = self.module.bindings.get(getattr(statement, "name", ""), [])
            own = [index for index, binding in enumerate(bound) if binding.node is statement]
            del bound[: own[0] if own else 0]

    def bindings_of(self, name: ast.Name) -> list[Binding]:
        """Return the bindings of a name; none if no code binds it."""
        lookup = self.scope_of.get(name, self.module).find(name.id)
        return lookup[1] if lookup is not None else []

    def sole_value(self, name: ast.Name) -> ast.expr | None:
        """Return the assigned expression if a single assignment binds the name."""
        bindings = self.bindings_of(name)
        if len(bindings) != 1 or bindings[0].kind != "value" or bindings[0].path:
            return None
        return bindings[0].node if isinstance(bindings[0].node, ast.expr) else None

    def last_value(self, name: ast.Name) -> ast.expr | None:
        """Return the expression that the last plain assignment binds a name to."""
        for binding in reversed(self.bindings_of(name)):
            if binding.kind == "value" and not binding.path and isinstance(binding.node, ast.expr):
                return binding.node
        return None

    def store(self, container: ast.expr, key: ast.expr | None, value: ast.expr) -> None:
        """Record an item of a container: ``clients["a"] = value``, ``actions.append(value)``."""
        name = _name_of(container)
        # A value computed from the container itself adds no member.
        if name and isinstance(value, _STORED) and name not in {_name_of(node) for node in ast.walk(value)}:
            self.members.setdefault(name, []).append((key, value))

    def bind_target(
        self,
        scope: NameScope,
        target: ast.expr,
        value: ast.expr,
        kind: BindingKind = "value",
        via: BindingVia = "",
    ) -> None:
        """Bind an assignment target. Members of a tuple target become paths."""
        stack: list[tuple[ast.expr, tuple[int, ...]]] = [(target, ())]
        while stack:
            current, where = stack.pop()
            if isinstance(current, ast.Name):
                scope.bind(current.id, Binding(kind, value, where, via=via))
                if scope.kind == "class" and not where:
                    self.fields.setdefault(current.id, []).append(value)
            elif isinstance(current, (ast.Attribute, ast.Subscript)):
                self.written[current] = value
                if not where and isinstance(current, ast.Attribute):
                    self.fields.setdefault(current.attr, []).append(value)
                elif not where and isinstance(current, ast.Subscript):
                    self.store(current.value, current.slice, value)
            elif isinstance(current, ast.Starred):
                stack.append((current.value, where))
            elif isinstance(current, (ast.Tuple, ast.List)):
                stack.extend((member, (*where, index)) for index, member in enumerate(current.elts))


_STORED = (ast.Name, ast.Attribute, ast.Call, ast.Lambda, ast.Dict, ast.Constant)


def _name_of(node: ast.AST) -> str:
    """Return the name of a variable, or a dot and the name of an attribute."""
    return (
        node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""
    )


def _restore(table: dict[Any, Any], lengths: dict[Any, int]) -> None:
    for name in list(table):
        if name in lengths:
            del table[name][lengths[name] :]
        else:
            del table[name]
