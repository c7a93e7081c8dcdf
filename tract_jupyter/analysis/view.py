"""The code under analysis, as rules see it.

Two expressions have one form when they differ in such names, in layout or in comments, and in nothing else.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from tract_jupyter.analysis.source import parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tract_jupyter.analysis.budget import Clock
    from tract_jupyter.analysis.flows import Flows
    from tract_jupyter.analysis.ipython_syntax import Escape
    from tract_jupyter.analysis.paths import Workspace
    from tract_jupyter.analysis.program import Program
    from tract_jupyter.analysis.resolver import Resolver
    from tract_jupyter.analysis.rules.misspelt import Definition
    from tract_jupyter.analysis.source import Source
    from tract_jupyter.analysis.values import Value


MAX_DEPTH = 30
"""Nesting that is spelt out; deeper expressions are told by a digest."""

MAX_NODES = 400
MAX_FORM = 160
NAME = "_"


def shorten(text: str) -> str:
    """A text as it is, or its beginning and a digest of all of it."""
    if len(text) <= MAX_FORM:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{text[: MAX_FORM // 2]}… ({digest[:16]})"


class Forms:
    """The forms of the expressions of one piece of code."""

    def __init__(self, code: str, flows: Flows) -> None:
        twin = parse(code)
        # The same text gives the same nodes in the same order.
        self._twins = dict(zip(ast.walk(flows.tree), ast.walk(twin), strict=True))
        self._known: dict[ast.AST, str] = {}
        arguments = {node.arg for node in flows.nodes if isinstance(node, ast.arg)}
        for node, other in self._twins.items():
            if isinstance(node, ast.Name) and isinstance(other, ast.Name):
                other.id = _name(node, flows)
            elif isinstance(other, (ast.arg, ast.keyword)) and other.arg in arguments:
                other.arg = NAME

    def of(self, node: ast.AST) -> str:
        """The form of an expression."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = shorten(_spelt(self._twins[node]))
        return known


def _name(node: ast.Name, flows: Flows) -> str:
    """A name from outside stays, one that is only imported becomes what it was imported as."""
    key = flows.key(node)
    if key[0] is None:
        return node.id
    bindings = key[0].bindings.get(key[1], [])
    imported = {binding.name for binding in bindings if binding.kind == "import"}
    return imported.pop() if len(imported) == 1 and len(bindings) == 1 else NAME


def _spelt(twin: ast.AST) -> str:
    if _is_small(twin):
        try:
            return ast.unparse(twin)
        except ValueError:  # an integer with too many digits, an f-string with a backslash
            pass
    digest = hashlib.sha256()
    for piece in _pieces(twin):
        digest.update(piece.encode("utf-8", "backslashreplace") + b"\0")
    return f"{type(twin).__name__} ({digest.hexdigest()[:16]})"


def _is_small(twin: ast.AST) -> bool:
    stack = [(twin, 0)]
    for seen in range(MAX_NODES):
        if not stack:
            return True
        node, depth = stack.pop()
        if depth > MAX_DEPTH or seen == MAX_NODES - 1:
            return False
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return False


def _pieces(twin: ast.AST) -> Iterator[str]:
    """Everything that makes an expression, iteratively, since it may be nested deeply."""
    stack: list[object] = [twin]
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


_Node = TypeVar("_Node", bound=ast.AST)
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp


@dataclass(frozen=True, slots=True)
class Store:
    """Something that is assigned to, or deleted from, an object: ``owner.member = value``, ``owner["member"]``.

    Attributes:
        node: Where.
        owner: The object.
        member: The name or key; ``*`` when it is not known.
        value: What is assigned, where it stands in the code.
        is_item: It is an item of a mapping rather than an attribute.
    """

    node: ast.expr
    owner: ast.expr
    member: str
    value: ast.expr | None
    is_item: bool


_SETS_ATTRIBUTE = (
    "builtins.setattr",
    "builtins.delattr",
    "builtins.object.__setattr__",
    "builtins.type.__setattr__",
    "builtins.object.__delattr__",
    "builtins.type.__delattr__",
    "unittest.mock.patch.object",
    "pytest.MonkeyPatch().setattr",
)
_SETS_OWN = ("__setattr__", "__delattr__")
_SETS_ITEM = ("__setitem__", "__delitem__", "setdefault", "pop")


@dataclass(frozen=True)
class View:
    """What rules look at: the text, its nodes, what expressions stand for, IPython's escapes.

    ``tools`` are the names of tools that code may call; ``external`` collects paths out of the workspace, and
    ``problems`` what went wrong with a mention. Asking for nodes looks at the clock, since rules that find nothing
    are to end in time, too.
    """

    source: Source
    nodes: Sequence[ast.AST]
    program: Program
    resolver: Resolver
    escapes: Sequence[Escape]
    workspace: Workspace
    clock: Clock
    tools: frozenset[str] = frozenset()
    problems: list[Exception] = field(default_factory=list)
    definition: Definition | None = None
    """What is known of the names there, where the code belongs to an operation."""
    external: list[str] = field(default_factory=list)

    @cached_property
    def _by_kind(self) -> Mapping[type[ast.AST], Sequence[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.nodes:
            found.setdefault(type(node), []).append(node)
        return found

    @cached_property
    def _by_method(self) -> Mapping[str, Sequence[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.of(ast.Call):
            if isinstance(call.func, ast.Attribute):
                found.setdefault(call.func.attr, []).append(call)
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.of(ast.Call):
            for name in self.resolver.value(call.func).names:
                found.setdefault(name, []).append(call)
        return found

    @cached_property
    def stores(self) -> Sequence[Store]:
        """What is assigned to, or deleted from, objects, in whatever way it is spelt."""
        found = [
            Store(node, node.value, node.attr, self._assigned(node), is_item=False)
            for node in self.of(ast.Attribute)
            if not isinstance(node.ctx, ast.Load)
        ]
        for item in self.of(ast.Subscript):
            if not isinstance(item.ctx, ast.Load):
                found += self._stored(item, item.value, item.slice, self._assigned(item), is_item=True)
        return found + list(self._stored_by_calls())

    def _stored_by_calls(self) -> Iterator[Store]:
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
    ) -> Iterator[Store]:
        for text in self.resolver.value(name).texts or ("*",):
            yield Store(node, owner, text, value, is_item)

    def _updated(self, call: ast.Call, owner: ast.expr) -> Iterator[Store]:
        pairs = [(keyword.arg, keyword.value) for keyword in call.keywords]
        for given in call.args[:1]:
            shown = self.program.sole_value(given) if isinstance(given, ast.Name) else given
            if isinstance(shown, ast.Dict):
                for key, value in zip(shown.keys, shown.values, strict=True):
                    texts = self.resolver.value(key).texts if key is not None else ()
                    pairs += [(text, value) for text in texts or ("*",)]
            else:
                pairs.append(("*", given))
        return (Store(call, owner, name or "*", value, is_item=True) for name, value in pairs)

    def _assigned(self, node: ast.expr) -> ast.expr | None:
        """What is assigned to this target, as a whole."""
        parent = self.parent(node)
        return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None

    def of(self, kind: type[_Node]) -> Sequence[_Node]:
        """The nodes of one kind, in the order of the source."""
        self.clock.check()
        return cast("Sequence[_Node]", self._by_kind.get(kind, ()))

    def collected(self) -> Iterator[ast.expr]:
        """What the comprehensions run over that make a list, set or dict."""
        nodes: list[_Comprehension] = [*self.of(ast.ListComp), *self.of(ast.SetComp), *self.of(ast.DictComp)]
        for node in nodes:
            yield from (generator.iter for generator in node.generators)

    def calls_to(self, names: Collection[str]) -> Iterator[ast.Call]:
        """The calls of functions of these dotted names."""
        for name in names:
            yield from self.clock.watched(self._by_name.get(name, ()))

    def calls_below(self, prefix: str) -> Iterator[ast.Call]:
        """The calls of functions whose dotted names begin so, each once."""
        names = [name for name in self._by_name if name.startswith(prefix)]
        yield from dict.fromkeys(self.calls_to(names))

    def method_calls(self, names: Collection[str]) -> Iterator[ast.Call]:
        """The calls of methods of these names, whatever they are called on."""
        for name in names:
            yield from self.clock.watched(self._by_method.get(name, ()))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around this one."""
        return self.program.parent_of.get(node)

    def call_of(self, node: ast.AST) -> ast.Call | None:
        """The call whose function this node is, or None when it is only mentioned."""
        parent = self.parent(node)
        return parent if isinstance(parent, ast.Call) and parent.func is node else None

    def in_loop(self, node: ast.AST) -> bool:
        """Whether a loop or comprehension repeats this node."""
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
        """The expression given for a parameter, by position or keyword."""
        if call is None:
            return None
        for keyword in call.keywords:
            if keyword.arg in keywords:
                return keyword.value
        plain = call.args[: position + 1]
        return plain[position] if 0 <= position < len(plain) else None

    def value(self, node: ast.expr | None) -> Value | None:
        """What an expression may stand for."""
        return None if node is None else self.resolver.value(node)
