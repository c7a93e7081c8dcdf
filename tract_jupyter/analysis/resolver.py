"""From an expression to what it may stand for: ``g`` in ``g = getattr(os, "sys" + "tem")`` is ``os.system``.

Evaluation is lazy and remembered per node. It follows bindings in any order (no control flow), stops at
cycles and at a fixed depth, and treats names that nobody bound as builtins or well-known modules.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, TypeVar

from tract_jupyter.analysis.expressions import EVALUATORS, attribute, constant_value, element, member
from tract_jupyter.analysis.names import ASSUMED, GIVEN, canonical
from tract_jupyter.analysis.values import (
    UNKNOWN,
    Value,
    named,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.analysis.budget import Clock
    from tract_jupyter.analysis.program import Program
    from tract_jupyter.analysis.scopes import Binding, FunctionNode, Scope

MAX_DEPTH = 50
"""Nesting that one evaluation follows; deeper parts are still visited as expressions of their own."""

MAX_EVALUATIONS = 20_000
"""Evaluations, besides one a node, before even incomplete results are remembered, so that time is bounded."""

MAX_STARS = 32
MAX_BINDINGS = 64
MAX_CALL_SITES = 24

_CHECKED = 511  # the clock is looked at once in so many evaluations
_BUILTINS = frozenset(dir(builtins))


_Key = TypeVar("_Key")
_Asked = TypeVar("_Asked")


class Resolver:
    """Evaluates the expressions of one program."""

    assumed: Mapping[str, str] = ASSUMED | GIVEN
    """What names are that nobody bound."""

    def __init__(self, program: Program, clock: Clock | None = None) -> None:
        self.program = program
        self._clock = clock
        self._known: dict[ast.AST, Value] = {}
        self._known_names: dict[tuple[Scope, str], Value] = {}
        self._provisional: dict[object, Value] = {}
        self._active: set[object] = set()
        self._depth = 0
        self._cuts = 0
        self._evaluations = 0
        self._limit = MAX_EVALUATIONS + len(program.parent_of)
        self._incomplete = False

    def value(self, node: ast.expr) -> Value:
        """What the expression may stand for; the empty value when nothing is known."""
        kind = type(node)
        leaf = _LEAVES.get(kind)
        if leaf is not None:
            return leaf(self, node)
        known = self._known.get(node) or self._provisional.get(node)  # a value is never false
        if known is not None:
            return known
        evaluate = EVALUATORS.get(kind)
        return UNKNOWN if evaluate is None else self._evaluated(node, evaluate)

    def _evaluated(self, node: ast.expr, evaluate: Callable[[Resolver, ast.expr], Value]) -> Value:
        if self._depth >= MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN
        self._evaluations += 1
        if not self._evaluations & _CHECKED:
            self._check_clock()
        cuts = self._cuts
        self._depth += 1
        try:
            found = evaluate(self, node)
        finally:
            self._depth -= 1
        self._remember(self._known, node, found, is_whole=self._cuts == cuts)
        return found

    def once(self, key: object, evaluate: Callable[[_Asked], Value], asked: _Asked) -> Value:
        """Evaluate, unless that is what is being done: every cycle passes a name, a function or a field."""
        if key in self._active or self._depth >= MAX_DEPTH:
            self._cuts += 1
            return UNKNOWN
        self._active.add(key)
        self._depth += 1
        try:
            return evaluate(asked)
        finally:
            self._depth -= 1
            self._active.discard(key)

    def _remember(self, known: dict[_Key, Value], key: _Key, value: Value, *, is_whole: bool) -> None:
        """Remember a result; one that a cycle cut short only until the evaluation that met it is done.

        What is outermost is whole even so: a name that depends on itself gains nothing by itself.
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
        """Whether some results hold less than they could."""
        return self._incomplete

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
        known = self._known_names.get(key) or self._provisional.get(key)
        if known is not None:
            return known
        cuts = self._cuts
        value = self.once(key, self._any_of, bindings)
        if self._cuts != cuts and not self._active and not self._depth:
            # The name depends on itself, as in a loop: once more round, with what is known of it.
            self._provisional.clear()
            self._known_names[key] = value
            value = union((value, self._any_of(bindings)))
        self._remember(self._known_names, key, value, is_whole=self._cuts == cuts)
        return value

    def _any_of(self, bindings: list[Binding]) -> Value:
        if len(bindings) == 1:
            return self._bound(bindings[0])
        return union([self._bound(binding) for binding in bindings[-MAX_BINDINGS:]])

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
                member(each, step) if isinstance(step, int) else attribute(each, step) for each in choices
            ]
        return union(choices)

    def _argument(self, function: FunctionNode, binding: Binding) -> Value:
        """What the calls that we see hand over for a parameter."""
        passed: list[ast.expr] = []
        calls = self._calls_of(function)
        if calls and binding.path:
            # A method's first parameter is no argument of its calls.
            position = int(binding.path[0]) - self._is_method(function)
            passed += [call.args[position] for call in calls if 0 <= position < len(call.args)]
        for call in calls:
            passed += [keyword.value for keyword in call.keywords if keyword.arg == binding.name]
        return self._any_value(passed)

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
            return self.program.calls.get(parent.targets[0].id, [])[:MAX_CALL_SITES]
        if isinstance(function, ast.Lambda):
            return []
        if isinstance(parent, ast.ClassDef):
            return self.program.calls.get(f".{function.name}", [])[:MAX_CALL_SITES]
        return self.program.calls.get(function.name, [])[:MAX_CALL_SITES]

    def returned(self, function: FunctionNode) -> Value:
        """What a function of the user's own may return."""
        scope = self.program.scope_of.get(function)
        if scope is None or not scope.returns:
            return UNKNOWN
        return self.once(function, self._any_value, scope.returns)

    def _any_value(self, expressions: list[ast.expr]) -> Value:
        return union([self.value(expression) for expression in expressions])


def _of_name(resolver: Resolver, node: ast.Name) -> Value:
    return resolver.name(node.id, resolver.program.scope_of.get(node, resolver.program.module))


_LEAVES: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: _of_name,
    ast.Constant: lambda _, node: constant_value(node.value),
}
"""More than half of all expressions; these have no parts, and are remembered elsewhere."""
