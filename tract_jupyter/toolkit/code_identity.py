"""The identity of the code that a tool runs, as data that can be hashed.

A tool's code is all user code that the handler can reach: by global names, closures, defaults, attributes,
containers, decorators and imports. A module of the user counts with all its functions and classes. For libraries,
only names count, and the user's code in their objects.

* Fixed values always count: numbers, text, paths, dates, tuples of these, attributes of the user's objects.
* State counts with its value at the first use of a definition (`with_state`). State is the contents of lists and
  dicts, and the variables and attributes that the reached code assigns. Code in the state always counts.
* A library object that the handler encloses or is bound to counts by its identity. Another object, or the same object
  in another process, has another identity. As a global variable, it counts by its type.
* Code that finds other code by a text, such as `eval`, makes the identity uncertain (`CodeIdentity.doubt`).
"""

from __future__ import annotations

import builtins
import dis
import gc
import importlib
import importlib.util
import inspect
import marshal
import pickle
import re
import runpy
import secrets
import sys
import sysconfig
import weakref
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache, partial, partialmethod
from itertools import chain
from pathlib import Path, PurePath
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    TracebackType,
)
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from tract_jupyter.models import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sized

_MOST_OBJECTS: Final = 20_000
_STDLIB: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen ")
_INSTALLED: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_PACKAGE: Final = str(Path(__file__).parents[1])
_PLAIN: Final = frozenset({
    bool, int, float, complex, str, bytes, range, type(None), type(...), Decimal, Fraction, UUID, re.Pattern, timedelta,
})  # fmt: skip
_PLAIN_BASES: Final = (PurePath, date, time, tzinfo)
_MAPPINGS: Final = (dict, OrderedDict, MappingProxyType)
_SETS: Final = (set, frozenset)
_FIXED: Final = (tuple, frozenset)
_CONTAINERS: Final = (list, deque, tuple, *_SETS, *_MAPPINGS)
_HOLDERS: Final = (UserDict, UserList, ChainMap, SimpleNamespace)
_CODE: Final = (
    MethodType, partial, partialmethod, staticmethod, classmethod, property, cached_property
)  # fmt: skip
_NOT_SEARCHED: Final = (type, ModuleType, FrameType, TracebackType)
_HEAP_TYPE: Final = 1 << 9  # CPython's flag of a class that a `class` statement made
_OF_CLASSES: Final = frozenset({
    "__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__qualname__",
    "__dict__", "__weakref__", "_abc_impl",
})  # fmt: skip
_OURS: Final = "tract_jupyter."
_NOT_SEARCHED_IN: Final = (
    _OURS,
    "concurrent.futures",
    "asyncio",
    "_asyncio",
)  # calls wait there for a moment
_MAKERS: Final = frozenset({"__init__", "__new__", "__post_init__"})  # their assignments are not state yet
_OPCODES: Final = {
    "LOAD_GLOBAL": "names", "LOAD_NAME": "names", "LOAD_FROM_DICT_OR_GLOBALS": "names",
    "LOAD_ATTR": "attributes", "LOAD_METHOD": "attributes", "LOAD_SUPER_ATTR": "attributes",
    "IMPORT_FROM": "attributes", "STORE_GLOBAL": "assigned", "DELETE_GLOBAL": "assigned",
    "STORE_ATTR": "assigned_attributes", "DELETE_ATTR": "assigned_attributes",
}  # fmt: skip
_FINDERS: Final = (
    eval, exec, globals, __import__, importlib.import_module, importlib.reload, runpy.run_path, runpy.run_module,
    sys._getframe, inspect.currentframe, gc.get_objects, gc.get_referrers,  # noqa: SLF001
    pickle.load, pickle.loads, marshal.loads, FunctionType,
)  # fmt: skip
_FINDING_NAMES: Final = frozenset({
    "__globals__", "f_globals", "f_locals", "__subclasses__", "get_ipython", "user_ns", "user_global_ns",
})  # fmt: skip


class CodeIdentity(NamedTuple):
    """The identity of a handler's code.

    Attributes:
        digest: 64 hex digits.
        doubt: the reason why the examined code may be incomplete; empty if it is complete.
    """

    digest: str
    doubt: str = ""


def code_identity(
    handler: Callable[..., Any], *, with_state: bool = False, with_objects: bool = False
) -> CodeIdentity:
    """Return the identity of a handler's code.

    `with_state` includes the current contents of lists, dicts, sets and assigned variables. `with_objects`
    distinguishes the library objects that the handler encloses or is bound to.
    """
    try:
        walk = _Walk(with_state=with_state)
        data = walk.all_of(handler, strict=with_objects)
        assigned = walk.assigned()
        if any(assigned):
            walk = _Walk(*assigned, with_state=with_state)
            data = walk.all_of(handler, strict=with_objects)
    except RecursionError:
        return CodeIdentity(digest(_token(handler)), f"it reaches more than {_MOST_OBJECTS:,} objects")
    except Exception as error:  # noqa: BLE001 # an object of the user may raise anything
        return CodeIdentity(digest(_token(handler)), f"its code cannot be examined ({type(error).__name__})")
    if walk.doubts:
        return CodeIdentity(digest([data, walk.state, _token(handler)]), min(walk.doubts))
    return CodeIdentity(digest([data, walk.state]))


class _Import(NamedTuple):
    """An `import` statement."""

    level: int
    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """Names and imports of a piece of code and of the code within it.

    `text` is a digest of the source or the bytecode. `attributes` also has texts that could name one. `assigned_cells`
    are variables of enclosing functions.
    """

    text: str
    names: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[_Import]
    assigned: frozenset[str]
    assigned_cells: frozenset[str]
    assigned_attributes: frozenset[str]


class _Reached(NamedTuple):
    """A function of the user that the handler reaches.

    A member of a class or a module has a `name`. Its assignments count if the code reads that name.
    """

    name: str
    facts: _Facts
    variables: frozenset[tuple[int, str]]


@dataclass
class _Walk:
    """One walk over a handler and all objects that it reaches.

    Attributes:
        variables, attributes: the state that the code assigns: variables (by namespace or cell) and attributes.
        state: the values of the state, if it counts.
        doubts: see `CodeIdentity`.
    """

    variables: frozenset[tuple[int, str]] = frozenset()
    attributes: frozenset[str] = frozenset()
    with_state: bool = False
    state: list[Any] = field(default_factory=list)
    doubts: set[str] = field(default_factory=set)
    _reached: list[_Reached] = field(default_factory=list)
    _later: deque[Any] = field(default_factory=deque)  # objects to search for code at the end
    _classes: deque[type] = field(default_factory=deque)
    _searched: dict[int, Any] = field(default_factory=dict)
    _seen: dict[int, tuple[int, Any]] = field(default_factory=dict)  # keeps the objects, and so their ids
    _user_classes: dict[int, tuple[type, bool]] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)

    def all_of(self, handler: Any, *, strict: bool) -> list[Any]:
        """Return data for a handler, and for the code in all objects that can change in place."""
        data = [self.of(handler, strict=strict)]
        while self._later or self._classes:
            if self._later:
                data += self._search(self._later.popleft())
            else:
                user_class = self._classes.popleft()
                data += [] if id(user_class) in self._seen else [self.of(user_class)]
        return data

    def assigned(self) -> tuple[frozenset[tuple[int, str]], frozenset[str]]:
        """Return the variables and attributes that the reached code assigns."""
        counted = [function for function in self._reached if not function.name]
        others = [function for function in self._reached if function.name]
        while True:
            named = {"__call__"}.union(
                *(function.facts.attributes | function.facts.names for function in counted)
            )
            now = [function for function in others if function.name in named]
            if not now:
                break
            others = [function for function in others if function.name not in named]
            counted += now
        return (
            frozenset().union(*(function.variables for function in counted)),
            frozenset().union(*(function.facts.assigned_attributes for function in counted)),
        )

    def of(self, value: Any, *, strict: bool = False) -> Any:
        """Return data that identifies a value.

        `strict`: an object of a library counts as itself.
        """
        kind = type(value)
        if kind in _PLAIN or (isinstance(value, _PLAIN_BASES) and not self._is_user_class(kind)):
            return [kind.__qualname__, f"{value:x}" if kind is int else repr(value)]
        if id(value) in self._seen:
            return ["seen", self._seen[id(value)][0]]
        self._count(self._seen)
        self._seen[id(value)] = (len(self._seen), value)
        if isinstance(value, FunctionType):
            return self._function(value, strict=strict)
        if isinstance(value, type | ModuleType):
            return self._class(value) if isinstance(value, type) else self._module(value)
        if self._is_all_modules(value):
            return ["modules"]
        is_fixed = kind in _FIXED
        parts = self._each(_in_order(value), strict=strict) if is_fixed else self._parts(value, strict=strict)
        return self._instance(value, kind, strict=strict) if parts is None else [kind.__qualname__, *parts]

    def _count(self, objects: Sized) -> None:
        if len(objects) >= _MOST_OBJECTS:
            raise RecursionError

    def _search(self, root: Any) -> list[Any]:
        """Return data for the user's code in an object, also in objects within it."""
        data, todo = [], deque([root])
        while todo:
            value = todo.popleft()
            if id(value) in self._searched:
                continue
            self._count(self._searched)
            self._searched[id(value)] = value
            if type(value) not in _CONTAINERS and self._is_code(value):
                data.append(self.of(value))
            else:
                todo.extend(each for each in self._held(value) if type(each) not in _PLAIN)
        return data

    def _held(self, value: Any) -> Iterable[Any]:
        """Return the objects that an object holds. The class of a user's object counts at the end."""
        kind = type(value)
        if kind in _SETS or kind is OrderedDict:
            return _in_order(value)
        if self._is_all_modules(value):
            return ()
        if kind not in _CONTAINERS:
            if isinstance(value, FunctionType):
                return _enclosed(value)
            if isinstance(value, weakref.ref | ContextVar):
                target = value() if isinstance(value, weakref.ref) else value.get(None)
                return () if isinstance(target, type) else (target,)
            if isinstance(value, _NOT_SEARCHED) or kind.__module__.startswith(_NOT_SEARCHED_IN):
                return ()
            if self._is_user_class(kind):
                self._classes.append(kind)
        return [referent for referent in gc.get_referents(value) if referent is not kind]

    def _is_all_modules(self, value: Any) -> bool:
        """Return True for `sys.modules`: too much to examine, so it is a doubt."""
        if value is sys.modules:
            self.doubts.add("it uses sys.modules")
        return value is sys.modules

    def _is_code(self, value: Any) -> bool:
        """Return True if a value is user code, or wraps it."""
        if isinstance(value, FunctionType):
            return _is_user_function(value)
        if isinstance(value, type):
            return self._is_user_class(value)
        return isinstance(value, (*_CODE, CodeType)) or (
            isinstance(value, ModuleType) and _is_user_module(value)
        )

    def _is_user_class(self, kind: type) -> bool:
        known = self._user_classes.get(id(kind))
        if known is None:
            known = self._user_classes[id(kind)] = (kind, _is_user_class(kind))
        return known[1]

    def _state(self, value: Any) -> None:
        """Add a value of the state. Its code always counts."""
        if type(value) not in _PLAIN:
            self._later.append(value)
        if self.with_state:
            self.state.append(self.of(value))

    def _parts(self, value: Any, *, strict: bool) -> list[Any] | None:
        """Return the parts of a code object, such as a method or a partial; None for another object."""
        if isinstance(value, Enum):
            return [self.of(type(value)), value.name, self.of(value.value)]
        if isinstance(value, (partial, partialmethod)):
            parts = self._each((value.func, *value.args), strict=strict)
            return [parts, self._named(value.keywords, strict=strict)]
        if isinstance(value, _CODE):
            names = ("__func__", "__self__", "fget", "fset", "fdel", "func")
            is_strict = strict and isinstance(value, MethodType)
            return self._each((getattr(value, name, None) for name in names), strict=is_strict)
        if isinstance(value, CodeType):
            return [_facts(value).text]
        is_routine = inspect.isroutine(value) and not self._is_user_class(type(value))
        if is_routine and not hasattr(value, "__wrapped__"):  # of C
            self._check_finder(value)
            owner = getattr(value, "__self__", None)
            owner = owner.__name__ if isinstance(owner, ModuleType) else self.of(owner, strict=strict)
            return [*(getattr(value, name, "") for name in ("__module__", "__qualname__")), owner]
        return None

    def _each(self, values: Iterable[Any], *, strict: bool = False) -> list[Any]:
        return [self.of(value, strict=strict) for value in values]

    def _named(
        self, values: Mapping[Any, Any], *, strict: bool = False, state: Iterable[str] = ()
    ) -> list[Any]:
        data = []
        for name in sorted(name for name in values if isinstance(name, str)):
            if name in state:
                self._state(values[name])
            else:
                data.append([name, self.of(values[name], strict=strict)])
        return data

    def _function(self, function: FunctionType, name: str = "", *, strict: bool = False) -> Any:
        code, cells = function.__code__, function.__closure__ or ()
        if not _is_user_function(function):
            self._check_finder(function)
            is_ours = code.co_filename.startswith(_PACKAGE)
            text = _facts(code).text if is_ours else f"{function.__module__}.{function.__qualname__}"
            self._later.append(function)
            values = [value for value in _enclosed(function) if type(value) in _PLAIN]
            return ["function", text, self._each(values)]
        facts = _facts(code)
        free = dict(zip(code.co_freevars, cells, strict=True))
        assigned = {(id(function.__globals__), variable) for variable in facts.assigned}
        assigned |= {(id(free[variable]), "") for variable in facts.assigned_cells if variable in free}
        self._reached.append(_Reached(name, facts, frozenset(assigned)))
        closure = {variable: _content(cell) for variable, cell in free.items()}
        with suppress(Exception):  # a type hint may name a missing class
            self._later.append(function.__annotations__)
        return [
            "function",
            facts.text,
            self._named(
                closure,
                strict=strict,
                state={variable for variable in free if (id(free[variable]), "") in self.variables},
            ),
            self._each(function.__defaults__ or (), strict=strict),
            self._named(function.__kwdefaults__ or {}, strict=strict),
            self._named(dict(vars(function)), strict=strict, state=self.attributes),
            *self._globals(function.__globals__, facts),
        ]

    def _globals(self, namespace: dict[str, Any], facts: _Facts) -> Iterator[Any]:
        """Yield data for the global names and the imports of code."""
        for name in sorted(_FINDING_NAMES & (facts.attributes | facts.names)):
            self.doubts.add(f"it uses {name}")
        variables = {name: namespace[name] for name in facts.names if name in namespace}
        state = {name for name in variables if (id(namespace), name) in self.variables}
        yield self._named(variables, state=state)
        modules = [value for _, value in sorted(variables.items()) if isinstance(value, ModuleType)]
        yield self._members([builtins], facts.names - variables.keys())
        yield self._members(modules, facts.attributes)
        yield self._imported(facts, namespace.get("__package__") or namespace.get("__name__") or "")

    def _members(self, modules: list[ModuleType], names: Iterable[str]) -> list[Any]:
        """Return data for the names that code reads in modules: all in user modules, only user code in others."""
        data: list[Any] = []
        for module in modules:  # the loop appends to it
            members = vars(module)
            for name in sorted(name for name in names if name in members):
                member = members[name]
                if isinstance(member, ModuleType):
                    if all(member is not known for known in modules):
                        modules.append(member)
                        self._later.append(member)
                elif _is_user_module(module):
                    state = self.attributes | {
                        name for number, name in self.variables if number == id(members)
                    }
                    data.append([module.__name__, self._named({name: member}, state=state)])
                elif self._is_code(member) or self._is_user_class(type(member)) or member is sys.modules:
                    self._later.append(member)
                else:
                    self._check_finder(member)
        return data

    def _check_finder(self, value: Any) -> None:
        if any(value is finder for finder in _FINDERS):
            self.doubts.add(f"it uses {value.__name__}")

    def _module(self, module: ModuleType) -> Any:
        """Return data for a module. In a module of the user, all functions and classes count."""
        if module is sys.modules["__main__"]:
            self.doubts.add("it uses the module __main__")
        if module is sys.modules["__main__"] or not _is_user_module(module):
            return ["module", module.__name__]
        members: list[Any] = []
        for name, member in sorted(vars(module).items()):
            if isinstance(member, FunctionType) and self._is_code(member) and id(member) not in self._seen:
                self._seen[id(member)] = (len(self._seen), member)
                members.append([name, self._function(member, name)])
            elif not name.startswith("__") and type(member) not in _PLAIN:
                self._later.append(member)
        return ["module", module.__name__, members]

    def _imported(self, facts: _Facts, package: str) -> list[Any]:
        """Return the digests of the files of the user's modules that code imports, also indirectly."""
        data: list[Any] = []
        todo = deque((package, imported) for imported in sorted(facts.imports))
        while todo:
            name = _absolute(*todo[0])
            members = todo.popleft()[1].members
            for dotted in (*_with_parents(name), *(f"{name}.{member}" for member in members)):
                if dotted in self._files:
                    continue
                file = self._files[dotted] = _user_file_of(dotted)
                if file:
                    self._count(self._files)
                    text, others = _file_facts(file, Path(file).stat().st_mtime_ns)
                    data.append([dotted, text])
                    is_package = file.endswith("__init__.py")
                    inner = dotted if is_package else dotted.rpartition(".")[0]
                    todo.extend((inner, imported) for imported in sorted(others))
                    if is_package:
                        todo.append(("", _Import(0, dotted, tuple(sorted(facts.attributes)))))
                module = sys.modules.get(dotted)
                if module is not None and _is_user_module(module):
                    data += self._each(_patched(module, file))
        return data

    def _class(self, kind: type) -> Any:
        if not self._is_user_class(kind):
            self._check_finder(kind)
            return ["class", kind.__module__, kind.__qualname__]
        members: list[Any] = []
        for name, member in sorted(vars(kind).items()):
            if isinstance(member, FunctionType) and id(member) not in self._seen:
                self._seen[id(member)] = (len(self._seen), member)
                members.append([name, self._function(member, name)])
            elif name in self.attributes:
                self._state(member)
            elif name not in _OF_CLASSES:
                members.append([name, self.of(member)])
        return ["class", kind.__qualname__, self._each((type(kind), *kind.__bases__)), members]

    def _instance(self, value: Any, kind: type, *, strict: bool) -> Any:
        attributes = dict(getattr(value, "__dict__", None) or {})
        self._later.append(value)
        base: Any = next(
            (base_class for base_class in kind.__mro__ if base_class in _PLAIN or base_class in _CONTAINERS),
            None,
        )
        if base in _CONTAINERS and self.with_state:
            self.state.append(self._each(_in_order(value, base), strict=strict))
        if not self._is_user_class(kind):
            if isinstance(value, _HOLDERS) and self.with_state:
                self.state.append(self._named(attributes))
            is_itself = (
                strict
                and kind not in _CONTAINERS
                and "__wrapped__" not in attributes
                and not kind.__module__.startswith(_OURS)
            )
            return ["object", kind.__module__, kind.__qualname__, _token(value) if is_itself else ""]
        for name in (
            name for base_class in kind.__mro__ for name in _listed(vars(base_class).get("__slots__", ()))
        ):
            with suppress(AttributeError):  # not set
                attributes[name] = getattr(value, name)
        state = {
            name
            for name in attributes
            if isinstance(inspect.getattr_static(kind, name, None), cached_property)
        }
        data = [self.of(kind), self._named(attributes, strict=strict, state=self.attributes | state)]
        if base in _PLAIN:
            data.append(base.__repr__(value))
        elif base in _FIXED:
            data.append(self._each(_in_order(value, base), strict=strict))
        return ["object", *data]


def _in_order(container: Any, kind: type | None = None) -> list[Any]:
    """Return the items of a container in the same order in each process. Calls no method of a user's class."""
    kind = kind or type(container)
    if kind in _MAPPINGS:
        return list(chain.from_iterable(list(kind.items(container))))
    items = list(kind.__iter__(container))  # type: ignore[attr-defined]
    return sorted(items, key=_rank) if kind in _SETS else items


def _rank(value: Any) -> tuple[str, ...]:
    if type(value) in _PLAIN or type(value) in _CONTAINERS:
        return (type(value).__qualname__, repr(value))
    place = (getattr(value, name, "") for name in ("__module__", "__qualname__"))
    code = getattr(value, "__code__", None)
    return (type(value).__qualname__, *map(str, place), str(getattr(code, "co_firstlineno", "")))


def _enclosed(function: FunctionType) -> list[Any]:
    """Return the values that a function holds."""
    cells = map(_content, function.__closure__ or ())
    named = (function.__kwdefaults__ or {}, vars(function))
    return [*cells, *(function.__defaults__ or ()), *(value for values in named for value in values.values())]


def _listed(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return None


def _is_user_file(name: str) -> bool:
    """Return True unless a file is of the standard library, of an installed package, or of this package."""
    return not (name.startswith((*_STDLIB, _PACKAGE)) or _INSTALLED.search(name))


def _is_user_module(module: ModuleType) -> bool:
    """Return True for a module of the user, or one without a file."""
    file, spec = (vars(module).get(name) for name in ("__file__", "__spec__"))  # this loads no lazy module
    if file is not None:
        return _is_user_file(file)
    return spec is None or any(
        _is_user_file(f"{folder}/") for folder in spec.submodule_search_locations or ()
    )


def _is_user_name(module: str | None) -> bool:
    """Return True for the name of a user module, and for a missing name, as of code that `exec` runs."""
    loaded = sys.modules.get(module or "")
    return module in {"__main__", "builtins"} or loaded is None or _is_user_module(loaded)


def _is_user_function(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    is_generated = file.startswith("<") and not file.startswith("<frozen ")
    return _is_user_name(function.__module__) if is_generated else _is_user_file(file)


def _is_user_class(kind: type) -> bool:
    if not kind.__flags__ & _HEAP_TYPE:
        return False
    functions = [function for function in vars(kind).values() if isinstance(function, FunctionType)]
    return _is_user_name(kind.__module__) or any(
        _is_user_function(function) for function in functions if function.__code__.co_filename != "<string>"
    )


_tokens: dict[int, tuple[Callable[[], Any], str]] = {}


def _token(value: Any) -> str:
    """Return a text that identifies one object of this process. No later object gets the same text."""
    number = id(value)
    reference, token = _tokens.get(number, (lambda: None, ""))
    if reference() is value:
        return token
    token = secrets.token_hex(8)
    try:
        reference = weakref.ref(value, lambda _: _tokens.pop(number, None))
    except TypeError:
        reference = partial(_same, value)  # it stays alive, and no other object gets its id
    _tokens[number] = (reference, token)
    return token


def _same(value: Any) -> Any:
    return value


@lru_cache(maxsize=4_096)
def _facts(code: CodeType) -> _Facts:
    sets: dict[str, set[Any]] = {name: set() for name in _Facts.__slots__ if name != "text"}
    for each in _with_inner(code):
        sets["attributes"].update(
            constant for constant in each.co_consts if isinstance(constant, str) and constant.isidentifier()
        )
        before: list[Any] = [0, None]
        by_text = _globals_by_text(each)
        sets["names"].update(by_text.values())
        for instruction in dis.get_instructions(each):
            if instruction.offset in by_text:
                continue
            if instruction.opname in _OPCODES and isinstance(instruction.argval, str):
                sets[_OPCODES[instruction.opname]].add(instruction.argval)
            elif instruction.opname == "STORE_DEREF" and instruction.argval in each.co_freevars:
                sets["assigned_cells"].add(instruction.argval)
            elif instruction.opname == "IMPORT_NAME":
                sets["imports"].add(_Import(before[-2], instruction.argval, before[-1] or ()))
            if instruction.opname != "EXTENDED_ARG":
                before = [before[-1], instruction.argval]
    if code.co_name in _MAKERS:
        sets["assigned_attributes"].clear()
    return _Facts(_text(code), **{name: frozenset(names) for name, names in sets.items()})


def _globals_by_text(code: CodeType) -> dict[int, str]:
    """Return the names that code reads as `globals()["name"]`, by the offset at which it loads `globals`."""
    names = {}
    instructions = [
        instruction
        for instruction in dis.get_instructions(code)
        if instruction.opname not in {"PRECALL", "PUSH_NULL", "EXTENDED_ARG"}
    ]
    for first, call, name, read in zip(
        instructions, instructions[1:], instructions[2:], instructions[3:], strict=False
    ):
        is_call = first.opname == "LOAD_GLOBAL" and first.argval == "globals" and call.opname == "CALL"
        is_read = read.opname == "BINARY_SUBSCR" or read.argrepr == "[]"
        if (
            is_call
            and call.arg == 0
            and is_read
            and isinstance(name.argval, str)
            and name.opname == "LOAD_CONST"
        ):
            names[first.offset] = name.argval
    return names


def _with_inner(code: CodeType) -> Iterable[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _text(code: CodeType) -> str:
    """Return the identity of code: its source, if the running code has that source; otherwise the bytecode.

    Source is the same for each version of Python. But it comes from the current file, which may have changed.
    """
    with suppress(OSError, TypeError, SyntaxError, ValueError, RecursionError):
        lines, start = inspect.findsource(code)
        same_line = _compiled("".join(lines)).get((code.co_qualname, code.co_firstlineno), [])
        if code in same_line:  # several lambdas may share a line
            return digest(["".join(inspect.getblock(lines[start:])), same_line.index(code)])
    return digest(_bytecode(code))


@lru_cache(maxsize=32)
def _compiled(source: str) -> dict[tuple[str, int], list[CodeType]]:
    codes: dict[tuple[str, int], list[CodeType]] = {}
    for code in _with_inner(compile(source, "<source>", "exec", dont_inherit=True)):
        codes.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
    return codes


def _bytecode(value: Any) -> Any:
    """Return code, or one of its constants, as data."""
    if isinstance(value, CodeType):
        about = (
            value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags, value.co_names,
            value.co_varnames, value.co_freevars, value.co_cellvars, value.co_exceptiontable.hex(),
        )  # fmt: skip
        return [value.co_code.hex(), repr(about), [_bytecode(constant) for constant in value.co_consts]]
    if isinstance(value, tuple | frozenset):
        items = [_bytecode(item) for item in value]
        return [type(value).__name__, items if isinstance(value, tuple) else sorted(map(digest, items))]
    return [type(value).__name__, f"{value:x}" if type(value) is int else repr(value)]


def _absolute(package: str, imported: _Import) -> str:
    """Return the full name of an imported module."""
    parents = package.split(".")[: len(package.split(".")) - imported.level + 1] if imported.level else []
    return ".".join([*parents, *filter(None, [imported.name])])


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _user_file_of(name: str) -> str:
    """Return the file of a module of the user; empty if there is none. Imports nothing."""
    root, *inner = name.split(".")
    loaded: Any = sys.modules.get(root)
    spec = getattr(loaded, "__spec__", None)
    if loaded is None and root:
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(root)
    origin = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
    if not inner:
        return origin if origin and _is_user_file(origin) and Path(origin).is_file() else ""
    for folder in getattr(spec, "submodule_search_locations", None) or ():
        place = Path(folder, *inner)
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if _is_user_file(str(file)) and file.is_file():
                return str(file)
    return ""


@lru_cache(maxsize=1_024)
def _file_facts(file: str, _changed_at: int) -> tuple[str, frozenset[_Import]]:
    """Return the digest of a file, and the imports in its code."""
    data = Path(file).read_bytes()
    imports: frozenset[_Import] = frozenset()
    with suppress(SyntaxError, ValueError, RecursionError):
        imports = _facts(compile(data, file, "exec", dont_inherit=True)).imports
    return digest(data.hex()), imports


def _patched(module: ModuleType, file: str) -> list[FunctionType]:
    """Return the functions of a loaded module that come from a cell instead of a file."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    user_classes = [user_class for user_class in classes if user_class.__module__ == module.__name__]
    members = chain.from_iterable(vars(holder).values() for holder in (module, *user_classes))
    functions = [value for value in members if isinstance(value, FunctionType) and _is_user_function(value)]
    of_file: dict[tuple[str, int], list[CodeType]] = {}
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        of_file = _compiled(Path(file).read_text(encoding="utf-8"))

    def is_put(code: CodeType) -> bool:
        if code.co_filename != file:
            return not Path(code.co_filename).is_file()
        return code not in of_file.get((code.co_qualname, code.co_firstlineno), [])

    return [function for function in functions if is_put(function.__code__)]
