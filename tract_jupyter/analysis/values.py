"""Abstract values: the possible dotted names, constants, members and user functions of an expression.

This is a *may* analysis. A value holds all possibilities that the code shows, and unknown parts add nothing. A name
that is ``os`` in one branch and a number in another one may be ``os``.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Collection, Iterable


MAX_NAME = 200

REACHABLE = words("os posix nt sys subprocess builtins shutil ctypes socket importlib pty gc")
"""Modules that are attributes of many modules: ``tempfile._os``, ``typing.sys``."""

_OWN_MEMBERS = frozenset({"asyncio.subprocess", "socket.socket"})
"""Names that look like such an attribute but are not."""

_WELL_KNOWN = """
    os sys subprocess shutil asyncio socket pickle ctypes pathlib importlib builtins gc inspect urllib posix
    pty multiprocessing marshal runpy glob io codecs tempfile requests httpx aiohttp urllib3 yaml joblib torch
    threading logging base64 itertools sqlite3 tarfile zipfile dill cloudpickle shelve webbrowser smtplib ftplib
    telnetlib http xmlrpc ssl signal resource atexit site pkgutil pydoc zipimport traceback types typing mmap cffi
    paramiko boto3 json operator functools mock
"""

ASSUMED = {
    **{name: name for name in _WELL_KNOWN.split()},
    "np": "numpy",
    "pd": "pandas",
    "Path": "pathlib.Path",
    "HTML": "IPython.display.HTML",
    "Markdown": "IPython.display.Markdown",
    "get_ipython": "IPython.get_ipython",
    "display": "IPython.display.display",
    "tools": "tools",
    "spark": "pyspark.sql.SparkSession()",
}
"""The most likely meanings of unbound names. An earlier cell probably imported them."""

GIVEN = {"pending": "tract_jupyter.pending()", "tract": "tract_jupyter.Tract()"}
"""Names that the notebook and an operation's action provide."""


@derived
def canonical(dotted: str) -> str:
    """Return the canonical form of a dotted name: ``os.system`` for ``tempfile._os.system`` and ``posix.system``.

    An unknown name is returned unchanged.
    """
    if len(dotted) > MAX_NAME:
        return dotted
    parts = dotted.split(".")
    for index in range(len(parts) - 1, 0, -1):
        carried = parts[index] if parts[index] == "__builtins__" else parts[index].lstrip("_")
        before = ".".join(parts[:index])
        if carried not in REACHABLE and carried != "__builtins__":
            continue
        if "()" not in before and f"{before}.{carried}" not in _OWN_MEMBERS:
            parts = [carried, *parts[index + 1 :]]
            break
    same = effects().same
    for length in range(len(parts), 0, -1):
        alias = same.get(".".join(parts[:length]))
        if alias is not None:
            return ".".join([alias, *parts[length:]])
    return ".".join(parts)


Const = str | bytes | int

HOLE = "\ue000"
"""The placeholder for an unknown piece of a string: a private-use character, which ordinary text never contains."""

ANY_MODULE = "?"
"""The dotted name of a module that was loaded by an unknown name."""

TOO_LONG = HOLE * 4097
"""The result of a fold that is too long."""

MAX_ALTERNATIVES = 8
MAX_CONST = 4096
"""The maximum size of a folded constant. A literal may be longer, and folds leave it unchanged."""
MAX_MEMBERS = 1024

_T = TypeVar("_T")


class Value(NamedTuple):
    """All possible values of an expression. The empty value means: unknown, or an object of the user.

    Attributes:
        names: Dotted names. An instance has the name of its class with ``()``: ``pathlib.Path()``.
        consts: Folded constants. Strings may contain ``HOLE``.
        items: Members of a tuple, list or set display.
        entries: Constant keys of a dict display, with their values.
        functions: The user's own functions and lambdas.
        guessed: True for an unbound name that was resolved to the module of the same name.
        classes: The user's own classes.
        objects: The user's own classes, if the value is an instance of them.
        made: The calls that created the value, with their arguments.
    """

    names: frozenset[str] = frozenset()
    consts: tuple[Const, ...] = ()
    items: tuple[Value, ...] | None = None
    entries: tuple[tuple[Const, Value], ...] | None = None
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, ...] = ()
    guessed: bool = False
    classes: tuple[ast.ClassDef, ...] = ()
    objects: tuple[ast.ClassDef, ...] = ()
    made: tuple[ast.Call, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The constants that are texts. Bytes count as text, because a path may be bytes."""
        if not self.consts:
            return ()
        return tuple(
            const if isinstance(const, str) else const.decode("utf-8", "replace")
            for const in self.consts
            if isinstance(const, (str, bytes))
        )


UNKNOWN = Value()


@lru_cache(maxsize=4096)
def named(*names: str) -> Value:
    """Return a value with these names; the unknown value if there are none."""
    if not names:
        return UNKNOWN
    return Value(names=frozenset(name for name in names if len(name) <= MAX_NAME))


def constant(*consts: Const | None) -> Value:
    """Return a value of folded constants. Leave out failed folds (None)."""
    folded = tuple([const for const in consts if const is not None and is_small(const)])
    if not folded:
        return UNKNOWN
    if len(folded) > 1:
        folded = tuple(dict.fromkeys(folded))[:MAX_ALTERNATIVES]
    return Value(consts=folded)


def is_small(const: Const) -> bool:
    """Return True if a constant is small enough for folds."""
    return const.bit_length() <= MAX_CONST if isinstance(const, int) else len(const) <= MAX_CONST


def union(values: Iterable[Value]) -> Value:
    """Return the union of all possibilities."""
    members = [value for value in values if value is not UNKNOWN]
    if len(members) <= 1:
        return members[0] if members else UNKNOWN
    return Value(
        names=frozenset().union(*(value.names for value in members)),
        consts=_alternatives(dict.fromkeys(const for value in members for const in value.consts)),
        items=_joined([value.items for value in members if value.items is not None]),
        entries=_joined([value.entries for value in members if value.entries is not None]),
        functions=tuple(dict.fromkeys(function for value in members for function in value.functions)),
        guessed=any(value.guessed for value in members),
        classes=tuple(dict.fromkeys(own for value in members for own in value.classes)),
        objects=tuple(dict.fromkeys(own for value in members for own in value.objects)),
        made=tuple(dict.fromkeys(call for value in members for call in value.made))[:MAX_ALTERNATIVES],
    )


_PATH = re.compile(r"[/~\\]|\.\.|[A-Za-z]:[/\\]")
_WORDS = re.compile(r"[^\n]{0,100}[\s;|&$`(*]")


def _alternatives(consts: Collection[Const]) -> tuple[Const, ...]:
    """Return the constants. If there are too many, keep paths and command lines, and `HOLE` for the others."""
    if len(consts) <= MAX_ALTERNATIVES:
        return tuple(consts)
    return (*sorted(consts, key=_rank)[: MAX_ALTERNATIVES - 1], HOLE)


def _rank(const: Const) -> int:
    if not isinstance(const, str):
        return 2
    return 0 if _PATH.match(const) else 1 if _WORDS.match(const) else 2


def _joined(parts: list[tuple[_T, ...]]) -> tuple[_T, ...] | None:
    return tuple(member for part in parts for member in part)[:MAX_MEMBERS] if parts else None


def lift(fold: Callable[..., Const | None], *values: Value) -> Value:
    """Apply a fold to every combination of constants. If a value has no constants, the result is unknown.

    If a text or the result is too long, the result is the set of its parts.
    """
    if any(not value.consts for value in values):
        return UNKNOWN
    results: list[Const] = []
    combinations = math.prod(len(value.consts) for value in values)
    for combination in islice(product(*(value.consts for value in values)), _MAX_COMBINATIONS):
        result = fold(*combination) if all(map(is_small, combination)) else TOO_LONG
        if result is not None and is_small(result):
            results.append(result)
        elif isinstance(result, (str, bytes)):
            results += [const for const in combination if const and not isinstance(const, int)]
    if combinations > _MAX_COMBINATIONS and results:
        results.append(HOLE)
    return Value(consts=_alternatives(dict.fromkeys(results))) if results else UNKNOWN


_MAX_COMBINATIONS = 16
