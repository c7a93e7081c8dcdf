"""Descriptions of values in a few words, without running code of the values' classes."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import counted, cut, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Collection

_LONGEST: Final = 60
_NAME_OF_CLASS: Final = type.__dict__["__name__"].__get__
"""Returns the name of a class, without code of its metaclass."""
_DRAWING: Final = ("matplotlib.", "mpl_toolkits.", "seaborn.")
_SIZED: Final = (
    "list", "tuple", "set", "frozenset", "dict", "deque", "Counter", "OrderedDict", "defaultdict",
)  # fmt: skip


def describe(value: Any) -> str:  # noqa: PLR0911 # one for each kind
    """Return the type, and the shape or a short value: `DataFrame, 432 × 4`, `list of 5`, `int 42`."""
    kind = type(value)
    library = str(getattr(kind, "__module__", "")).partition(".")[0]
    name = type_name(value)
    if kind in {int, float, bool, complex}:
        return _scalar(name, value)
    if kind is str:
        is_short = len(value) < _LONGEST
        return (
            f"str {one_line(repr(value), _LONGEST)}"
            if is_short
            else f"str, {counted(len(value), 'character')}"
        )
    if kind in {bytes, bytearray}:
        return f"{name}, {counted(len(value), 'byte')}"
    if value is None:
        return "None"
    if library in {"builtins", "collections"} and name in _SIZED:
        return f"{name} of {len(value):,}"
    if library in {"numpy", "pandas", "polars", "pyarrow"}:
        return _of_library(name, value)
    if kind is FunctionType or kind is BuiltinFunctionType:
        return f"function {cut(printable(value.__name__), _LONGEST)}"
    if issubclass(kind, type):
        return f"class {cut(printable(_NAME_OF_CLASS(value)), _LONGEST)}"
    if name == "module":
        return f"module {cut(printable(str(value.__dict__.get('__name__', ''))), _LONGEST)}"
    return name


def describe_type(value: Any) -> str:
    """Return the name of a function, a class or a module: `function sqrt`. For other values, see `describe`."""
    if isinstance(value, FunctionType | BuiltinFunctionType):
        return f"function {value.__name__}"
    if isinstance(value, type):
        return f"class {value.__name__}"
    return f"module {value.__name__}" if isinstance(value, ModuleType) else describe(value)


def is_drawing(value: Any, depth: int = 2) -> bool:
    """Return True for an object of matplotlib or seaborn, such as `Axes`, and for a container of such objects only."""
    if any(str(getattr(kind, "__module__", "")).startswith(_DRAWING) for kind in type(value).__mro__):
        return True
    if depth == 0:
        return False
    kind: type = type(value)
    parts: Collection[Any] = ()
    if kind in {list, tuple}:
        parts = value
    elif kind is dict:
        parts = value.values()
    elif kind.__module__ == "numpy" and kind.__name__ == "ndarray" and value.dtype.hasobject:
        parts = value.ravel().tolist()
    return bool(parts) and all(is_drawing(part, depth - 1) for part in parts)


def memory_of(value: Any) -> int:
    """Return about how many bytes a value needs. Attributes and nested containers are not counted."""
    library = str(getattr(type(value), "__module__", "")).partition(".")[0]
    if library == "pandas" and hasattr(value, "memory_usage"):
        is_frame = type(value).__name__ == "DataFrame"
        return int(sum(value.memory_usage(deep=False))) if is_frame else value.memory_usage()
    if library in {"numpy", "pyarrow"} and hasattr(value, "nbytes"):
        return int(value.nbytes)
    if library == "polars" and hasattr(value, "estimated_size"):
        return int(value.estimated_size())
    return sys.getsizeof(value, 0)


def type_name(value: Any) -> str:
    """Return the name of a value's type as short printable text."""
    return cut(printable(str(type(value).__name__)), _LONGEST)


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 200:  # noqa: PLR2004 # longer than a line
        return f"{name} of {value.bit_length():,} bits"
    return f"{name} {value!r}"


def _of_library(name: str, value: Any) -> str:
    shape = getattr(value, "shape", None)
    if name in {"DataFrame", "Table"} and isinstance(shape, tuple) and len(shape) == 2:  # noqa: PLR2004 # rows, columns
        return f"{name}, {shape[0]:,} × {shape[1]:,}"
    if isinstance(shape, tuple) and shape:
        kind = cut(printable(str(getattr(value, "dtype", ""))), _LONGEST)
        return f"{name}, {' × '.join(f'{length:,}' for length in shape)} {kind}".rstrip()
    if name in {"Timestamp", "Timedelta", "Period"} or shape == ():
        return f"{name} {one_line(str(value), _LONGEST)}"
    return name


def first_difference(one: str | bytes, other: str | bytes) -> int:
    """Return the position of the first difference between two texts, or the length of the shorter one."""
    first, last = 0, min(len(one), len(other))
    while first < last:
        middle = (first + last + 1) // 2
        first, last = (middle, last) if one[first:middle] == other[first:middle] else (first, middle - 1)
    return first


def tell_apart(one: str, other: str, limit: int) -> tuple[str, str]:
    """Return two texts as one line each of at most `limit` characters.

    The lines of different texts differ, even if they are cut.
    """
    shown = one_line(one, limit), one_line(other, limit)
    if shown[0] != shown[1] or one == other:
        return shown
    start = max(0, first_difference(one, other) - limit // 2)
    mark, parts = "…" if start else "", [text[start : start + limit] for text in (one, other)]
    shown = one_line(mark + parts[0], limit), one_line(mark + parts[1], limit)
    if shown[0] != shown[1]:
        return shown
    return one_line(mark + ascii(parts[0]), limit), one_line(mark + ascii(parts[1]), limit)
