"""What each kind of expression comes to, given what its parts come to."""

from __future__ import annotations

import ast
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from tract_jupyter.analysis import folding
from tract_jupyter.analysis.calls import call_value, lookup
from tract_jupyter.analysis.names import REACHABLE, canonical
from tract_jupyter.analysis.values import (
    ANY_MODULE,
    HOLE,
    UNKNOWN,
    Value,
    constant,
    lift,
    named,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.analysis.resolver import Resolver

MAX_ITEMS = 256
MAX_FIELDS = 64


def element(value: Value) -> Value:
    """What iterating over the value may yield."""
    if value.items is not None:
        return union(value.items)
    return lookup(value, UNKNOWN)


def member(value: Value, index: int) -> Value:
    """What unpacking the value may yield at a position."""
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
    program = resolver.program
    if name in program.fields or name in program.methods:
        return resolver.once(("field", name), partial(_set_anywhere, resolver), name)
    return _carried_module(name)


def _set_anywhere(resolver: Resolver, name: str) -> Value:
    found = [resolver.value(node) for node in resolver.program.fields.get(name, ())[-MAX_FIELDS:]]
    methods = resolver.program.methods.get(name, ())
    kept = [value._replace(consts=(), items=None, entries=None) for value in found if value.names]
    # An attribute that is set just once is that one, whatever the object.
    sole = found if len(found) == 1 and not methods else kept
    return union([*sole, *([Value(functions=tuple(methods))] if methods else ())])


def _carried_module(name: str) -> Value:
    """``x._os``, ``x["os"]``: whatever the object is, this is most likely the module."""
    bare = name.lstrip("_")
    # Without the underscore it may as well be a field of somebody's: self.socket, frame["os"].
    is_module = bare in REACHABLE and (bare != name or bare in {"os", "sys"})
    return Value(names=frozenset({canonical(bare)}), guessed=True) if is_module else UNKNOWN


def _carried_item(resolver: Resolver, node: ast.Subscript) -> Value:
    text = node.slice.value if isinstance(node.slice, ast.Constant) else None
    used = isinstance(resolver.program.parent_of.get(node), ast.Attribute)
    return _carried_module(text) if used and isinstance(text, str) and text.startswith("_") else UNKNOWN


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
    consts = [const for const in map(folding.known_value, names) if const is not None]
    if not consts and not owner.guessed:
        return named(*names)
    return Value(named(*names).names, constant(*consts).consts, guessed=owner.guessed)


def constant_value(literal: object) -> Value:
    """What a literal stands for; numbers with a point and ``None`` are nothing that is looked at."""
    return constant(literal) if isinstance(literal, (str, bytes, int)) else UNKNOWN


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
