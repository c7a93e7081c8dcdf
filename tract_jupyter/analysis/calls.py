"""Values of calls: getattr, imports by name, constant folds, and the user's own functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis import folding
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import patterns_of, words
from tract_jupyter.analysis.values import ANY_MODULE, UNKNOWN, Value, canonical, constant, named, union

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.analysis.resolver import Resolver


GETATTR = frozenset({"builtins.getattr", "inspect.getattr_static", "builtins.object.__getattribute__"})
IMPORTERS = words("""
    builtins.__import__ importlib.import_module importlib.__import__ pkgutil.resolve_name pydoc.locate
    pydoc.safeimport IPython.utils.importstring.import_item imp.load_module
""")
LOADERS = frozenset({"load_module", "exec_module", "find_module"})
"""Methods of import loaders, on any object."""

MAX_SPREAD = 64
_READS_MAPPING = frozenset({"get", "pop", "__getitem__", "setdefault"})
_WITHOUT_OWNER = LOADERS | _READS_MAPPING
_PASS_ON = words("list tuple set sorted reversed iter next dict", "builtins.")
_CARRIERS = frozenset(
    name + suffix
    for name in ("os", "sys", "subprocess", "builtins", "shutil", "socket", "ctypes", "importlib", ANY_MODULE)
    for suffix in ("", ".__dict__")
)
"""Modules to follow through unknown functions: ``nullcontext(os)`` may be os."""

_PATH_METHODS = words("""
    joinpath resolve expanduser absolute glob rglob iterdir with_name with_suffix relative_to home cwd rename replace
    readlink
""")
_ENVIRONMENTS = frozenset({"os.environ", "os.environb"})
_JOINS = frozenset({"pathlib.Path.joinpath", "pathlib.Path.__truediv__", "operator.truediv", "os.path.join"})
_COLLECTED = frozenset({"pathlib.Path()", "psutil.Process()"})
"""Objects whose collections have the same dotted name as one of them."""

_MODULE_TABLES = frozenset(
    {"sys.modules", "sys.modules.values()", "sys.modules.items()", "sys.modules.copy()", "gc.get_objects()"}
)


def lookup(owner: Value, key: Value) -> Value:
    """Return the possible items of a mapping: ``sys.modules[...]``, ``vars(os)[...]``, a dict display."""
    items: list[Value] = []
    if owner.entries is not None:
        matching = [member for known, member in owner.entries if not key.consts or known in key.consts]
        items.extend(matching or [member for _, member in owner.entries])
    if owner.items is not None:
        items.extend(owner.items)
    for name in owner.names:
        if name in _MODULE_TABLES:
            items.append(named(*(canonical(text) for text in key.texts)) if key.texts else named(ANY_MODULE))
        elif name.endswith(".__dict__"):
            owner_name = name.removesuffix(".__dict__")
            known = [canonical(f"{owner_name}.{text}") for text in key.texts]
            items.append(named(*known) if known else named(ANY_MODULE))
        elif name in _COLLECTED or name in effects().words.get("collected", ()):
            items.append(Value(owner.names, owner.consts))
        elif _has_items(name):
            items.append(named(f"{name}[]"))
        elif name in effects().values:
            items.append(constant(effects().values[name]))
        elif name in _ENVIRONMENTS:
            items.append(_variable(key))
    return union(items)


def _has_items(name: str) -> bool:
    """Return True if the items of an object act like the object: clients, and commands such as ``rm["-rf"]``."""
    root, called, _ = name.partition("()")
    return _is_of("starts-program", root) or (bool(called) and _is_of("talks-to-network", root))


@derived
def _is_of(rule: str, name: str) -> bool:
    """Return True if the tables list a function, a class or its module for a rule."""
    return not effects().symbols[rule].keys().isdisjoint(patterns_of(name))


def _variable(key: Value) -> Value:
    """Return the value of an environment variable that is the same everywhere, such as ``HOME``."""
    known = effects().values
    return constant(*(known.get(f"os.environ.{text}") for text in key.texts))


def call_value(resolver: Resolver, node: ast.Call) -> Value:
    """Evaluate a call."""
    function = node.func
    target = resolver.value(function)
    arguments = _arguments(resolver, node) if node.args else []
    results: list[Value] = []
    if isinstance(function, ast.Attribute):
        owner = resolver.value(function.value)
        if owner is not UNKNOWN or function.attr in _WITHOUT_OWNER:
            results.append(_method(owner, function.attr, arguments))
        if function.attr == "format" and node.keywords:
            named_arguments = {each.arg: resolver.value(each.value) for each in node.keywords if each.arg}
            results.append(folding.formatted(owner, arguments, named_arguments))
    if target is not UNKNOWN:
        results += [resolver.returned(own) for own in target.functions]
        if target.classes:
            results.append(resolver.instance(target.classes))
        results += [_called(name, arguments) for name in target.names]
    if "builtins.dict" in target.names and node.keywords:
        results.append(
            Value(entries=tuple((each.arg or "", resolver.value(each.value)) for each in node.keywords))
        )
    if not target.functions:
        results += [named(*argument.names & _CARRIERS) for argument in arguments if argument.names]
    value = union(results) if results else UNKNOWN
    if (node.args or node.keywords) and not target.functions:
        value = value._replace(made=(*value.made, node))
    return value._replace(guessed=True) if target.guessed and not value.guessed else value


def _called(name: str, arguments: list[Value]) -> Value:
    special = _SPECIAL.get(name)
    if special is not None:
        return special(arguments)
    return _got(name, arguments) if "|" in name else _known(name, arguments)


def _got(name: str, arguments: list[Value]) -> Value:
    """Return the value of ``attrgetter("a.b")(x)`` and similar calls. The getter's name ends with the attribute."""
    getter, _, text = name.partition("|")
    if not arguments:
        return UNKNOWN
    if getter == "operator.itemgetter()":
        return lookup(arguments[0], constant(text))
    return attribute_of(arguments[0], constant(text))


def _getter(name: str) -> Callable[[list[Value]], Value]:
    def made(arguments: list[Value]) -> Value:
        texts = arguments[0].texts if arguments else ()
        return named(f"{name}()", *(f"{name}()|{text}" for text in texts))

    return made


def _reduced(arguments: list[Value]) -> Value:
    """Evaluate ``reduce(getattr, ["path", "join"], os)``, and the same with paths."""
    if len(arguments) < 3 or arguments[1].items is None:  # noqa: PLR2004 - function, sequence, start
        return UNKNOWN
    if not arguments[0].names.isdisjoint(_JOINS):
        return Value(arguments[2].names, folding.join_path([arguments[2], *arguments[1].items]).consts)
    if arguments[0].names.isdisjoint(GETATTR):
        return UNKNOWN
    result = arguments[2]
    for step in arguments[1].items:
        result = attribute_of(result, step)
    return result


def _arguments(resolver: Resolver, node: ast.Call) -> list[Value]:
    arguments: list[Value] = []
    for argument in node.args:
        value = resolver.value(argument)
        spread = isinstance(argument, ast.Starred) and value.items is not None
        arguments.extend(value.items[:MAX_SPREAD] if spread and value.items is not None else [value])
    return arguments


def _method(owner: Value, name: str, arguments: list[Value]) -> Value:
    if name in LOADERS:
        return named(*(canonical(text) for text in arguments[0].texts)) if arguments else UNKNOWN
    if name in _READS_MAPPING and arguments:
        return union((lookup(owner, arguments[0]), *arguments[1:2]))
    if name == "__getattribute__" and arguments:
        return attribute_of(owner, arguments[0])
    if name in _OF_DICTS and owner.entries is not None:
        return _OF_DICTS[name](owner)
    if "pathlib.Path()" in owner.names and name in _PATH_METHODS:
        return Value(owner.names, folding.join_path([owner, *arguments]).consts)
    return folding.method(owner, name, arguments) if owner.consts else UNKNOWN


def _dict_values(owner: Value) -> Value:
    return Value(items=tuple(member for _, member in owner.entries or ()), entries=owner.entries)


def _dict_items(owner: Value) -> Value:
    return Value(items=tuple(Value(items=(constant(key), member)) for key, member in owner.entries or ()))


_OF_DICTS: dict[str, Callable[[Value], Value]] = {
    "values": _dict_values,
    "copy": _dict_values,
    "items": _dict_items,
}


def attribute_of(owner: Value, name: Value) -> Value:
    """Return the possible values of ``getattr(owner, name)``."""
    return named(*(canonical(f"{dotted}.{text}") for dotted in owner.names for text in name.texts))


def _known(name: str, arguments: list[Value]) -> Value:
    if name in {"os.getenv", "os.getenvb"} and arguments and _variable(arguments[0]) is not UNKNOWN:
        return _variable(arguments[0])
    if name in _PASS_ON or name in effects().words.get("pass_on", ()):
        return arguments[0] if arguments else UNKNOWN
    if name in IMPORTERS:
        return _imported(arguments)
    base, _, last = name.rpartition(".")
    if base == "pathlib.Path" and last in _PATH_METHODS:
        return Value(named("pathlib.Path()").names, (folding.known_value(f"{name}()") or ".",))
    instance = _instance(name)
    folded = folding.call(name, arguments)
    return Value(instance.names, folded.consts) if folded.consts else instance


@derived
def _instance(name: str) -> Value:
    dotted = canonical(f"{name}()")
    return Value(named(dotted).names, constant(folding.known_value(dotted)).consts)


def _imported(arguments: list[Value]) -> Value:
    texts = arguments[0].texts if arguments else ()
    return named(*(canonical(text.replace(":", ".")) for text in texts)) if texts else named(ANY_MODULE)


def _getattr(arguments: list[Value]) -> Value:
    return attribute_of(arguments[0], arguments[1]) if len(arguments) > 1 else UNKNOWN


def _vars(arguments: list[Value]) -> Value:
    if not arguments:
        return named("builtins.globals()")
    return named(*(f"{name}.__dict__" for name in arguments[0].names))


def _mapped(arguments: list[Value]) -> Value:
    """Fold ``map(chr, [47, 101])``."""
    if len(arguments) < 2 or arguments[1].items is None:  # noqa: PLR2004 - the function and one iterable
        return UNKNOWN
    if not arguments[0].names.isdisjoint(GETATTR) and len(arguments) > 2 and arguments[2].items is not None:  # noqa: PLR2004
        pairs = zip(arguments[1].items, arguments[2].items, strict=False)
        return Value(items=tuple(attribute_of(owner, name) for owner, name in pairs))
    return Value(
        items=tuple(
            union(
                _got(name, [member]) if "|" in name else folding.call(name, [member])
                for name in arguments[0].names
            )
            for member in arguments[1].items
        )
    )


def _members(arguments: list[Value]) -> Value:
    """Evaluate ``inspect.getmembers(module)`` like the module's ``__dict__``."""
    return named(*(f"{name}.__dict__" for name in arguments[0].names)) if arguments else UNKNOWN


def _next(arguments: list[Value]) -> Value:
    if not arguments or arguments[0].items is None:
        return arguments[0] if arguments else UNKNOWN
    return union([arguments[0], *arguments[0].items])


def _found(arguments: list[Value]) -> Value:
    """Evaluate ``glob.glob``. Its results are in the folder of the pattern."""
    return Value(items=(Value(consts=arguments[0].consts),)) if arguments else UNKNOWN


def _walked(arguments: list[Value]) -> Value:
    """Evaluate ``os.walk``, which yields the folder first."""
    return Value(items=(Value(items=(Value(consts=arguments[0].consts),)),)) if arguments else UNKNOWN


def _module_of(arguments: list[Value]) -> Value:
    """Evaluate ``inspect.getmodule(tempfile.mkstemp)``."""
    names = arguments[0].names if arguments else ()
    return named(*(name.rpartition(".")[0] or name for name in names)) if names else named(ANY_MODULE)


def _reversed(arguments: list[Value]) -> Value:
    if arguments and arguments[0].items is not None:
        return Value(items=arguments[0].items[::-1])
    return folding.part(arguments[0], (None, None, -1)) if arguments else UNKNOWN


_SPECIAL: dict[str, Callable[[list[Value]], Value]] = {
    **dict.fromkeys(GETATTR, _getattr),
    "builtins.vars": _vars,
    "builtins.next": _next,
    **dict.fromkeys(("glob.glob", "glob.iglob"), _found),
    **dict.fromkeys(("os.walk", "os.fwalk"), _walked),
    "functools.reduce": _reduced,
    "inspect.getmembers": _members,
    "inspect.getmodule": _module_of,
    **{
        name: _getter(name)
        for name in ("operator.attrgetter", "operator.itemgetter", "operator.methodcaller")
    },
    "builtins.map": _mapped,
    "builtins.reversed": _reversed,
}
