"""From an expression to what it may stand for: ``g`` in ``g = getattr(os, "sys" + "tem")`` is ``os.system``.

Evaluation is lazy and remembered per node. It follows bindings in any order (no control flow), stops at
cycles and at a fixed depth, and treats names that nobody bound as builtins or well-known modules.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from typing import TYPE_CHECKING

from tract_jupyter.analysis import folding
from tract_jupyter.analysis.budget import TooLongError
from tract_jupyter.analysis.calls import call_value, lookup
from tract_jupyter.analysis.names import ASSUMED, REACHABLE, canonical
from tract_jupyter.analysis.values import (
    ANY_MODULE,
    HOLE,
    MAX_CONST,
    UNKNOWN,
    Value,
    constant,
    lift,
    named,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.analysis.budget import Clock
    from tract_jupyter.analysis.scopes import Binding, Program, Scope

MAX_DEPTH = 60
"""Nesting that one evaluation follows; deeper parts are still visited as expressions of their own."""

MAX_EVALUATIONS = 20_000
"""Evaluations, besides one a node, before even incomplete results are remembered, so that time is bounded."""

MAX_ITEMS = 256
MAX_STARS = 32
MAX_BINDINGS = 64
MAX_CALL_SITES = 24

_CHECKED = 511  # the clock is looked at once in so many evaluations
_BUILTINS = frozenset(dir(builtins))


class Resolver:
    """Evaluates the expressions of one program."""

    def __init__(self, program: Program, clock: Clock | None = None) -> None:
        self.program = program
        self._clock = clock
        self._known: dict[ast.AST, Value] = {}
        self._known_names: dict[tuple[Scope, str], Value] = {}
        self._active: set[object] = set()
        self._cuts = 0
        self._evaluations = 0
        self._limit = MAX_EVALUATIONS + len(program.parent_of)
        self._incomplete = False

    def value(self, node: ast.expr) -> Value:
        """What the expression may stand for; the empty value when nothing is known."""
        known = self._known.get(node)
        if known is not None:
            return known
        if type(node) is ast.Name:
            return self._of_name(node)
        evaluate = _EVALUATORS.get(type(node))
        if evaluate is None:
            return UNKNOWN
        if node in self._active or len(self._active) >= MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN
        self._active.add(node)
        self._evaluations += 1
        if not self._evaluations & _CHECKED:
            self._check_clock()
        cuts = self._cuts
        try:
            found = evaluate(self, node)
        finally:
            self._active.discard(node)
        if self._cuts == cuts or self._is_whole():
            self._known[node] = found
        return found

    def _of_name(self, node: ast.Name) -> Value:
        scope = self.program.scope_of.get(node, self.program.module)
        found = self.name(node.id, scope)
        if (scope, node.id) in self._known_names:
            self._known[node] = found
        return found

    def _is_whole(self) -> bool:
        """Whether a result that was cut short may be remembered: nobody waits for it, or there is no time to care."""
        if not self._active:
            return True
        self._incomplete |= self._evaluations > self._limit
        return self._evaluations > self._limit

    def check_complete(self) -> None:
        """Tell when some results hold less than they could.

        Raises:
            TooLongError: That is so.
        """
        if self._incomplete:
            raise TooLongError("too much in it depends on too much else")

    def _check_clock(self) -> None:
        if self._clock is not None:
            self._clock.check()

    def name(self, name: str, scope: Scope) -> Value:
        """What a name means in a scope: its bindings, a star import, a builtin, or a well-known module."""
        key = (scope, name)
        known = self._known_names.get(key)
        if known is not None:
            return known
        found = scope.find(name)
        if found is None:
            value = self._known_names[key] = self._unbound(name, scope)
            return value
        owner, bindings = found
        value = self._of_bindings((owner, name), bindings)
        if (owner, name) in self._known_names:
            self._known_names[key] = value
        return value

    def _of_bindings(self, key: tuple[Scope, str], bindings: list[Binding]) -> Value:
        known = self._known_names.get(key)
        if known is not None:
            return known
        if key in self._active or len(self._active) >= MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN
        self._active.add(key)
        self._evaluations += 1
        if not self._evaluations & _CHECKED:
            self._check_clock()
        cuts = self._cuts
        try:
            value = union([self._bound(binding) for binding in bindings[-MAX_BINDINGS:]])
        finally:
            self._active.discard(key)
        if self._cuts != cuts and not self._active:
            # The name depends on itself, as in a loop: once more round, with what is known of it.
            self._known_names[key] = value
            value = union([value, *(self._bound(binding) for binding in bindings[-MAX_BINDINGS:])])
        if self._cuts == cuts or self._is_whole():
            self._known_names[key] = value
        return value

    def _unbound(self, name: str, scope: Scope) -> Value:
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
        assumed = ASSUMED.get(name)
        return Value(names=frozenset({canonical(assumed)}), guessed=True) if assumed else UNKNOWN

    def _bound(self, binding: Binding) -> Value:
        if binding.kind == "import":
            return named(canonical(binding.name))
        node = binding.node
        if binding.kind == "param" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return self._argument(node, binding.name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return Value(functions=(node,))
        if not isinstance(node, ast.expr):
            return UNKNOWN
        found = self.value(node)
        choices = [found]
        if binding.kind == "element":
            choices = list(found.items) if found.items is not None else [element(found)]
        for step in binding.path:
            choices = [
                _member(each, step) if isinstance(step, int) else attribute(each, step) for each in choices
            ]
        return union(choices)

    def _argument(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> Value:
        """What a parameter may be: its default, and what the calls that we see hand over."""
        arguments = function.args
        positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
        passed = [
            default
            for arg, default in zip(reversed(positional), reversed(arguments.defaults), strict=False)
            if arg == name
        ]
        passed += [
            default
            for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if arg.arg == name and default is not None
        ]
        for call in self._calls_of(function):
            passed += [keyword.value for keyword in call.keywords if keyword.arg == name]
            if name in positional and positional.index(name) < len(call.args):
                passed.append(call.args[positional.index(name)])
        return union(self.value(expression) for expression in passed)

    def _calls_of(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.Call]:
        parent = self.program.parent_of.get(function)
        if isinstance(parent, ast.Call) and parent.func is function:
            return [parent]
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            return self.program.calls.get(parent.targets[0].id, [])[:MAX_CALL_SITES]
        if isinstance(function, ast.Lambda):
            return []
        return self.program.calls.get(function.name, [])[:MAX_CALL_SITES]

    def returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Value:
        """What a function of the user's own may return."""
        scope = self.program.scope_of.get(function)
        return union(self.value(expression) for expression in scope.returns) if scope else UNKNOWN


def element(value: Value) -> Value:
    """What iterating over the value may yield."""
    if value.items is not None:
        return union(value.items)
    return lookup(value, UNKNOWN)


def _member(value: Value, index: int) -> Value:
    if value.items is not None and index < len(value.items):
        return value.items[index]
    return value if ANY_MODULE in value.names else element(value)


def _attribute(resolver: Resolver, node: ast.Attribute) -> Value:
    # These lead to the builtins or to a module's globals from whatever object they are read.
    if node.attr in {"__builtins__", "f_builtins"}:
        return named("builtins.__dict__", "builtins")
    if node.attr in {"__globals__", "f_globals", "func_globals"}:
        return named("builtins.globals()")
    owner = resolver.value(node.value)
    return attribute(owner, node.attr) if owner.names else _field(resolver, node.attr)


def _field(resolver: Resolver, name: str) -> Value:
    """The attribute of an object that is not known: what such an attribute is set to anywhere."""
    found = [
        resolver.value(expression) for expression in resolver.program.fields.get(name, ())[-MAX_BINDINGS:]
    ]
    methods = resolver.program.methods.get(name, ())
    if not found and not methods:
        return _carried_module(name)
    kept = [value._replace(consts=(), items=None, entries=None) for value in found if value.names]
    return union([*kept, *([Value(functions=tuple(methods))] if methods else ())])


def _carried_module(name: str) -> Value:
    """``x._os``, ``x["os"]``: whatever the object is, this is most likely the module."""
    bare = name.lstrip("_")
    return Value(names=frozenset({canonical(bare)}), guessed=True) if bare in REACHABLE else UNKNOWN


def _carried_item(resolver: Resolver, node: ast.Subscript) -> Value:
    text = node.slice.value if isinstance(node.slice, ast.Constant) else None
    used = isinstance(resolver.program.parent_of.get(node), ast.Attribute)
    return _carried_module(text) if used and isinstance(text, str) else UNKNOWN


def attribute(owner: Value, name: str) -> Value:
    """What the attribute of a value may be."""
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
    consts = [folding.CONSTANTS[dotted] for dotted in names if dotted in folding.CONSTANTS]
    if not consts and not owner.guessed:
        return named(*names)
    return Value(named(*names).names, constant(*consts).consts, guessed=owner.guessed)


def _constant(_resolver: Resolver, node: ast.Constant) -> Value:
    value = node.value
    if isinstance(value, str) and len(value) <= MAX_CONST:
        return Value(consts=(value,))
    return constant(value) if isinstance(value, (str, bytes, int)) else UNKNOWN


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
    return Value(items=tuple(resolver.value(member) for member in node.elts[:MAX_ITEMS]))


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
    found = lookup(owner, index)
    found = _carried_item(resolver, node) if found is UNKNOWN else found
    if "builtins.globals()" in owner.names:
        return union((found, *(resolver.name(key, resolver.program.module) for key in index.texts)))
    return found


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


_EVALUATORS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Attribute: _attribute,
    ast.Constant: _constant,
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
