"""Calls in code that only reads: the known functions and methods, and the kinds of their results."""

from __future__ import annotations

import ast
import re
import string
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from tract_jupyter.analysis.source import arguments_of
from tract_jupyter.analysis.tables import reading as known

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_OWN, CONTAINER, WHOLE = 0, 1, 2  # the script may change: nothing, the container, also its content


class KernelNames(Protocol):
    """The facts about the kernel that the check needs."""

    def kind(self, name: str) -> str:
        """Return the kind of a variable.

        It is `data`, `table`, `module MODULE`, `function MODULE.NAME` or `other`; empty if the variable does not exist.
        """
        ...

    def is_loaded(self, module: str) -> bool:
        """Return True if a module is loaded, and comes from the folder of installed packages."""
        ...

    def why_not_drawn(self) -> str:
        """Return the reason why a script must not draw; empty if it may draw."""
        ...

    def is_original(self, module: str, name: str) -> bool:
        """Return True if a module's function is the original one."""
        ...

    def is_replaced(self, attribute: str) -> bool:
        """Return True if user code replaced an attribute of this name in a class of a known library."""
        ...

    def is_column(self, name: str) -> bool:
        """Return True if an attribute of a table with this name can only be a column."""
        ...

    def is_free(self, name: str) -> bool:
        """Return True if a script may assign to an existing variable, because only scripts used it."""
        ...

    def is_mentioned(self, name: str) -> bool:
        """Return True if a cell of the user contains this name."""
        ...


class NotReadingError(Exception):
    """Raised for code that may do more than read."""


@dataclass(frozen=True)
class Value:
    """The value of an expression: its kind, its ownership, and the name of a function or module."""

    kind: str  # data, function, local, module, plot, plotter, model
    own: int = NOT_OWN
    is_table: bool = False
    name: str = ""
    group: str = ""


DATA: Final = Value("data")
NEW: Final = Value("data", WHOLE)
PLOT: Final = Value("plot")


def refuse(node: ast.AST, why: str) -> NoReturn:
    """Refuse the code.

    Args:
        node: The refused part.
        why: A clause. A leading "it" becomes the line of the node.

    Raises:
        NotReadingError: Always.
    """
    line = f"line {getattr(node, 'lineno', 1)}"
    raise NotReadingError(f"{line} {why[3:]}" if why.startswith("it ") else f"{why} ({line})")


class Calls:
    """The values and calls of a script. `reading` has the statements and the other expressions."""

    def __init__(self, kernel: KernelNames) -> None:
        self.kernel = kernel
        self._names: dict[str, Value] = {}
        self._has_foreign = False  # a container holds a value of the user
        self._depth = 0  # of functions
        self._seen: set[ast.AST] = set()

    def part(self, value: Value) -> Value:
        """Return an element of a value."""
        if value.kind == "plot":
            return PLOT
        if value.kind != "data":
            raise NotReadingError("it unpacks something other than plain data")
        is_whole = value.own == WHOLE and not value.is_table and not self._has_foreign
        return NEW if is_whole else DATA

    def note_foreign(self, value: Value) -> None:
        """Record that a value was put into a container."""
        if value.own != WHOLE:
            self._has_foreign = True

    def check_own(self, node: ast.AST, value: Value, least: int) -> None:
        """Check that the script may change an object."""
        if value.kind != "data" or min(value.own, self.most_own(value)) < least:
            name = _root_name(node)
            is_users = name not in self._names and self.kernel.kind(name)
            what = f"your variable `{name}`" if is_users else "an object that the script did not make"
            refuse(node, f"it may change {what}")

    def check_values(self, node: ast.AST, value: Value) -> None:
        """Check that the script may change values. Its own table may share values with another table."""
        self.check_own(node, value, WHOLE if value.is_table else CONTAINER)

    def most_own(self, value: Value) -> int:
        """Return the most that the script may change of an object."""
        return CONTAINER if self._has_foreign and not value.is_table else WHOLE

    def data(self, node: ast.expr) -> Value:
        """Return the value of an expression, which must be data."""
        value = self.value(node)
        if value.kind != "data":
            refuse(node, "something other than plain data is used as data")
        return value

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        self._seen.add(node)
        method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if method is None:
            refuse(node, "this expression may do more than read")
        value: Value = method(node)
        return value

    def _of_call(self, node: ast.Call) -> Value:
        function = node.func
        if isinstance(function, ast.Attribute):
            base = self.value(function.value)
            if base.kind != "module":
                return self._method(node, base, function.attr)
        called = self.value(function)
        if called.kind == "local":
            self._given(node, "", most=100)
            return DATA
        if called.kind == "plotter":
            return self._drawn(node)
        if called.kind != "function":
            refuse(node, "it calls an unknown function")
        if called.group in {"builtin", "error"}:
            return self._builtin(node, called.name.removeprefix("builtins."))
        module, _, name = called.name.rpartition(".")
        most = known.FUNCTIONS[module][called.group][name]
        if called.group == "plot":
            self.check_plots(node)
        values = self._given(
            node, called.name, most=most, allows={"plot": {"plot"}, "new": {"model"}}.get(called.group, ())
        )
        # a function of the script may return anything
        is_calling = any(value.kind == "local" for value in values)
        return self._result("view" if is_calling and called.group == "new" else called.group, node)

    def _result(self, group: str, node: ast.Call) -> Value:
        is_shared = any(argument.arg == "copy" for argument in node.keywords)
        if group == "plot":
            return PLOT
        if group == "model":
            return Value("model", WHOLE)
        if group in {"view", "element"} or is_shared:
            return DATA
        if (
            group == "empty"
            and not node.keywords
            and all(self.value(argument).group == "builtin" for argument in node.args)
        ):
            return NEW
        results = {"numbers": NEW, "table": Value("data", WHOLE, is_table=True)}
        return results.get(group, Value("data", CONTAINER, is_table=group == "shared"))

    def _builtin(self, node: ast.Call, name: str) -> Value:
        if name == "isinstance":
            self.no_keywords(node, set())
            for item in node.args:
                for each in item.elts if isinstance(item, ast.Tuple) else [item]:
                    self.value(each)
            return NEW
        if name == "type" and len(node.args) != 1:
            refuse(node, "it makes a class")
        if name == "display":
            self.no_keywords(node, set())  # `raw=True` shows a text as HTML
        values = self._given(
            node, name, most=100, is_starred=name in known.STARRED,
            allows={"plot"} if name in {"display", "len", "list", "zip", "enumerate", "type", "print"} else set(),
        )  # fmt: skip
        if name in {"zip", "enumerate"} and any(item.kind == "plot" for item in values):
            refuse(node, "it pairs plots with something")
        if name == "list" and values and values[0].kind == "plot":
            return PLOT
        if name in known.SCALARS or name in known.ERRORS:
            return NEW
        if name in {"min", "max", "sum", "type", "display", "print"}:
            return DATA
        is_whole = all(item.kind == "data" and item.own == self.most_own(item) == WHOLE for item in values)
        is_new = name == "range" or (is_whole and name not in {"abs", "round"})
        return NEW if is_new else Value("data", CONTAINER)

    def _method(self, node: ast.Call, base: Value, name: str) -> Value:
        if self.kernel.is_replaced(name):
            refuse(node, f"{name} of a library was replaced")
        if base.kind == "plot" and name in known.PLOT_METHODS:
            self._given(node, name, most=known.PLOT_METHODS[name], allows={"plot"})
            return PLOT
        if base.kind == "plotter" and name in known.PLOT_KINDS:
            return self._drawn(node)
        if base.kind == "model" and name in known.MODEL_METHODS:
            self._given(node, "", most=known.MODEL_METHODS[name])
            return replace(base) if name == "fit" else DATA
        if base.kind == "function" and name in known.CLASS_METHODS:
            if base.name not in {"datetime.datetime", "datetime.date", "builtins.dict"}:
                refuse(node, f"{name} is not known here")
            self._given(node, "", most=2)
            return NEW if base.name.startswith("datetime") else Value("data", CONTAINER)
        if base.kind != "data":
            refuse(node, f"{name} may do more than read")
        return self._data_method(node, base, name)

    def _data_method(self, node: ast.Call, base: Value, name: str) -> Value:
        special = {
            "format": self._formatted,
            "query": self._queried,
            **dict.fromkeys(known.PLOTTING_METHODS, self._drawn),
        }
        if name in special:
            return special[name](node)
        if name in known.CALLBACK_METHODS:
            return self._callbacks(node, name)
        if name in known.CHANGING_METHODS and not (name == "add" and base.is_table):
            self.check_own(node, base, CONTAINER)
            for value in self._given(node, name, most=3):
                self.note_foreign(value)
            return self.part(base)
        if name in known.NEW_METHODS:
            return self._of_new_method(node, base, name)
        if name not in known.VIEW_METHODS:
            refuse(node, f"{name} may do more than read")
        self._given(node, name, most=known.VIEW_METHODS[name], base=base)
        if name == "copy" and not node.args and not node.keywords:
            return Value("data", WHOLE if base.is_table else CONTAINER, base.is_table)
        is_part = name == "drop" and base.is_table
        return Value("data", CONTAINER if is_part else NOT_OWN, is_part)

    def _of_new_method(self, node: ast.Call, base: Value, name: str) -> Value:
        values = self._given(node, name, most=known.NEW_METHODS[name], base=base)
        if name in {"astype", "select_dtypes"}:
            for item in arguments_of(node):
                self._check_dtype(item)
        is_held = name in {"tolist", "to_list"} and not base.is_table  # an array without axes may hold a list
        if name in known.ELEMENTS or is_held or any(item.arg == "copy" for item in node.keywords):
            return DATA
        if base.is_table or name in known.PANDAS_METHODS:
            return Value("data", WHOLE, is_table=True)
        return DATA if any(item.kind == "local" for item in values) else Value("data", CONTAINER)

    def no_keywords(self, call: ast.Call, but: set[str]) -> None:
        """Check that a call has no keyword arguments except these."""
        for keyword in call.keywords:
            if keyword.arg not in but:
                refuse(call, f"the argument {keyword.arg} is not known here")
            self.data(keyword.value)

    def check_plots(self, node: ast.AST) -> None:
        """Check that drawing loads no package and changes no figure of the user."""
        why = self.kernel.why_not_drawn()
        if why:
            refuse(node, why)

    def _given(
        self,
        node: ast.Call,
        name: str,
        *,
        most: int,
        allows: Iterable[str] = (),
        base: Value | None = None,
        is_starred: bool = False,
    ) -> list[Value]:
        """Check the arguments of a call of `name`, and return their values."""
        if len(node.args) > most:
            refuse(node, "so many positional arguments may include an object to write into")
        short = name.rpartition(".")[2]
        at, by_name = known.CALLED.get(name) or known.CALLED.get(short) or (None, frozenset())
        fine = {"data", *allows}
        values = []
        for place, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred) and not is_starred:
                refuse(node, "the arguments of a call are not written out")
            inner = argument.value if isinstance(argument, ast.Starred) else argument
            values.append(self._argument(inner, {*fine, "local"} if place == at else fine))
        if short in known.CALLS_ITS_FIRST and values:
            self._check_called(node, values)
        for keyword in node.keywords:
            is_called = keyword.arg in by_name or short == "assign"
            values += self._keyword(node, keyword, {*fine, "local"} if is_called else fine, base)
        needed = known.RANDOM.get(short)
        if needed and not any(
            argument.arg == needed and _is_number(argument.value) for argument in node.keywords
        ):
            refuse(node, f"it changes the random state of your notebook; {needed} is no written number")
        return values

    def _check_called(self, node: ast.Call, values: list[Value]) -> None:
        """Check a called argument. Data is refused, because it may be a class or a bound method."""
        first = values[0]
        if first.kind == "data" or (first.name == "builtins.type" and len(node.args) != 2):  # noqa: PLR2004
            refuse(node, "it calls an unknown function")

    def _keyword(
        self, node: ast.Call, keyword: ast.keyword, fine: set[str], base: Value | None
    ) -> list[Value]:
        name = keyword.arg
        if name is None or name in known.REFUSED_KEYWORDS:
            refuse(node, f"the argument {name or '**'} may do more than read")
        is_constant = isinstance(keyword.value, ast.Constant)
        is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        if name.lower().startswith(known.OVERWRITING) and not (is_true and name.lower().startswith("copy")):
            refuse(node, f"the argument {name} may change the input")
        if name in known.CHECKED_KEYWORDS and "local" in fine:
            self._callback(keyword.value)
            return []
        if name == "inplace":
            if not is_constant:
                refuse(node, "inplace is not written out")
            if is_true:
                self.check_values(node, base or DATA)
            return []
        if name == "dtype":
            self._check_dtype(keyword.value)
        if name.endswith(known.PROPERTIES) and not is_constant:
            self._check_properties(node, keyword.value)
        return [self._argument(keyword.value, {*fine, "plot"} if name == "ax" else fine)]

    def _check_dtype(self, node: ast.expr) -> None:
        """Check a type of data. For some type names, pandas loads a package or opens a file."""
        for part in ast.walk(node):
            if isinstance(part, ast.Constant):
                if isinstance(part.value, str) and not _DTYPE.fullmatch(part.value):
                    refuse(node, "the type of the data is not known")
            elif isinstance(part, ast.expr) and not isinstance(part, ast.Dict | ast.List | ast.Tuple):
                value = self.value(part) if isinstance(part, ast.Name | ast.Attribute) else DATA
                if value.kind not in {"function", "module"}:
                    refuse(node, "the type of the data is not written out")

    def _check_properties(self, node: ast.Call, properties: ast.expr) -> None:
        """Check a dict of plot properties. It must be literal and have no refused arguments."""
        is_dict = (
            isinstance(properties, ast.Call)
            and isinstance(properties.func, ast.Name)
            and properties.func.id == "dict"
        )
        if is_dict and isinstance(properties, ast.Call) and not properties.args:
            return  # its keyword arguments are checked elsewhere
        if not isinstance(properties, ast.Dict):
            refuse(node, "the properties of the plot are not written out")
        for key in properties.keys:
            if not isinstance(key, ast.Constant) or key.value in known.REFUSED_KEYWORDS:
                refuse(node, "the properties of the plot are not known")

    def _argument(self, node: ast.expr, fine: Iterable[str]) -> Value:
        value = self.value(node)
        is_plain = value.group == "builtin" or value.name.startswith(
            ("numpy.float", "numpy.int", "numpy.bool", "math.")
        )
        if value.name == "builtins.display" or (value.kind not in fine and not is_plain):
            refuse(node, "an argument of a call is not plain data")
        return value

    def _drawn(self, node: ast.Call) -> Value:
        self.check_plots(node)
        for argument in node.keywords:
            if argument.arg == "kind" and not (
                isinstance(argument.value, ast.Constant) and argument.value.value in known.PLOT_KINDS
            ):
                refuse(node, "the kind of the plot is not known")
        if node.args and not all(isinstance(argument, ast.Constant) for argument in node.args):
            refuse(node, "the arguments of the plot are not written out")
        self._given(node, "", most=2)
        return PLOT

    def _callbacks(self, node: ast.Call, name: str) -> Value:
        """Check calls of `agg`, `apply`, `map` and similar methods, which call methods by name."""
        if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
            only = node.args[0]
            value = self.value(only)
            if name == "map" and value.kind == "data":
                return Value("data", CONTAINER)
            if value.kind == "function" and value.name.startswith(("numpy.", "math.")) and name != "pipe":
                return DATA
        self._only_callback(node)
        parts = arguments_of(node)
        is_named = not any(
            isinstance(item, ast.Lambda | ast.Name) for part in parts for item in ast.walk(part)
        )
        is_container = bool(node.keywords) or any(isinstance(item, ast.List | ast.Dict) for item in node.args)
        for keyword in node.keywords:
            if keyword.arg in known.CALLBACK_OPTIONS:
                self.data(keyword.value)
            elif name in {"agg", "aggregate"} and keyword.arg and isinstance(keyword.value, ast.Tuple):
                column, *rest = keyword.value.elts
                self.data(column)
                for each in rest:
                    self._callback(each)
            elif keyword.arg in known.CHECKED_KEYWORDS:
                self._callback(keyword.value)
            else:
                refuse(node, f"the argument {keyword.arg or '**'} of {name} may do more than read")
        return Value(
            "data", CONTAINER if name in {"agg", "aggregate"} and is_named and is_container else NOT_OWN
        )

    def _only_callback(self, node: ast.Call) -> None:
        for argument in node.args:
            if len(node.args) > 1:
                refuse(node, "the arguments of a function are not known")
            self._callback(argument)

    def _callback(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            if node.value not in known.AGGREGATIONS:
                refuse(node, "it calls a method by a name that is not known")
        elif isinstance(node, ast.List | ast.Tuple):
            for element in node.elts:
                self._callback(element)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    refuse(node, "the arguments of a call are not written out")
                self.data(key)
                self._callback(value)
        else:
            function = self.value(node)
            if function.name == "builtins.display" or (
                function.kind != "local" and function.group != "builtin"
            ):
                refuse(node, "it calls a function that is not known")

    def _formatted(self, node: ast.Call) -> Value:
        """Check `"{} {x:.2f}".format(...)`. A field that reads attributes is refused."""
        function = node.func
        text = function.value if isinstance(function, ast.Attribute) else None
        if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
            refuse(node, "the format is not written out")
        for _, field, spec, _ in string.Formatter().parse(text.value):
            if (field and not field.isidentifier() and not field.isdigit()) or (spec and "{" in spec):
                refuse(node, "the format reads attributes")
        self._given(node, "", most=100)
        return NEW

    def _queried(self, node: ast.Call) -> Value:
        """Check `df.query("a > 1 and b == 'x'")`. It may only compare columns and constants."""
        only = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not (isinstance(only, ast.Constant) and isinstance(only.value, str)):
            refuse(node, "the query is not written out")
        try:
            tree = ast.parse(only.value.strip(), mode="eval")
        except SyntaxError:
            refuse(node, "the query may do more than read")
        for part in ast.walk(tree):
            if not isinstance(part, _QUERY):
                refuse(node, "the query may do more than read")
        return Value("data", CONTAINER, is_table=True)


_QUERY: Final = (
    ast.Expression, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.List, ast.Tuple,
    ast.cmpop, ast.boolop, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip
_DTYPE: Final = re.compile(r"[<>=|]?[A-Za-z]+\d*(\[(ns|us|ms|s|m|h|D|M|Y)\])?")


def _root_name(node: ast.AST) -> str:
    """Return the variable that an assignment or a method call may change; empty if there is none."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        else:
            return ""
    return node.id


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int
