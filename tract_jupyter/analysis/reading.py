"""The check for code that only reads. Such code may run without a request if the user allows it.

The check is an allowlist. It refuses all other code and gives the reason. It reads the text of the code, asks the
kernel for the types of variables, and runs nothing.

A value is data, a function, a module, a part of a figure, or an estimator. Data are built-in types, arrays, and pandas
tables. A script may change the data that it created itself (`own`).
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis.reading_calls import (
    CONTAINER,
    DATA,
    NEW,
    NOT_OWN,
    PLOT,
    WHOLE,
    Calls,
    KernelNames,
    NotReadingError,
    Value,
    refuse,
)
from tract_jupyter.analysis.source import parse
from tract_jupyter.analysis.tables import reading as known

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST_ROUNDS: Final = 10
_MOST_CODE: Final = 20_000
_SHADOWING: Final = frozenset(dir(builtins))


def why_not_reading(code: str, kernel: KernelNames) -> str:
    """Return the reason why code may do more than read; empty if it only reads.

    Args:
        code: Plain Python.
        kernel: The kernel that would run the code.
    """
    if len(code) > _MOST_CODE:
        return f"it has more than {_MOST_CODE:,} characters"
    try:
        tree = parse(code)
        reader = _Reader(kernel)
        for _ in range(_MOST_ROUNDS):
            before = reader.state()
            reader.statements(tree.body)
            reader.check_all_seen(tree)
            if reader.state() == before:
                return ""
    except NotReadingError as why:
        return str(why)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "it is not plain Python"
    return "its variables change too often"


READING_FUNCTIONS: Final = {
    module: frozenset().union(*groups.values()) for module, groups in known.FUNCTIONS.items()
}
"""The functions that code may use, by module."""


class _Reader(Calls):
    """A pass over the values of a script. Passes repeat until nothing changes. Each pass only removes possibilities."""

    def check_all_seen(self, tree: ast.Module) -> None:
        """Check that the reader visited all expressions. A skipped expression would run without a check."""
        for node in ast.walk(tree):
            is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
            if isinstance(node, ast.expr) and not (
                is_stored or isinstance(node, _PARTS) or node in self._seen
            ):
                refuse(node, "this expression may do more than read")

    def state(self) -> tuple[dict[str, Value], bool]:
        """Return the current knowledge, to compare passes."""
        return dict(self._names), self._has_foreign

    # --- statements

    def statements(self, body: Iterable[ast.stmt]) -> None:
        """Check statements in order."""
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if method is None:
            refuse(node, f"it uses `{ast.unparse(node).split()[0]}`")
        method(node)

    def _do_expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    _do_break = _do_continue = _do_pass

    def _do_assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, self.value(node.value), node.value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        self.value(node.annotation)
        if node.value is not None:
            self._assign(node.target, self.value(node.value), node.value)
        elif not isinstance(node.target, ast.Name):
            refuse(node, "it declares a part of an object")

    def _do_augassign(self, node: ast.AugAssign) -> None:
        added = self.data(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            now = self.data(target)
            self.check_values(target, now)
            self._bind(target, replace(now, own=min(now.own, max(added.own, CONTAINER))))
            self.note_foreign(added)
        else:
            self.check_own(target, self.data(target), WHOLE)
            self._store(target, added)

    def _do_if(self, node: ast.If | ast.While) -> None:
        self.data(node.test)
        self.statements([*node.body, *node.orelse])

    _do_while = _do_if

    def _do_for(self, node: ast.For) -> None:
        self._assign_elements(node.target, node.iter)
        self.statements([*node.body, *node.orelse])

    def _do_return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.data(node.value)

    def _do_assert(self, node: ast.Assert) -> None:
        self.data(node.test)
        if node.msg is not None:
            self.data(node.msg)

    def _do_raise(self, node: ast.Raise) -> None:
        for expression in (node.exc, node.cause):
            if expression is not None:
                self.value(expression)

    def _do_try(self, node: ast.Try) -> None:
        self.statements(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                for error_type in (
                    handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                ):
                    if not isinstance(error_type, ast.Name) or self.value(error_type).group != "error":
                        refuse(handler, "it catches something else than a built-in error")
            if handler.name:
                self._bind(ast.Name(handler.name, lineno=handler.lineno), DATA)
            self.statements(handler.body)
        self.statements([*node.orelse, *node.finalbody])

    def _do_functiondef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            refuse(node, "a decorated function may do more than read")
        self._bind(ast.Name(node.name, lineno=node.lineno), Value("local"))
        self._parameters(node.args)
        if node.returns is not None:
            self.value(node.returns)
        self._depth += 1
        self.statements(node.body)
        self._depth -= 1

    def _do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name if alias.asname else alias.name.partition(".")[0]
            self._check_loaded(node, alias.name)
            self._bind(ast.Name(alias.asname or module, lineno=node.lineno), Value("module", name=module))

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            module = node.module or ""
            if node.level or alias.name == "*":
                refuse(node, "an import of this form may do more than read")
            self._check_loaded(node, module)
            self._bind(
                ast.Name(alias.asname or alias.name, lineno=node.lineno),
                self._member(node, module, alias.name),
            )

    def _check_loaded(self, node: ast.AST, module: str) -> None:
        is_known = any(
            known_module == module or known_module.startswith(f"{module}.")
            for known_module in known.FUNCTIONS
        )
        if not is_known or not self.kernel.is_loaded(module):
            refuse(node, f"it imports {module}, which is not known, or not loaded yet")

    # --- assignments

    def _assign(self, target: ast.expr, value: Value, node: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            self._bind(target, value)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, self.part(value))
        elif isinstance(target, ast.Tuple | ast.List):
            elements = node.elts if isinstance(node, ast.Tuple | ast.List) else ()
            is_same = len(elements) == len(target.elts) and not any(
                isinstance(element, ast.Starred) for element in (*elements, *target.elts)
            )
            for at, element in enumerate(target.elts):
                part = elements[at] if is_same else None
                self._assign(element, self.part(value) if part is None else self.value(part), part)
        else:
            self._store(target, value)

    def _assign_elements(self, target: ast.expr, iterated: ast.expr) -> None:
        """Assign the elements of an iterable. For `zip` and `enumerate`, assign the elements of each part."""
        called = iterated.func if isinstance(iterated, ast.Call) else None
        function = self.value(called) if isinstance(called, ast.Name) else None
        is_plain = isinstance(iterated, ast.Call) and not any(
            isinstance(element, ast.Starred) for element in iterated.args
        )
        if (
            is_plain
            and function is not None
            and isinstance(target, ast.Tuple)
            and isinstance(iterated, ast.Call)
        ):
            self.no_keywords(iterated, {"strict", "start"})
            self._seen.add(iterated)
            if function.name == "builtins.zip" and len(iterated.args) == len(target.elts):
                for element, argument in zip(target.elts, iterated.args, strict=True):
                    self._assign_elements(element, argument)
                return
            if function.name == "builtins.enumerate" and len(target.elts) == 2 and iterated.args:  # noqa: PLR2004
                self._assign(target.elts[0], NEW)
                self._assign_elements(target.elts[1], iterated.args[0])
                for element in iterated.args[1:]:
                    self.data(element)
                return
        value = self.value(iterated)
        if value.kind not in {"data", "plot"}:
            refuse(iterated, "it iterates over something other than plain data")
        self._assign(target, self.part(value))

    def _bind(self, target: ast.Name, value: Value) -> None:
        """Give a name a value. All values of a name must have one kind, including the user's variable."""
        name = target.id
        if name.startswith("_") or name in _SHADOWING:
            refuse(target, f"it gives `{name}` a value")
        if value.kind == "local" and not self._depth and self.kernel.is_mentioned(name):
            refuse(target, f"a cell of yours may call its function `{name}`")
        before = self._names.get(name)
        kind = self.kernel.kind(name)
        if kind:  # also for an inner variable, because the name is ambiguous
            users = self._of_kernel(target, name, kind)
            is_same = users == value and value.kind in {"module", "function"}
            if not (self._depth or is_same or self.kernel.is_free(name)):
                refuse(target, f"it gives your variable `{name}` a new value")
            before = before or users
        if before is not None and (before.kind, before.name) != (value.kind, value.name):
            refuse(target, f"{name} has values of several kinds")
        if before is not None:
            value = _either((before, value))
        self._names[name] = value

    def _store(self, target: ast.expr, value: Value) -> None:
        """Store into a subscript or an attribute of an object. The script must have created the object."""
        if value.kind != "data":
            refuse(target, "it stores something other than plain data")
        if isinstance(target, ast.Attribute):
            base = self.data(target.value)
            if target.attr not in {"columns", "index", "name"} or not base.is_table:
                refuse(target, f"it sets the attribute {target.attr}")
            self.check_own(target, base, CONTAINER)
        elif isinstance(target, ast.Subscript):
            self._index(target.slice)
            inner = target.value
            if isinstance(inner, ast.Attribute) and inner.attr in {"loc", "iloc", "at", "iat"}:
                self.check_values(target, self.data(inner.value))
            elif isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                self.check_own(target, self.data(inner), CONTAINER)  # a table gets another column
            else:
                self.check_values(target, self.data(inner))
        else:
            refuse(target, "it assigns to an unknown target")
        self.note_foreign(value)

    # --- expressions

    def _of_constant(self, _node: ast.Constant) -> Value:
        return NEW

    def _of_name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self._names:
            return self._names[name]
        if name.startswith("_") or name in {"In", "Out"}:
            refuse(node, f"it reads `{name}`")
        kind = self.kernel.kind(name)
        if kind:
            return self._of_kernel(node, name, kind)
        if name in known.ERRORS and self.kernel.is_original("builtins", name):
            return Value("function", name=f"builtins.{name}", group="error")
        if name in known.BUILTINS and self.kernel.is_original("builtins", name):
            return Value("function", name=f"builtins.{name}", group="builtin")
        return refuse(node, f"the name `{name}` is not known")

    def _of_kernel(self, node: ast.AST, name: str, kind: str) -> Value:
        word, _, full = kind.partition(" ")
        if word in {"data", "table"}:
            return Value("data", is_table=word == "table")
        if word == "module":
            return Value("module", name=full)
        if word == "function":
            module, _, function = full.rpartition(".")
            return self._member(node, module, function)
        return refuse(node, f"the type of your variable `{name}` is not known")

    def _member(self, node: ast.AST, module: str, name: str) -> Value:
        """Return the member of a module."""
        inner = f"{module}.{name}"
        if any(
            known_module == inner or known_module.startswith(f"{inner}.") for known_module in known.FUNCTIONS
        ):
            if not self.kernel.is_loaded(inner):
                refuse(node, f"{inner} is not loaded yet")
            return Value("module", name=inner)
        for group, names in known.FUNCTIONS.get(module, {}).items():
            if name in names:
                if not self.kernel.is_loaded(module) or not self.kernel.is_original(module, name):
                    refuse(node, f"{inner} was replaced, or is not loaded yet")
                return NEW if group == "constant" else Value("function", name=inner, group=group)
        return refuse(node, f"{inner} may do more than read")

    def _of_attribute(self, node: ast.Attribute) -> Value:
        base, name = self.value(node.value), node.attr
        if base.kind == "module":
            return self._member(node, base.name, name)
        if self.kernel.is_replaced(name):
            refuse(node, f"the attribute {name} of a library was replaced")
        if base.kind == "plot" and name in known.PLOT_ATTRIBUTES:
            return PLOT
        if base.kind == "model" and name.endswith("_") and not name.startswith("_"):
            return DATA
        if base.kind == "data" and name == "plot":
            self.check_plots(node)
            return Value("plotter")
        is_column = base.is_table and not name.startswith("_") and self.kernel.is_column(name)
        is_known = name in known.ATTRIBUTES or is_column
        if base.kind != "data" or not is_known:
            refuse(node, f"the attribute {name} may do more than read")
        return DATA

    def _index(self, node: ast.expr, *, is_called: bool = False) -> None:
        """Check an index. A table calls an index that is a function, but a dict stores it."""
        for part in node.elts if isinstance(node, ast.Tuple) else [node]:
            value = self.value(part)
            if value.kind != "data" and not (value.kind == "local" and is_called):
                refuse(node, "something other than plain data is used as an index")

    def _of_slice(self, node: ast.Slice) -> Value:
        for bound in (node.lower, node.upper, node.step):
            if bound is not None:
                self.data(bound)
        return NEW

    def _of_subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        is_place = isinstance(node.value, ast.Attribute) and node.value.attr in {"loc", "iloc"}
        self._index(node.slice, is_called=base.is_table or is_place)
        if base.kind == "plot":
            return PLOT
        if base.kind != "data":
            refuse(node, "it takes a part of something other than plain data")
        if base.is_table and isinstance(node.slice, ast.List | ast.Compare):
            return Value("data", CONTAINER, is_table=True)
        if base.is_table and isinstance(node.slice, ast.BinOp | ast.UnaryOp) and _is_mask(node.slice):
            return Value("data", CONTAINER, is_table=True)
        return self.part(base)

    def _of_binop(self, node: ast.BinOp) -> Value:
        left, right = self.data(node.left), self.data(node.right)
        return Value("data", WHOLE if left.own == right.own == WHOLE else CONTAINER)

    def _of_unaryop(self, node: ast.UnaryOp) -> Value:
        self.data(node.operand)
        is_new = isinstance(node.op, ast.Not) or isinstance(node.operand, ast.Constant)
        return NEW if is_new else Value("data", CONTAINER if isinstance(node.op, ast.USub) else NOT_OWN)

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        return self._joined(node, [self.data(operand) for operand in node.values])

    def _of_compare(self, node: ast.Compare) -> Value:
        for operand in (node.left, *node.comparators):
            value = self.value(operand)
            if value.kind not in {"data", "plot"} and value.group not in {"builtin", "new", "shared"}:
                refuse(node, "it compares something other than plain data")
        return NEW

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        self.data(node.test)
        return self._joined(node, [self.value(node.body), self.value(node.orelse)])

    def _joined(self, node: ast.AST, values: Sequence[Value]) -> Value:
        if len({(value.kind, value.name) for value in values}) != 1:
            refuse(node, "it joins things of several kinds")
        return _either(values)

    def _of_namedexpr(self, node: ast.NamedExpr) -> Value:
        if self._depth:  # in a comprehension, it belongs to the code around it
            refuse(node, "it assigns within an inner expression")
        value = self.value(node.value)
        self._bind(node.target, value)
        return value

    def _of_tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        return self._made_of(node, node.elts)

    _of_list = _of_set = _of_tuple

    def _of_dict(self, node: ast.Dict) -> Value:
        return self._made_of(node, [part for part in (*node.keys, *node.values) if part is not None])

    def _made_of(self, node: ast.AST, parts: Iterable[ast.expr]) -> Value:
        """Return a new container. A container of plots is a plot. Data and plots do not mix."""
        own, kinds = WHOLE, set()
        for part in parts:
            value = self.value(part.value if isinstance(part, ast.Starred) else part)
            kinds.add(value.kind)
            own = min(own, WHOLE if value.own == WHOLE and self.most_own(value) == WHOLE else CONTAINER)
        if kinds == {"plot"}:
            return PLOT
        if kinds - {"data"}:
            refuse(node, "it puts something other than plain data into a container")
        return Value("data", own)

    def _comprehension(self, generators: Iterable[ast.comprehension], *elements: ast.expr) -> Value:
        self._depth += 1
        for item in generators:
            if item.is_async:
                refuse(item.iter, "it is asynchronous")
            self._assign_elements(item.target, item.iter)
            for test in item.ifs:
                self.data(test)
        values = [self.value(item) for item in elements]
        self._depth -= 1
        if {item.kind for item in values} == {"plot"}:
            return PLOT
        if any(item.kind != "data" for item in values):
            refuse(elements[0], "it collects something other than plain data")
        return Value("data", WHOLE if all(item.own == WHOLE for item in values) else CONTAINER)

    def _of_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        return self._comprehension(node.generators, node.elt)

    _of_setcomp = _of_generatorexp = _of_listcomp

    def _of_dictcomp(self, node: ast.DictComp) -> Value:
        return self._comprehension(node.generators, node.key, node.value)

    def _of_joinedstr(self, node: ast.JoinedStr) -> Value:
        for piece in node.values:
            if isinstance(piece, ast.FormattedValue):
                self.data(piece.value)
                if piece.format_spec is not None:
                    self.value(piece.format_spec)
        return NEW

    def _of_lambda(self, node: ast.Lambda) -> Value:
        self._parameters(node.args)
        self._depth += 1
        self.data(node.body)
        self._depth -= 1
        return Value("local")

    def _parameters(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.data(default)
        self._depth += 1
        for name in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ):
            if name is not None:
                if name.annotation is not None:
                    self.value(name.annotation)
                self._bind(ast.Name(name.arg, lineno=name.lineno), DATA)
        self._depth -= 1


_PARTS: Final = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.Attribute, ast.FormattedValue)
"""Expressions without an effect except the effects of their parts."""


def _either(values: Sequence[Value]) -> Value:
    """Merge the values of one name. A cell of a table never belongs to the script."""
    is_table = all(value.is_table for value in values)
    is_mixed = not is_table and any(value.is_table for value in values)
    own = min(value.own for value in values)
    return replace(values[0], own=min(own, CONTAINER) if is_mixed else own, is_table=is_table)


def _is_mask(node: ast.expr) -> bool:
    """Return True for `(a > 1) & (b < 2)` and `~(a > 1)`. Such an index is a table of truth values."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr) and _is_mask(node.left) and _is_mask(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert) and _is_mask(node.operand)
    return isinstance(node, ast.Compare)
