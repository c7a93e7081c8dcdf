"""The identity of the code that a tool runs, as data that can be hashed.

The walk begins at the handler and follows what Python follows: `__wrapped__`, closures, defaults, the values of a
`partial`, the instance of a bound method, and the functions and classes that the user's code names, also in the user's
modules. Of libraries, only names count, with the values that their functions enclose and the user's code in their
objects.

* Values that cannot change in place count: numbers, text, paths, dates. So do attributes of the user's objects. A
  variable or an attribute that the reached code assigns is state and does not count.
* What lists, dicts and sets hold is state too. It counts as it is when a tool is first examined (`with_state`).
* An object of a library that the handler encloses or is bound to counts as itself: another object, or the same one in
  another process, makes another identity. As a global variable, it counts with its type.
"""

from __future__ import annotations

import dis
import importlib.util
import inspect
import re
import secrets
import sys
import sysconfig
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache, partial, partialmethod
from itertools import chain
from pathlib import Path, PurePath
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tract_jupyter.models import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_MOST_OBJECTS: Final = 20_000
_STDLIB: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen ")
_INSTALLED: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_PACKAGE: Final = str(Path(__file__).parents[1])
_PLAIN: Final = frozenset({
    bool, int, float, complex, str, bytes, range, type(None), type(...), Decimal, Fraction, UUID, re.Pattern, timedelta,
})  # fmt: skip
_PLAIN_BASES: Final = (PurePath, date, time, tzinfo)
_CONTAINERS: Final = (list, tuple, set, frozenset, deque, dict, MappingProxyType)
_MAPPINGS: Final = (dict, MappingProxyType)
_SETS: Final = (set, frozenset)
_FIXED: Final = (tuple, frozenset)
_CODE: Final = (FunctionType, MethodType, partial, partialmethod)
_DESCRIPTORS: Final = (staticmethod, classmethod, property, cached_property)
_HEAP_TYPE: Final = 1 << 9  # CPython's flag of a class that a `class` statement made
_OF_CLASSES: Final = frozenset({
    "__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__annotations__", "__qualname__",
})  # fmt: skip
_OURS: Final = "tract_jupyter."
_MAKERS: Final = frozenset({"__init__", "__new__", "__post_init__"})  # their assignments are no state yet
_OPCODES: Final = {
    "LOAD_GLOBAL": "names", "LOAD_NAME": "names", "LOAD_FROM_DICT_OR_GLOBALS": "names", "IMPORT_NAME": "modules",
    "LOAD_ATTR": "attributes", "LOAD_METHOD": "attributes", "LOAD_SUPER_ATTR": "attributes",
    "IMPORT_FROM": "attributes", "STORE_GLOBAL": "assigned", "DELETE_GLOBAL": "assigned",
    "STORE_ATTR": "assigned_attributes", "DELETE_ATTR": "assigned_attributes",
}  # fmt: skip


def code_identity(
    handler: Callable[..., Any], *, with_state: bool = False, with_objects: bool = False
) -> str:
    """Return the identity of a handler's code, 64 hex digits.

    Args:
        handler: a callable.
        with_state: include what lists, dicts and sets hold now.
        with_objects: tell apart the objects of libraries that the handler encloses or is bound to.
    """
    first = _Walk()
    try:
        first.of(handler, strict=True)  # only finds the assignments
        variables, attributes = first.assigned()
        walk = _Walk(frozenset(variables), frozenset(attributes), with_state=with_state)
        return digest([walk.of(handler, strict=with_objects), walk.state])
    except RecursionError:  # too large or too deep: the handler counts as itself
        return digest(_token(handler))


@dataclass(frozen=True, slots=True)
class _Facts:
    """The references of one piece of code, with the code within it.

    Attributes:
        text: tells the code from other code.
        names: global names that it reads.
        attributes: attributes that it reads.
        modules: modules that it imports.
        assigned: variables outside of it that it assigns.
        assigned_attributes: attributes that it assigns.
    """

    text: str
    names: frozenset[str]
    attributes: frozenset[str]
    modules: frozenset[str]
    assigned: frozenset[str]
    assigned_attributes: frozenset[str]


@dataclass
class _Walk:
    """One walk over a handler and the code that it reaches.

    Attributes:
        variables, attributes: names that do not count, since the code assigns them.
        state: what containers hold, if it counts.
        functions: facts of the functions on the way.
        methods: facts of the methods, by name.
    """

    variables: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    with_state: bool = False
    state: list[Any] = field(default_factory=list)
    functions: list[_Facts] = field(default_factory=list)
    methods: list[tuple[str, _Facts]] = field(default_factory=list)
    _seen: dict[int, tuple[int, Any]] = field(
        default_factory=dict
    )  # holds the objects, because a dead object's id is used again

    def assigned(self) -> tuple[set[str], set[str]]:
        """Return the variables and attributes that the functions assign, and the methods that are called by name."""
        reached, others = list(self.functions), list(self.methods)
        while True:
            called = {name for one in reached for name in one.attributes}
            now = [facts for name, facts in others if name in called or name == "__call__"]
            if not now:
                break
            others = [(name, facts) for name, facts in others if facts not in now]
            reached += now
        return (
            {name for one in reached for name in one.assigned},
            {name for one in reached for name in one.assigned_attributes},
        )

    def of(self, value: Any, *, strict: bool) -> Any:
        """Return data that identifies a value.

        Args:
            value: anything.
            strict: an object of a library counts as itself.
        """
        kind = type(value)
        if kind in _PLAIN or (isinstance(value, _PLAIN_BASES) and not _is_user_class(kind)):
            return [kind.__qualname__, f"{value:x}" if kind is int else repr(value)]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        if id(value) in self._seen:
            return ["seen", self._seen[id(value)][0]]
        if len(self._seen) >= _MOST_OBJECTS:
            raise RecursionError
        self._seen[id(value)] = (len(self._seen), value)
        if isinstance(value, FunctionType | type):
            return (
                self._function(value, strict=strict)
                if isinstance(value, FunctionType)
                else self._class(value)
            )
        if kind in _CONTAINERS:
            return self._container(value, kind, strict=strict)
        parts = self._parts(value, strict=strict)
        return self._instance(value, kind, strict=strict) if parts is None else [kind.__qualname__, *parts]

    def _parts(self, value: Any, *, strict: bool) -> list[Any] | None:
        """Return the parts of an object that Python makes of code; None for another object."""
        if isinstance(value, Enum):
            return [self.of(type(value), strict=False), value.name, self.of(value.value, strict=False)]
        if isinstance(value, MethodType):
            return self._each((value.__func__, value.__self__), strict=strict)
        if isinstance(value, (partial, partialmethod)):
            parts = self._each((value.func, *value.args), strict=strict)
            return [parts, self._named(value.keywords, strict=strict)]
        if isinstance(value, _DESCRIPTORS):
            names = ("__func__", "fget", "fset", "fdel", "func")
            return self._each((getattr(value, name, None) for name in names), strict=False)
        if inspect.isroutine(value) and not hasattr(value, "__wrapped__"):  # of C
            owner = getattr(value, "__self__", None)
            return [getattr(value, "__module__", ""), value.__qualname__, self.of(owner, strict=strict)]
        return None

    def _each(self, values: Iterable[Any], *, strict: bool) -> list[Any]:
        return [self.of(one, strict=strict) for one in values]

    def _named(
        self, values: Mapping[Any, Any], *, strict: bool, ignored: frozenset[str] = frozenset()
    ) -> list[Any]:
        names = sorted(name for name in values if isinstance(name, str) and name not in ignored)
        return [[name, self.of(values[name], strict=strict)] for name in names]

    def _code_in(self, values: Iterable[Any]) -> list[Any]:
        return self._each([one for one in values if _has_code(one)], strict=False)

    def _function(self, function: FunctionType, name: str = "", *, strict: bool = False) -> Any:
        code = function.__code__
        cells = [_content(cell) for cell in function.__closure__ or ()]
        if not _is_user_file(code.co_filename):
            is_ours = code.co_filename.startswith(_PACKAGE)
            text = _facts(code).text if is_ours else f"{function.__module__}.{function.__qualname__}"
            values = [one for one in [*cells, *vars(function).values()] if _is_value(one) or _has_code(one)]
            return ["function", text, self._each(values, strict=False)]
        facts = _facts(code)
        if name:
            self.methods.append((name, facts))
        else:
            self.functions.append(facts)
        closure = dict(zip(code.co_freevars, cells, strict=True))
        return [
            "function",
            facts.text,
            self._named(closure, strict=strict, ignored=self.variables),
            self._each(function.__defaults__ or (), strict=strict),
            self._named(function.__kwdefaults__ or {}, strict=strict),
            self._named(dict(vars(function)), strict=strict, ignored=self.attributes),
            *self._reached(function.__globals__, facts),
        ]

    def _reached(self, names: dict[str, Any], facts: _Facts) -> Iterable[Any]:
        """Yield what code reaches by global names, also in the user's modules."""
        found = {name: names[name] for name in facts.names if name in names}
        yield self._named(found, strict=False, ignored=self.variables)
        for _, module in sorted(found.items()):
            if isinstance(module, ModuleType) and _is_user_file(
                getattr(module, "__file__", None) or "<frozen "
            ):
                members = {name: vars(module)[name] for name in facts.attributes if name in vars(module)}
                yield [module.__name__, self._named(members, strict=False, ignored=self.attributes)]
        yield [[name, _file_digest(name)] for name in sorted(facts.modules)]

    def _class(self, made: type) -> Any:
        if not _is_user_class(made):
            return ["class", made.__module__, made.__qualname__]
        told: list[Any] = []
        for name, member in sorted(vars(made).items()):
            if isinstance(member, FunctionType) and id(member) not in self._seen:
                self._seen[id(member)] = (len(self._seen), member)
                told.append([name, self._function(member, name)])
            elif name not in self.attributes | _OF_CLASSES and (_is_value(member) or _has_code(member)):
                told.append([name, self.of(member, strict=False)])
        bases = self._each((type(made), *made.__bases__), strict=False)
        return ["class", made.__qualname__, bases, told]

    def _container(self, value: Any, kind: type, *, strict: bool) -> Any:
        """Return the code in a container; its other items belong to the state."""
        items = list(chain.from_iterable(list(value.items())) if kind in _MAPPINGS else value)
        if kind in _SETS:
            items.sort(key=lambda one: (type(one).__qualname__, repr(one) if _is_value(one) else ""))
        if kind in _FIXED:
            return [kind.__qualname__, self._each(items, strict=strict)]
        if self.with_state:
            self.state.append(self._each([one for one in items if not _has_code(one)], strict=strict))
        return [kind.__qualname__, self._code_in(items)]

    def _instance(self, value: Any, kind: type, *, strict: bool) -> Any:
        attributes = dict(getattr(value, "__dict__", None) or {})
        if not _is_user_class(kind):
            is_itself = strict and "__wrapped__" not in attributes and not kind.__module__.startswith(_OURS)
            code = self._code_in(attributes.values())
            return ["object", kind.__module__, kind.__qualname__, code, _token(value) if is_itself else ""]
        for name in (name for one in kind.__mro__ for name in _listed(vars(one).get("__slots__", ()))):
            with suppress(AttributeError):  # not set
                attributes[name] = getattr(value, name)
        told = [self.of(kind, strict=False), self._named(attributes, strict=strict, ignored=self.attributes)]
        base: Any = next((one for one in kind.__mro__ if one in _PLAIN or one in _CONTAINERS), None)
        if base in _PLAIN:
            told.append(base.__repr__(value))
        elif base is not None:
            items = dict.items(value) if base is dict else base.__iter__(value)  # not the class's own
            told.append(self._container(base(items), base, strict=strict))
        return ["object", *told]


def _is_value(value: Any) -> bool:
    return type(value) in _PLAIN or type(value) in _CONTAINERS


def _listed(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return None


def _has_code(value: Any) -> bool:
    """Return True if a value is the user's code, or an object that may hold some."""
    kind = type(value)
    if isinstance(value, (*_CODE, *_DESCRIPTORS)):
        return True
    if kind in _CONTAINERS:
        items = value.values() if kind in {dict, MappingProxyType} else value
        return any(isinstance(one, _CODE) or _is_user(one) for one in list(items))
    return _is_user(value) or "__wrapped__" in (getattr(value, "__dict__", None) or {})


def _is_user(value: Any) -> bool:
    return _is_user_class(value if isinstance(value, type) else type(value))


def _is_user_file(name: str) -> bool:
    """Return True unless a file is of the standard library, of an installed package, or of this package."""
    return not (name.startswith((*_STDLIB, _PACKAGE)) or _INSTALLED.search(name))


def _is_user_class(made: type) -> bool:
    if not made.__flags__ & _HEAP_TYPE:
        return False
    functions = (one.__code__ for one in vars(made).values() if isinstance(one, FunctionType))
    if any(_is_user_file(one.co_filename) and one.co_filename != "<string>" for one in functions):
        return True
    module = sys.modules.get(made.__module__)
    if made.__module__ == "builtins" or module is None:  # `exec` in a namespace without a name
        return True
    file = getattr(module, "__file__", None)
    return made.__module__ == "__main__" if file is None else _is_user_file(file)


_tokens: dict[int, tuple[Callable[[], Any], str]] = {}


def _token(value: Any) -> str:
    """Return a text that identifies one object of this process, and no later one."""
    number = id(value)
    held, token = _tokens.get(number, (lambda: None, ""))
    if held() is value:
        return token
    token = secrets.token_hex(8)
    try:
        held = weakref.ref(value, lambda _: _tokens.pop(number, None))
    except TypeError:
        held = partial(_same, value)  # it stays alive, and no other object gets its id
    _tokens[number] = (held, token)
    return token


def _same(value: Any) -> Any:
    return value


@lru_cache(maxsize=4_096)
def _facts(code: CodeType) -> _Facts:
    found: dict[str, set[str]] = {name: set() for name in _Facts.__slots__ if name != "text"}
    for each in _with_inner(code):
        for one in dis.get_instructions(each):
            if one.opname in _OPCODES and isinstance(one.argval, str):
                found[_OPCODES[one.opname]].add(one.argval)
            elif one.opname == "STORE_DEREF" and one.argval in each.co_freevars:
                found["assigned"].add(one.argval)
    if code.co_name in _MAKERS:
        found["assigned_attributes"].clear()
    return _Facts(_text(code), **{name: frozenset(names) for name, names in found.items()})


def _with_inner(code: CodeType) -> Iterable[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _with_inner(one)


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
    found: dict[tuple[str, int], list[CodeType]] = {}
    for one in _with_inner(compile(source, "<source>", "exec", dont_inherit=True)):
        found.setdefault((one.co_qualname, one.co_firstlineno), []).append(one)
    return found


def _bytecode(value: Any) -> Any:
    """Return code, or one of its constants, as data."""
    if isinstance(value, CodeType):
        about = (
            value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags, value.co_names,
            value.co_varnames, value.co_freevars, value.co_cellvars, value.co_exceptiontable.hex(),
        )  # fmt: skip
        return [value.co_code.hex(), repr(about), [_bytecode(one) for one in value.co_consts]]
    if isinstance(value, tuple | frozenset):
        told = [_bytecode(one) for one in value]
        return [type(value).__name__, told if isinstance(value, tuple) else sorted(map(digest, told))]
    return [type(value).__name__, f"{value:x}" if type(value) is int else repr(value)]


def _file_digest(name: str) -> str:
    """Return a digest of the file of a module that is imported while code runs; empty for one of a library."""
    loaded = sys.modules.get(name)
    file = getattr(loaded, "__file__", None)
    if loaded is None:
        with suppress(ImportError, ValueError, AttributeError):
            file = getattr(importlib.util.find_spec(name), "origin", None)
    if not file or not _is_user_file(file) or not Path(file).is_file():
        return ""
    return digest(Path(file).read_bytes().hex())
