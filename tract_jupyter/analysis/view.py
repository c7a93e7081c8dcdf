"""The rules' view of the code: its text, its nodes, and the values of its expressions."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast, get_args

from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.ipython_syntax import Escape
    from tract_jupyter.analysis.limits import Deadline
    from tract_jupyter.analysis.paths import WorkspacePaths
    from tract_jupyter.analysis.program import Program
    from tract_jupyter.analysis.resolver import Resolver
    from tract_jupyter.analysis.source import SourceText
    from tract_jupyter.analysis.values import Value

_Node = TypeVar("_Node", bound=ast.AST)
OwnCode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_T = TypeVar("_T")
_Asked = TypeVar("_Asked")
_LONGEST_CHAIN = 40
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp


@dataclass(frozen=True, slots=True)
class MemberWrite:
    """A write to a member of an object, or its deletion: ``owner.member = value``, ``del owner["member"]``.

    Attributes:
        node: The location.
        owner: The object.
        member: The name or key; ``*`` if it is unknown.
        value: The assigned expression, if the code shows it.
        is_item: True for an item of a mapping, False for an attribute.
    """

    node: ast.expr
    owner: ast.expr
    member: str
    value: ast.expr | None
    is_item: bool


_SETS_ATTRIBUTE = words("""
    builtins.setattr builtins.delattr builtins.object.__setattr__ builtins.type.__setattr__
    builtins.object.__delattr__ builtins.type.__delattr__ unittest.mock.patch.object pytest.MonkeyPatch().setattr
""")
_SETS_OWN = ("__setattr__", "__delattr__")
_SETS_ITEM = ("__setitem__", "__delitem__", "setdefault", "pop")


@dataclass(frozen=True, eq=False)
class CodeView:
    """The rules' view of the code: its text, nodes, values of expressions, and IPython escapes.

    ``tools`` are the names of tools that the code may call. ``external`` collects paths outside the workspace, and
    ``problems`` collects failures about mentions. Access to nodes checks the deadline, which also stops rules without
    findings.
    """

    source: SourceText
    nodes: Sequence[ast.AST]
    program: Program
    resolver: Resolver
    escapes: Sequence[Escape]
    workspace: WorkspacePaths
    deadline: Deadline
    tools: frozenset[str] = frozenset()
    problems: list[Exception] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    direct: dict[OwnCode, tuple[list[Finding], set[OwnCode]]] = field(default_factory=dict)
    """The findings in functions of earlier cells, and the functions that these mention."""
    reported: set[OwnCode] = field(default_factory=set)
    """The functions of earlier cells that this code mentions."""
    _results: dict[tuple[Callable[..., object], object], object] = field(default_factory=dict)

    @cached_property
    def own_code(self) -> frozenset[OwnCode]:
        """The functions and classes that this code defines."""
        kinds: tuple[type[OwnCode], ...] = get_args(OwnCode)
        return frozenset(node for kind in kinds for node in self.of(kind))

    @cached_property
    def calls(self) -> frozenset[ast.Call]:
        """The calls in this code."""
        return frozenset(self.of(ast.Call))

    def look(self, find: Callable[[_Asked], _T], argument: _Asked) -> _T:
        """Return the cached result of a search in a text or in the view. Check the deadline before a search."""
        key = (find, argument)
        if key not in self._results:
            self.deadline.check()
            self._results[key] = find(argument)
        return cast("_T", self._results[key])

    def forget(self) -> None:
        """Drop the cached results. They may refer to this view, and would keep the tree alive."""
        self._results.clear()

    @cached_property
    def _by_kind(self) -> Mapping[type[ast.AST], Sequence[ast.AST]]:
        nodes: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.nodes:
            nodes.setdefault(type(node), []).append(node)
        return nodes

    @cached_property
    def _by_method(self) -> Mapping[str, Sequence[ast.Call]]:
        calls: dict[str, list[ast.Call]] = {}
        for call in self.of(ast.Call):
            if isinstance(call.func, ast.Attribute):
                calls.setdefault(call.func.attr, []).append(call)
        return calls

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[ast.Call]]:
        calls: dict[str, list[ast.Call]] = {}
        for call in self.of(ast.Call):
            for name in self.resolver.value(call.func).names:
                calls.setdefault(name, []).append(call)
        return calls

    @cached_property
    def member_writes(self) -> Sequence[MemberWrite]:
        """All writes to members of objects, and all deletions, in any form."""
        writes = [
            MemberWrite(node, node.value, node.attr, self._assigned(node), is_item=False)
            for node in self.of(ast.Attribute)
            if not isinstance(node.ctx, ast.Load)
        ]
        for item in self.of(ast.Subscript):
            if not isinstance(item.ctx, ast.Load):
                writes += self._stored(item, item.value, item.slice, self._assigned(item), is_item=True)
        return writes + list(self._stored_by_calls())

    def _stored_by_calls(self) -> Iterator[MemberWrite]:
        for call in self.calls_to(_SETS_ATTRIBUTE):
            if len(call.args) > 1:
                owner, name = call.args[:2]
                yield from self._stored(call, owner, name, self.argument(call, 2), is_item=False)
        for names, is_item in ((_SETS_OWN, False), (_SETS_ITEM, True)):
            for call in self.method_calls(names):
                if isinstance(call.func, ast.Attribute) and call.args and len(call.args) < 3:  # noqa: PLR2004
                    value = self.argument(call, 1)
                    yield from self._stored(call, call.func.value, call.args[0], value, is_item=is_item)
        for call in self.method_calls(("update",)):
            if isinstance(call.func, ast.Attribute):
                yield from self._updated(call, call.func.value)

    def _stored(
        self, node: ast.expr, owner: ast.expr, name: ast.expr, value: ast.expr | None, *, is_item: bool
    ) -> Iterator[MemberWrite]:
        for text in self.resolver.value(name).texts or ("*",):
            yield MemberWrite(node, owner, text, value, is_item)

    def _updated(self, call: ast.Call, owner: ast.expr) -> Iterator[MemberWrite]:
        pairs = [(keyword.arg, keyword.value) for keyword in call.keywords]
        for argument in call.args[:1]:
            shown = self.program.sole_value(argument) if isinstance(argument, ast.Name) else argument
            if isinstance(shown, ast.Dict):
                for key, value in zip(shown.keys, shown.values, strict=True):
                    texts = self.resolver.value(key).texts if key is not None else ()
                    pairs += [(text, value) for text in texts or ("*",)]
            else:
                pairs.append(("*", argument))
        return (MemberWrite(call, owner, name or "*", value, is_item=True) for name, value in pairs)

    def _assigned(self, node: ast.expr) -> ast.expr | None:
        """Return the whole value of the assignment to this target."""
        parent = self.parent(node)
        return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None

    def of(self, kind: type[_Node]) -> Sequence[_Node]:
        """Return the nodes of one kind, in source order."""
        self.deadline.check()
        return cast("Sequence[_Node]", self._by_kind.get(kind, ()))

    def collected(self) -> Iterator[ast.expr]:
        """Yield the iterables of list, set and dict comprehensions."""
        nodes: list[_Comprehension] = [*self.of(ast.ListComp), *self.of(ast.SetComp), *self.of(ast.DictComp)]
        for node in nodes:
            yield from (generator.iter for generator in node.generators)

    def calls_to(self, names: Collection[str]) -> Iterator[ast.Call]:
        """Yield the calls of functions with these dotted names."""
        for name in names:
            yield from self.deadline.watched(self._by_name.get(name, ()))

    def calls_below(self, prefix: str) -> Iterator[ast.Call]:
        """Yield the calls of functions whose dotted names begin with a prefix, each once."""
        names = [name for name in self._by_name if name.startswith(prefix)]
        yield from dict.fromkeys(self.calls_to(names))

    def method_calls(self, names: Collection[str]) -> Iterator[ast.Call]:
        """Yield the calls of methods with these names, on any object."""
        for name in names:
            yield from self.deadline.watched(self._by_method.get(name, ()))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around this one."""
        return self.program.parent_of.get(node)

    def call_of(self, node: ast.AST) -> ast.Call | None:
        """Return the call of this node; None if the code only mentions the function."""
        parent = self.parent(node)
        return parent if isinstance(parent, ast.Call) and parent.func is node else None

    def chain(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield an expression, its object, the object's object, and so on. A name leads to its last value.

        For ``session.query(User).delete()``: the call, ``….delete``, ``session.query(User)``, …, the session's origin.
        """
        current: ast.expr | None = node
        for _ in range(_LONGEST_CHAIN):
            if current is None:
                return
            yield current
            if isinstance(current, ast.Call):
                current = current.func
            elif isinstance(current, (ast.Attribute, ast.Subscript, ast.Await)):
                current = current.value
            else:
                current = self.program.last_value(current) if isinstance(current, ast.Name) else None

    def in_loop(self, node: ast.AST) -> bool:
        """Return True if a loop or comprehension repeats this node."""
        current = self.parent(node)
        while current is not None:
            if isinstance(
                current, (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp)
            ):
                return True
            if isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return False
            current = self.parent(current)
        return False

    def argument(self, call: ast.Call | None, position: int, *keywords: str) -> ast.expr | None:
        """Return the argument for a parameter, by position or keyword."""
        if call is None:
            return None
        for keyword in call.keywords:
            if keyword.arg in keywords:
                return keyword.value
        plain = call.args[: position + 1]
        return plain[position] if 0 <= position < len(plain) else None

    def value(self, node: ast.expr | None) -> Value:
        """Return the possible values of an expression; the unknown value if there is none."""
        return UNKNOWN if node is None else self.resolver.value(node)
