"""The variables before a rehearsal: the ones that the code can reach, and their digests."""

from __future__ import annotations

import ast
import contextlib
import gc
import itertools
import keyword
import os
import re
import sys
import warnings
from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import xxhash

from tract_jupyter.analysis import parse, transform
from tract_jupyter.rehearsal.files import is_installed
from tract_jupyter.rehearsal.values import Encoder, Node, UnsafeValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

LOCAL: Final = "local "
_INTERNAL: Final = re.compile(
    r"__.*|_+|_i+|_i?\d+|_(oh|dh|ih|exit_code|sh)|In|Out|exit|quit|get_ipython|open|display"
)
_WORD: Final = re.compile(r"[^\W\d]\w*")
_MAGIC: Final = re.compile(r"^\s*[%!].*", re.MULTILINE)
_ANY_MAGIC: Final = frozenset(
    {"run", "reset", "reset_selective", "store", "load", "macro", "rerun", "recall"}
)
_ANY_ATTRIBUTE: Final = frozenset({"_getframe", "modules", "user_ns", "f_globals", "f_locals", "__globals__"})
_ANYTHING: Final = _ANY_ATTRIBUTE.union(
    ("globals", "locals", "vars", "exec", "eval", "get_ipython", "gc", "inspect")
)
_LONGEST_TEXT: Final = 10_000
_MOST_OBJECTS: Final = 200_000
_MOST_OPAQUE: Final = 5_000
_SCALARS: Final = frozenset({str, int, float, bool, complex, bytes, NoneType, type(...)})
_CONTAINERS: Final = frozenset({list, dict, tuple, set})
_CONSTANT: Final = _SCALARS | {date, datetime, time, timedelta, Decimal, Fraction, UUID, range}
_STILL: Final = (ModuleType, type, BuiltinFunctionType, CodeType)
_ITERABLES: Final[tuple[Any, ...]] = (
    [], (), "", "\xff", b"", bytearray(), set(), range(0), {}, {}.values(), {}.items(),
)  # fmt: skip
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_ITERATORS: Final[tuple[type, ...]] = (
    enumerate, filter, map, reversed, zip,
    *map(type, map(iter, _ITERABLES)),
    *(one for one in vars(itertools).values() if isinstance(one, type) and hasattr(one, "__next__")),
)  # fmt: skip
_SUBCLASSES: Final = frozenset({"matrix", "recarray", "memmap"})  # of numpy's array
_LARGEST_SUBCLASS: Final = 64 * 1024**2  # bytes of one that is read
_SHARED: Final = ("Index", "Array", "Categorical")  # of pandas, which shares or copies them as it likes
_CACHING: Final = ("GroupBy", "Groupby", "Resampler", "Rolling", "Expanding", "Window")  # groups of a table
_OPAQUE_LIBRARIES: Final = frozenset(
    {"matplotlib", "IPython", "ipywidgets", "sqlite3", "_sqlite3", "duckdb", "_duckdb", "logging", "_io"}
)


def is_variable(name: str) -> bool:
    """Return True for a user's variable, and False for a name of Python or IPython."""
    return name.isidentifier() and not keyword.iskeyword(name) and not _INTERNAL.fullmatch(name)


def variables_of(namespace: Mapping[str, Any], hidden: Iterable[str] = ()) -> dict[str, Any]:
    """Return the user's variables of a namespace."""
    left_out = set(hidden)
    return {
        name: value
        for name, value in list(namespace.items())
        if type(name) is str and name not in left_out and is_variable(name)
    }


ImportTarget = tuple[str, str | None]
"""A module, and the attribute of it."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The variables before a rehearsal.

    Attributes:
        code: The code.
        values: All variables, as references.
        imports: (module, attribute) of each `import` of the code, by the name that it binds. The attribute is None for
            the module itself, and empty for the package of the modules, which are separated by commas.
        functions: The plain functions that the code defines, by name.
    """

    code: str
    values: dict[str, Any]
    imports: dict[str, tuple[ImportTarget, ...]] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)

    @classmethod
    def take(cls, code: str, namespace: Mapping[str, Any], hidden: Iterable[str] = ()) -> Baseline:
        """Return the baseline of a namespace. No value is copied or hashed."""
        tree = tree_of(code)
        return cls(code, variables_of(namespace, hidden), _imports(tree), _functions(tree))


def tree_of(code: str) -> ast.Module | None:
    """Return the syntax tree of code in IPython's syntax. None if it cannot be parsed."""
    try:
        return parse(transform(code).code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports(tree: ast.Module | None) -> dict[str, tuple[ImportTarget, ...]]:
    found: dict[str, dict[ImportTarget, None]] = {}
    packages: dict[str, list[str]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found.setdefault(alias.asname, {})[alias.name, None] = None
                else:
                    packages.setdefault(alias.name.partition(".")[0], []).append(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, {})[node.module, alias.name] = None
    for package, modules in packages.items():
        found.setdefault(package, {})[",".join(dict.fromkeys(modules)), ""] = None
    return {name: tuple(targets) for name, targets in found.items()}


def _functions(tree: ast.Module | None) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions that the code defines once, at its top level, and whose definition runs no other code."""
    if tree is None:
        return {}
    bound = Counter(_bound_names(tree))
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and bound[node.name] == 1
        and _is_plain(node)
    }


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def _is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return (
        not node.decorator_list and not getattr(node, "type_params", None) and all(map(_is_literal, defaults))
    )


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def names_in(code: str) -> set[str] | None:
    """Return the names in code, and the words of its texts and magics. None if the code can reach any variable."""
    tree = tree_of(code)
    if tree is None:
        return None
    names, words = set(_bound_names(tree)), set(_WORD.findall("\n".join(_MAGIC.findall(code))))
    if words & _ANY_MAGIC:
        return None
    if code.lstrip().startswith("%%"):
        words |= set(_WORD.findall(code))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.update({node.attr} & _ANYTHING)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return None
            names.add(node.name)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < _LONGEST_TEXT
        ):
            words.update(_WORD.findall(node.value))
    return None if names & _ANYTHING else names | words


def assigned_attributes(code: str, namespace: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Return the attributes of loaded libraries that code sets or deletes: their owner and name, by the text.

    Modules and classes of the user are not libraries: their digests show the change.
    """
    tree, found = tree_of(code), {}
    imports = {name: targets[-1] for name, targets in _imports(tree).items()}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            with contextlib.suppress(Exception):  # there is no such attribute
                owner = _owner(node.value, namespace, imports)
                if isinstance(owner, ModuleType | type) and not _is_own(owner):
                    found[ast.unparse(node)] = (owner, node.attr)
    return found


def _owner(node: ast.expr, namespace: Mapping[str, Any], imports: Mapping[str, ImportTarget]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_owner(node.value, namespace, imports), node.attr)
    if not isinstance(node, ast.Name):
        return None
    if node.id in namespace:
        return namespace[node.id]
    name, attribute = imports[node.id]
    return (
        getattr(sys.modules[name], attribute)
        if attribute
        else sys.modules[node.id if attribute == "" else name]
    )


def touched(code: str, values: Mapping[str, Any]) -> set[str]:
    """Return the names of variables whose objects the code may change in place."""
    words = names_in(code)
    if words is None:
        return set(values)
    named = _with_functions(words & set(values), values)
    found: dict[int, Any] = {}
    reached = {number for name in named for number in _reachable(values[name], found)}
    if not reached:
        return named
    searched: dict[int, Any] = {}  # the objects of variables that share none of them
    shared: set[str] = set()
    for name in values.keys() - named:
        seen: dict[int, Any] = {}
        if reached.isdisjoint(_reachable(values[name], seen, searched)):
            searched |= seen
        else:
            shared.add(name)
    return named | shared


def _with_functions(named: set[str], values: Mapping[str, Any]) -> set[str]:
    """Add the variables that functions and classes of the notebook use."""
    waiting, done = list(named), set(named)
    while waiting:
        for word in _words_or_none(values[waiting.pop()]):
            if word in _ANYTHING:
                return set(values)
            if word in values and word not in done:
                done.add(word)
                waiting.append(word)
    return done


def _words_or_none(value: Any) -> list[str]:
    try:
        return list(_words_of(value))
    except Exception:  # noqa: BLE001 # the class of the value may raise anything
        return []


def _words_of(value: Any) -> Iterator[str]:
    functions: list[Any] = [value]
    if not isinstance(value, (*_STILL, FunctionType, MethodType)):
        functions = [type(value)]
    for each in functions:
        if _is_of_notebook(each):
            functions += [
                one
                for one in vars(each).values()
                if isinstance(one, FunctionType | classmethod | staticmethod | property)
            ]
        codes = [_code_of(each)]
        while codes:
            code = codes.pop()
            if code is not None:
                yield from code.co_names
                codes += [one for one in code.co_consts if isinstance(one, CodeType)]


def _code_of(function: Any) -> CodeType | None:
    for _ in range(10):  # decorators
        if isinstance(function, property):
            function = function.fget
        function = getattr(function, "__wrapped__", getattr(function, "__func__", function))
    return getattr(function, "__code__", None) if isinstance(function, FunctionType) else None


# ---- objects that a value refers to


def _reachable(value: Any, seen: dict[int, Any], searched: Container[int] = ()) -> Iterator[int]:
    """Yield the ids of the objects that a value refers to and that can change. Skip the ids in `searched`.

    `seen` receives all found objects by their ids. An id is unique only among living objects.
    """
    waiting = [value]
    while waiting and len(seen) < _MOST_OBJECTS:
        each = waiting.pop()
        number = id(each)
        if number in seen or number in searched:
            continue
        try:
            kind = type(each)
            if kind in _CONSTANT or (kind not in _CONTAINERS and _is_still(each)):
                continue
            members = each.values() if kind is dict else _members(each)
            if not _CONSTANT.issuperset(map(type, members)):
                waiting += members
        except Exception:  # noqa: BLE001, S110 # the class of the value may raise anything, or lie
            pass
        seen[number] = each
        if type(each) is not tuple:
            yield number


def _is_still(value: Any) -> bool:
    """Return True for a part of a library, which is not searched."""
    if isinstance(value, BuiltinFunctionType):
        return isinstance(value.__self__, ModuleType | type | NoneType)  # else a method of an object
    return isinstance(value, _STILL) and not _is_of_notebook(value)


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple | set | frozenset | deque):
        return value
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, FunctionType):
        return [*(value.__defaults__ or ()), *_cells(value)]
    parts = _parts_without_attributes(value)
    return _parts_of_object(value) if parts is None else parts


def _parts_without_attributes(value: Any) -> list[Any] | None:
    """Return the objects that an object refers to if its attributes are not its content. None for other objects."""
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, BuiltinFunctionType):
        return [value.__self__]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, _VIEWS):
        return gc.get_referents(value)
    if _library(value) == "pandas" and type(value).__name__.endswith(_CACHING):
        return [_state(value).get("obj")]
    return _parts_of_iterator(value) if type(value) in _ITERATORS else None


def _cells(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is empty
            continue


def _parts_of_object(value: Any) -> Iterable[Any]:
    library = _library(value)
    if library == "numpy":
        base = getattr(value, "base", None)
        is_owned = type(base).__module__ != "numpy"
        return [*([] if is_owned else [base]), *_objects_of(value)]
    if library == "pandas" and type(value).__name__ in {"DataFrame", "Series"}:
        columns = [column for _, column in value.items()] if value.ndim > 1 else [value]
        return [part for column in columns for part in _objects_of(column)]
    if library in _OPAQUE_LIBRARIES or library in {"pandas", "polars", "pyarrow"}:
        return []
    kind = [type(value)] if _is_of_notebook(type(value)) else []
    bases = value.__bases__ if isinstance(value, type) else ()
    return [*kind, *bases, *_state(value).values()]


def _parts_of_iterator(value: Any) -> list[Any]:
    """Return the state of an iterator of Python, or the part that it shows."""
    with warnings.catch_warnings(), contextlib.suppress(TypeError):
        warnings.simplefilter("ignore", DeprecationWarning)
        return [*value.__reduce__()[1:]]
    parts = [
        part for part in gc.get_referents(value) if part is not type(value)
    ]  # no copies since Python 3.14
    return [*parts, repr(value)] if all(type(part) in _SCALARS for part in parts) else parts


def _objects_of(value: Any) -> list[Any]:
    """Return the objects in an array or a series with the type `object`."""
    if str(getattr(value, "dtype", "")) != "object" or value.size >= _MOST_OBJECTS:
        return []
    objects: list[Any] = (value.to_numpy() if _library(value) == "pandas" else value.ravel()).tolist()
    return objects


def is_fixed(value: Any) -> bool:
    """Return True if the identity of a value is its state: a digest shows no more."""
    with contextlib.suppress(Exception):  # the class of the value may raise anything
        return _has_only_identity(value)
    return False


def _has_only_identity(value: Any) -> bool:
    if isinstance(value, (*_STILL, FunctionType, MethodType)):
        return not _attributes(value)
    return type(value) in _SCALARS | {re.Pattern}


def _attributes(value: Any) -> list[Any]:
    """Return the parts of a function, class or module that code can replace. Libraries are left out."""
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType):
        more = (
            [value.__defaults__, value.__kwdefaults__] if value.__defaults__ or value.__kwdefaults__ else []
        )
        return [*_cells(value), *more, *_names_and_values(vars(value))]
    if isinstance(value, BuiltinFunctionType):
        return [] if _is_still(value) else [value.__self__]
    if not isinstance(value, ModuleType | type) or not _is_own(value):
        return []
    bases = value.__bases__ if isinstance(value, type) else ()
    return [*bases, *_names_and_values(vars(value))]


def _names_and_values(variables: Mapping[str, Any]) -> list[Any]:
    return [one for name, each in variables.items() if name[:2] != "__" for one in (name, each)]


def _is_of_notebook(value: Any) -> bool:
    return isinstance(value, type) and value.__module__ == "__main__"


def _is_own(value: ModuleType | type) -> bool:
    """Return True for a class of the notebook, and for a module or class of a file in the working folder."""
    if _is_of_notebook(value):
        return True
    module = value if isinstance(value, ModuleType) else sys.modules.get(value.__module__)
    path = getattr(module, "__file__", None)
    if not isinstance(path, str):
        return False
    folder = os.path.realpath(".")
    path = os.path.realpath(path)
    return path.startswith(folder + os.sep) and not is_installed(path[len(folder) + 1 :], Path(folder))


def _library(value: Any) -> str:
    return str(getattr(type(value), "__module__", "")).partition(".")[0]


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, without properties."""
    state: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            member = kind.__dict__.get(slot)
            if isinstance(member, MemberDescriptorType):
                try:
                    state[slot] = member.__get__(value)
                except AttributeError:  # it has no value
                    continue
    with contextlib.suppress(AttributeError, TypeError):
        state.update(object.__getattribute__(value, "__dict__"))
    return state


# ---- digests


def digest(value: Any) -> str:
    """Return a digest of the value's content. It is not for security: a change in place changes it.

    It begins with `LOCAL` if it holds only in this process and its forks, because a part has no safe form.
    """
    digester = _Digester()
    try:
        buffers = digester.encode(value)
    except Exception:  # noqa: BLE001 # the classes of the value may raise anything
        return f"{LOCAL}{id(value):x}"
    total = xxhash.xxh3_128()
    for buffer in buffers:
        total.update(buffer)
        total.update(b"|")
    return (LOCAL if digester.has_opaque else "") + total.hexdigest()


class _Digester(Encoder):
    """Writes also values without a safe form, for a digest."""

    def __init__(self) -> None:
        super().__init__()
        self._opaque = 0

    @property
    def has_opaque(self) -> bool:
        """True if a part has no safe form."""
        return self._opaque > 0

    def part(self, value: Any) -> Any:
        if type(value).__name__.endswith(_SHARED) and _library(value) == "pandas":
            self.forget(value)
        return super().part(value)

    def node(self, value: Any) -> Node:
        try:
            return super().node(value)
        except UnsafeValueError:
            return self.unknown(value)

    def unknown(self, value: Any) -> Node:
        self._opaque += 1
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        identity = ["opaque", [], kind, id(value)]
        if self._opaque > _MOST_OPAQUE:
            return identity
        if isinstance(value, (*_STILL, FunctionType, MethodType)):
            more = [value.__code__] if isinstance(value, FunctionType) else []
            parts = self.parts(_attributes(value) + more)
            return ["opaque", parts, kind, id(value)] if parts else identity
        if isinstance(value, GeneratorType):
            frame = value.gi_frame
            return [*identity, -1 if frame is None else frame.f_lasti]
        mark = _mark(value)
        if mark is not None:
            return [*identity, *mark]
        found = _parts_without_attributes(value)
        parts = self._content(value) if found is None else found
        return ["opaque", self.parts(parts), kind, id(value)]

    @staticmethod
    def _content(value: Any) -> list[Any]:
        content: list[Any] = []
        if isinstance(value, list | tuple | set | frozenset | deque):
            content += list(value)
        elif isinstance(value, dict):
            content += [*dict.keys(value), *dict.values(value)]
        elif isinstance(value, str | int | float | bytes):
            content.append(repr(value))
        elif hasattr(type(value), "__length_hint__"):
            content.append(value.__length_hint__())
        for name, part in _state(value).items():
            content += [name, part]
        return content


def _mark(value: Any) -> list[Any] | None:
    """Return a mark of the content of a library's object. None for an object whose attributes are its content."""
    library = _library(value)
    if isinstance(value, array | memoryview):
        return [xxhash.xxh3_128_hexdigest(value.tobytes())]
    if library == "numpy" and type(value).__name__ in _SUBCLASSES:
        is_read = value.nbytes <= _LARGEST_SUBCLASS
        return [str(value.shape), xxhash.xxh3_128_hexdigest(value.tobytes()) if is_read else ""]
    mark = _MARKS.get(library)
    if mark is not None:
        return [mark(value)]
    return [] if library in _OPAQUE_LIBRARIES else None


def _artists(value: Any) -> int:
    children = getattr(value, "get_children", None)
    if children is None:
        return 0
    return sum(1 + _artists(child) for child in children())


def _position(value: Any) -> list[Any]:
    closed = bool(getattr(value, "closed", True))
    getvalue = getattr(value, "getvalue", None)
    if closed:
        return [True]
    text = getvalue() if getvalue is not None else b""
    text = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return [False, value.tell() if value.seekable() else 0, xxhash.xxh3_128_hexdigest(text)]


_MARKS: Final[dict[str, Callable[[Any], Any]]] = {
    "matplotlib": _artists,
    "_io": _position,
    "io": _position,
    "_thread": repr,
}
