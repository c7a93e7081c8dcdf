"""The resolver finds the possible values of expressions: in ``g = getattr(os, "sys" + "tem")``, ``g`` is ``os.system``.

Evaluation is lazy and cached for each node. It follows bindings in any order (no control flow), and stops at cycles and
at a fixed depth. Unbound names are builtins or well-known modules.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tract_jupyter.analysis import folding
from tract_jupyter.analysis.calls import call_value, lookup
from tract_jupyter.analysis.dominance import OUTER_NAMES, Dominance
from tract_jupyter.analysis.values import (
    ANY_MODULE,
    ASSUMED,
    GIVEN,
    HOLE,
    REACHABLE,
    UNKNOWN,
    Value,
    canonical,
    constant,
    lift,
    named,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.analysis.limits import Deadline
    from tract_jupyter.analysis.program import Binding, FunctionNode, NameScope, Program


MAX_ITEMS = 256
MAX_FIELDS = 64


def element(value: Value) -> Value:
    """Return the possible elements of a value."""
    if value.items is not None:
        return union(value.items)
    return lookup(value, UNKNOWN)


def member(value: Value, index: int) -> Value:
    """Return the possible member at a position when the value is unpacked."""
    if value.items is not None and index < len(value.items):
        return value.items[index]
    return value if ANY_MODULE in value.names else element(value)


def _attribute(resolver: Resolver, node: ast.Attribute) -> Value:
    # On any object, these lead to the builtins or to a module's globals.
    if node.attr in {"__builtins__", "f_builtins"}:
        return named("builtins.__dict__", "builtins")
    if node.attr in {"__globals__", "f_globals", "func_globals"}:
        return named("builtins.globals()")
    owner = resolver.value(node.value)
    own = resolver.method(owner, node.attr) or (resolver.method(owner, "run") if node.attr == "start" else ())
    if own:
        return Value(functions=own)
    value = attribute(owner, node.attr)
    has_fields = not owner.names or owner.objects or not owner.names.isdisjoint(_NAMESPACES)
    return union((value, _field(resolver, node.attr))) if has_fields else value


_NAMESPACES = frozenset({"types.SimpleNamespace()", "argparse.Namespace()"})


def _field(resolver: Resolver, name: str) -> Value:
    """Return the attribute of an unknown object: every value that the code assigns to this name."""
    program = resolver.program
    if name in program.fields or name in program.methods:
        return resolver.once(("field", name), partial(_set_anywhere, resolver), name)
    return _carried_module(name)


def _set_anywhere(resolver: Resolver, name: str) -> Value:
    values = [resolver.value(node) for node in resolver.program.fields.get(name, ())[-MAX_FIELDS:]]
    methods = resolver.program.methods.get(name, ())
    named_values = [value._replace(consts=(), items=None, entries=None) for value in values if value.names]
    # If the code sets an attribute only once, any object has this value.
    sole = values if len(values) == 1 and not methods else named_values
    value = union([*sole, *([Value(functions=tuple(methods))] if methods else ())])
    return resolver.filled(f".{name}", value)


def _carried_module(name: str) -> Value:
    """Evaluate ``x._os`` and ``x["os"]``. On any object, this is most likely the module."""
    bare = name.lstrip("_")
    # Without the underscore it may be an ordinary field: self.socket, frame["os"].
    is_module = bare in REACHABLE and (bare != name or bare in {"os", "sys"})
    return Value(names=frozenset({canonical(bare)}), guessed=True) if is_module else UNKNOWN


def _carried_item(resolver: Resolver, node: ast.Subscript) -> Value:
    text = node.slice.value if isinstance(node.slice, ast.Constant) else None
    used = isinstance(resolver.program.parent_of.get(node), ast.Attribute)
    return _carried_module(text) if used and isinstance(text, str) and text.startswith("_") else UNKNOWN


def attribute(owner: Value, name: str) -> Value:
    """Return the possible values of an attribute."""
    if not owner.names:
        return UNKNOWN
    names = [canonical(f"{dotted}.{name}") for dotted in owner.names]
    if "pathlib.Path()" in owner.names and name == "parent":
        return Value(names=owner.names, consts=folding.join_path([owner, constant("..")]).consts)
    if "pathlib.Path()" in owner.names and name == "parents":
        ups = [
            Value(owner.names, folding.join_path([owner, constant("/".join([".."] * n))]).consts)
            for n in range(1, 8)
        ]
        return Value(items=tuple(ups))
    consts = [const for const in map(folding.known_value, names) if const is not None]
    if not consts and not owner.guessed:
        return named(*names)
    return Value(named(*names).names, constant(*consts).consts, guessed=owner.guessed)


def constant_value(literal: object) -> Value:
    """Return the value of a literal. Floats and ``None`` are unknown."""
    if type(literal) is int:
        return constant(literal)
    return Value(consts=(literal,)) if isinstance(literal, (str, bytes, bool)) else UNKNOWN


def _binary(resolver: Resolver, node: ast.BinOp) -> Value:
    left, right = resolver.value(node.left), resolver.value(node.right)
    if isinstance(node.op, ast.Div) and "pathlib.Path()" in left.names | right.names:
        return Value(named("pathlib.Path()").names, folding.join_path([left, right]).consts)
    return folding.binary(node.op, left, right)


def _negative(resolver: Resolver, node: ast.UnaryOp) -> Value:
    if not isinstance(node.op, ast.USub):
        return UNKNOWN
    return lift(lambda const: -const if isinstance(const, int) else None, resolver.value(node.operand))


def _joined(resolver: Resolver, node: ast.JoinedStr) -> Value:
    text = constant("")
    for piece in node.values:
        inner = (
            resolver.value(piece.value) if isinstance(piece, ast.FormattedValue) else resolver.value(piece)
        )
        text = lift(lambda left, right: f"{left}{right}", text, inner if inner.consts else constant(HOLE))
    return text


def _choice(resolver: Resolver, node: ast.IfExp) -> Value:
    return union((resolver.value(node.body), resolver.value(node.orelse)))


def _either(resolver: Resolver, node: ast.BoolOp) -> Value:
    return union(resolver.value(member) for member in node.values[:MAX_ITEMS])


def _display(resolver: Resolver, node: ast.Tuple | ast.List | ast.Set) -> Value:
    return Value(items=tuple([resolver.value(member) for member in node.elts[:MAX_ITEMS]]))


def _produced(resolver: Resolver, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
    return Value(items=(resolver.value(node.elt),))


def _mapping(resolver: Resolver, node: ast.Dict) -> Value:
    entries = []
    for key, member in zip(node.keys[:MAX_ITEMS], node.values, strict=False):
        keys = resolver.value(key).consts if key is not None else ()
        entries.append((keys[0] if keys else "", resolver.value(member)))
    return Value(entries=tuple(entries))


def _subscript(resolver: Resolver, node: ast.Subscript) -> Value:
    owner = resolver.value(node.value)
    if owner is UNKNOWN:
        return _carried_item(resolver, node)
    if isinstance(node.slice, ast.Slice):
        return _sliced(resolver, owner, node.slice)
    index = resolver.value(node.slice)
    if owner.consts and not owner.names:
        return folding.item(owner, index)
    if owner.items is not None and index.consts:
        return union(_at(owner.items, position) for position in index.consts if isinstance(position, int))
    value = lookup(owner, index)
    value = _carried_item(resolver, node) if value is UNKNOWN else value
    if "builtins.globals()" in owner.names:
        return union((value, *(resolver.name(key, resolver.program.module) for key in index.texts)))
    return value


def _at(items: tuple[Value, ...], position: int) -> Value:
    with contextlib.suppress(IndexError):
        return items[position]
    return UNKNOWN


def _sliced(resolver: Resolver, owner: Value, bounds: ast.Slice) -> Value:
    numbers: list[int | None] = []
    for bound in (bounds.lower, bounds.upper, bounds.step):
        consts = resolver.value(bound).consts if bound is not None else ()
        first = consts[0] if consts else None
        if bound is not None and not isinstance(first, int):
            return Value(items=owner.items)
        numbers.append(first if isinstance(first, int) else None)
    start, stop, step = numbers
    if owner.items is not None:
        return Value(items=owner.items[start:stop:step] if step != 0 else owner.items)
    return folding.part(owner, (start, stop, step))


EVALUATORS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _negative,
    ast.JoinedStr: _joined,
    ast.IfExp: _choice,
    ast.BoolOp: _either,
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), _display),
    **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.SetComp), _produced),
    ast.Dict: _mapping,
    ast.Subscript: _subscript,
    ast.Call: call_value,
    ast.NamedExpr: lambda resolver, node: resolver.value(node.value),
    ast.Await: lambda resolver, node: resolver.value(node.value),
    ast.Starred: lambda resolver, node: resolver.value(node.value),
    ast.Lambda: lambda _resolver, node: Value(functions=(node,)),
}


def _own(node: FunctionNode | ast.ClassDef | None) -> Value:
    if isinstance(node, ast.ClassDef):
        return Value(classes=(node,))
    return UNKNOWN if node is None else Value(functions=(node,))


MAX_DEPTH = 50
"""The nesting that one evaluation follows. Deeper parts are still evaluated separately."""

MAX_EVALUATIONS = 20_000
"""Extra evaluations before incomplete results are cached. This bounds the time."""

MAX_STARS = 32
MAX_BINDINGS = 64
MAX_CALL_SITES = 24

_CHECKED = 511  # the deadline is checked once in so many evaluations
_BUILTINS = frozenset(dir(builtins))


_Key = TypeVar("_Key")
_Asked = TypeVar("_Asked")


class Resolver:
    """The evaluator of the expressions of one program."""

    assumed: Mapping[str, str] = ASSUMED | GIVEN
    """The meanings of names that nothing binds."""

    def __init__(self, program: Program, deadline: Deadline | None = None) -> None:
        self.program = program
        self._dominance = Dominance(program)
        self._deadline = deadline
        self._known: dict[ast.AST, Value] = {}
        self._known_names: dict[tuple[NameScope, str], Value] = {}
        self._provisional: dict[object, Value] = {}
        self._active: set[object] = set()
        self._depth = 0
        self._cuts = 0
        self._evaluations = 0
        self._limit = MAX_EVALUATIONS + len(program.parent_of)
        self._incomplete = False

    def value(self, node: ast.expr) -> Value:
        """Return the possible values of an expression; the empty value if nothing is known."""
        known = self._known.get(node)
        if known is not None:
            return known
        if type(node) is ast.Name:  # cached by scope
            scope = self.program.scope_of.get(node, self.program.module)
            known = self._known_names.get((scope, node.id))
            value = self.name(node.id, scope) if known is None else known
            if node.id in OUTER_NAMES or scope.kind == "class":
                outer = self._outer(node, scope)
                return value if outer is UNKNOWN else union((value, outer))
            return value
        if type(node) is ast.Constant:
            value = self._known[node] = constant_value(node.value)
            return value
        known = self._provisional.get(node) if self._provisional else None
        if known is not None:
            return known
        evaluate = EVALUATORS.get(type(node))
        return UNKNOWN if evaluate is None else self._evaluated(node, evaluate)

    def _evaluated(self, node: ast.expr, evaluate: Callable[[Resolver, ast.expr], Value]) -> Value:
        if self._depth >= MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN
        self._evaluations += 1
        if not self._evaluations & _CHECKED:
            self._check_deadline()
        cuts = self._cuts
        self._depth += 1
        try:
            value = evaluate(self, node)
        finally:
            self._depth -= 1
        if self._cuts == cuts:
            self._known[node] = value
        else:
            self._remember(self._known, node, value, is_whole=False)
        return value

    def once(self, key: object, evaluate: Callable[[_Asked], Value], argument: _Asked) -> Value:
        """Evaluate unless this key is already active. Every cycle passes a name, a function or a field."""
        if key in self._active or self._depth >= MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN
        self._active.add(key)
        self._depth += 1
        try:
            return evaluate(argument)
        finally:
            self._depth -= 1
            self._active.discard(key)

    def _remember(self, known: dict[_Key, Value], key: _Key, value: Value, *, is_whole: bool) -> None:
        """Cache a result. A result that a cycle cut short is cached only until its evaluation ends.

        The outermost result is complete even then, because a name that depends on itself adds nothing.
        """
        if is_whole:
            known[key] = value
        elif not self._active and not self._depth:
            known[key] = value
            self._provisional.clear()
        elif self._evaluations > self._limit:
            known[key] = value
            self._incomplete = True
        else:
            self._provisional[key] = value

    @property
    def is_incomplete(self) -> bool:
        """True if some results are incomplete."""
        return self._incomplete

    def _check_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.check()

    def name(self, name: str, scope: NameScope) -> Value:
        """Return the value of a name in a scope: its bindings, a star import, a builtin, or a well-known module."""
        key = (scope, name)
        known = self._known_names.get(key)
        if known is not None:
            return known
        lookup_result = scope.find(name)
        if lookup_result is None:
            value = self._known_names[key] = self._unbound(name, scope)
            return value
        owner, bindings = lookup_result
        value = self._of_bindings((owner, name), bindings)
        if (owner, name) in self._known_names:
            self._known_names[key] = value
        return value

    def _outer(self, node: ast.Name, scope: NameScope) -> Value:
        """Return the outer meaning of a name that may not be bound yet."""
        lookup_result = scope.find(node.id)
        if lookup_result is None or self._dominance.is_bound(node, lookup_result[0]):
            return UNKNOWN
        if lookup_result[0].kind == "class" and scope.parent is not None:
            return self.name(node.id, scope.parent)
        return self._unbound(node.id, scope) if lookup_result[0].kind == "module" else UNKNOWN

    def _of_bindings(self, key: tuple[NameScope, str], bindings: list[Binding]) -> Value:
        known = self._known_names.get(key) or self._provisional.get(key)
        if known is not None:
            return known
        cuts = self._cuts
        value = self.filled(key[1], self.once(key, self._any_of, bindings))
        if self._cuts != cuts and not self._active and not self._depth:
            # The name depends on itself, as in a loop. Evaluate once more with the known values.
            self._provisional.clear()
            self._known_names[key] = value
            value = union((value, self._any_of(bindings)))
        self._remember(self._known_names, key, value, is_whole=self._cuts == cuts)
        return value

    def _any_of(self, bindings: list[Binding]) -> Value:
        if len(bindings) == 1:
            return self._bound(bindings[0])
        # Constants are cheap, so all of them count.
        older = [binding for binding in bindings[:-MAX_BINDINGS] if isinstance(binding.node, ast.Constant)]
        return union([self._bound(binding) for binding in (*older, *bindings[-MAX_BINDINGS:])])

    def filled(self, name: str, container: Value) -> Value:
        """Add the items that other code stores into a container, by the variable's name or ``.attribute``."""
        stored = self.program.members.get(name)
        if stored is None or container.names or container.consts or container.functions:
            return container
        members = [
            (key, self.once(("member", value), self.value, value)) for key, value in stored[-MAX_FIELDS:]
        ]
        known = [(key, value) for key, value in members if value is not UNKNOWN]
        keyed = [((self.value(key).consts or ("",))[0], value) for key, value in known if key is not None]
        items = tuple(value for key, value in known if key is None)
        return container._replace(
            items=(*(container.items or ()), *items) if items or container.items is not None else None,
            entries=(*(container.entries or ()), *keyed) if keyed or container.entries is not None else None,
        )

    def instance(self, classes: tuple[ast.ClassDef, ...]) -> Value:
        """Return an instance of the user's own classes. It is also an instance of their library base classes."""
        bases = [self.value(base) for own in classes for base in own.bases]
        above = tuple(dict.fromkeys(own for base in bases for own in base.classes if own not in classes))
        inherited = self.once(above, self.instance, above).names if above else frozenset()
        names = frozenset(canonical(f"{name}()") for base in bases for name in base.names)
        return Value(names=names | inherited, objects=classes)

    def method(self, owner: Value, name: str) -> tuple[FunctionNode, ...]:
        """Return the methods of this name in the object's own classes."""
        classes = [*owner.objects, *owner.classes]
        for own in classes:  # grows by their bases
            if len(classes) <= MAX_FIELDS:
                classes += [
                    base for node in own.bases for base in self.value(node).classes if base not in classes
                ]
        methods = self.program.methods.get(name, ()) if classes else ()
        return tuple(each for each in methods if self.program.parent_of.get(each) in classes)

    def _unbound(self, name: str, scope: NameScope) -> Value:
        stars = [module for outer in scope.visible() for module in outer.stars]
        self._incomplete |= len(stars) > MAX_STARS
        starred = [canonical(f"{module}.{name}") for module in stars[:MAX_STARS]]
        if name in _BUILTINS:
            # ``from os import *`` may replace a builtin such as open.
            return named(f"builtins.{name}", *starred)
        if starred:
            return named(*starred)
        if name in {"__builtins__", "file"}:
            return named("builtins" if name == "__builtins__" else "builtins.file")
        assumed = self.assumed.get(name)
        return Value(names=frozenset({canonical(assumed)}), guessed=True) if assumed else UNKNOWN

    def _bound(self, binding: Binding) -> Value:
        node = binding.node
        if binding.kind == "value" and not binding.path and isinstance(node, ast.expr):
            return self.value(node)
        if binding.kind == "import":
            return named(canonical(binding.name))
        if binding.kind == "param" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return self._argument(node, binding)
        if not isinstance(node, ast.expr):
            return _own(node)
        value = self.value(node)
        choices = [value]
        if binding.kind == "element":
            choices = list(value.items) if value.items is not None else [element(value)]
        for step in binding.path:
            choices = [
                member(each, step) if isinstance(step, int) else attribute(each, step) for each in choices
            ]
        return union(choices)

    def _argument(self, function: FunctionNode, binding: Binding) -> Value:
        around = self.program.parent_of.get(function)
        if binding.path == (0,) and isinstance(around, ast.ClassDef) and self._is_method(function):
            return self.instance((around,))
        return self._any_value(self.passed(function, binding))

    def passed(self, function: FunctionNode, binding: Binding) -> list[ast.expr]:
        """Return the expressions that calls pass for a parameter."""
        passed: list[ast.expr] = []
        calls = self._calls_of(function)
        if calls and binding.path:
            # A method's first parameter is not an argument of its calls.
            position = int(binding.path[0]) - self._is_method(function)
            passed += [call.args[position] for call in calls if 0 <= position < len(call.args)]
        for call in calls:
            passed += [keyword.value for keyword in call.keywords if keyword.arg == binding.name]
        return passed

    def _is_method(self, function: FunctionNode) -> bool:
        if isinstance(function, ast.Lambda) or not isinstance(
            self.program.parent_of.get(function), ast.ClassDef
        ):
            return False
        return not any(
            isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list
        )

    def _calls_of(self, function: FunctionNode) -> list[ast.Call]:
        parent = self.program.parent_of.get(function)
        if isinstance(parent, ast.Call) and parent.func is function:
            return [parent]
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            return self.program.calls.get(parent.targets[0].id, [])[-MAX_CALL_SITES:]
        if isinstance(function, ast.Lambda):
            return []
        if isinstance(parent, ast.ClassDef):
            return self.program.calls.get(f".{function.name}", [])[-MAX_CALL_SITES:]
        return self.program.calls.get(function.name, [])[-MAX_CALL_SITES:]

    def returned(self, function: FunctionNode) -> Value:
        """Return the possible results of a user's function."""
        scope = self.program.scope_of.get(function)
        if scope is None or not scope.returns:
            return UNKNOWN
        return self.once(function, self._any_value, scope.returns)

    def _any_value(self, expressions: list[ast.expr]) -> Value:
        return union([self.value(expression) for expression in expressions])
