"""Types of the kernel's variables, for the check of scripts that only read.

The check compares types by identity, because a class can have any name. It looks inside built-in containers, arrays and
tables, up to a limit. It runs no code of the user.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import decimal
import re
import sys
import sysconfig
import unicodedata
import weakref
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.analysis import READING_FUNCTIONS, parse, words
from tract_jupyter.llm import why_not_sent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_SCALARS: Final = frozenset(
    {
        int, float, complex, bool, str, bytes, type(None), range, dt.date, dt.datetime, dt.time,
        dt.timedelta, decimal.Decimal,
    }
)  # fmt: skip
_PLAIN: Final = frozenset({int, float, bool, str, type(None)})
_LISTS: Final = frozenset({list, tuple, set, frozenset})
_MOST_VALUES: Final = 100_000  # in the containers of one variable; ten times as many cells of objects
_MOST_TEXT: Final = 100_000  # characters of a variable's texts that are searched for a key
_DEEPEST: Final = 20
_DTYPES: Final = words("""
    StringDtype DatetimeTZDtype PeriodDtype BooleanDtype Int8Dtype Int16Dtype Int32Dtype Int64Dtype UInt8Dtype
    UInt16Dtype UInt32Dtype UInt64Dtype Float32Dtype Float64Dtype CategoricalDtype
""")
"""Column types that pandas adds to the types of numpy, and that hold no user objects."""
_CLASSES: Final = {
    "pandas": (
        "core.frame.DataFrame", "core.series.Series", "core.indexes.base.Index", "core.indexes.multi.MultiIndex",
        "core.indexes.datetimes.DatetimeIndex", "core.indexes.range.RangeIndex",
        "core.groupby.generic.DataFrameGroupBy", "core.groupby.generic.SeriesGroupBy", "core.window.rolling.Rolling",
        "core.window.expanding.Expanding", "core.resample.Resampler", "core.strings.accessor.StringMethods",
        "core.indexes.accessors.CombinedDatetimelikeProperties", "core.arrays.categorical.CategoricalAccessor",
        "plotting._core.PlotAccessor", "core.indexing._LocIndexer", "core.indexing._iLocIndexer",
    ),
    "matplotlib": ("axes._axes.Axes", "figure.Figure", "text.Text", "patches.Rectangle", "axis.Axis", "spines.Spine"),
}  # fmt: skip
"""The classes whose attributes a script may use. User code must not have changed them."""


class _ForeignError(Exception):
    """Raised for a value of an unknown type."""


class KernelVariables:
    """The variables of a namespace of this kernel; a `tract_jupyter.analysis.KernelNames`.

    Args:
        namespace: The variables.
        created: The variables that scripts created, each with the identity of its value.
        cells: The cells of the user.
    """

    def __init__(
        self, namespace: dict[str, Any], created: Mapping[str, int] | None = None, cells: Collection[str] = ()
    ) -> None:
        self.namespace = namespace
        self._created = created or {}
        self._cells = cells
        self._words: set[str] | None = None
        self._kinds: dict[str, str] = {}
        self._columns: set[str] | None = None
        self._with_patches: set[str] | None = None

    def kind(self, name: str) -> str:
        """Return the kind of a variable."""
        if name not in self.namespace:
            return ""
        if name not in self._kinds:
            kind = _kind(name, self.namespace[name])
            self._kinds[name] = "other" if kind == "table" and "pandas" in self._patched() else kind
        return self._kinds[name]

    def is_loaded(self, module: str) -> bool:
        """Return True if a module is loaded, and comes from the folder of installed packages."""
        loaded = sys.modules.get(module)
        root = module.partition(".")[0]
        return type(loaded) is ModuleType and _is_installed(loaded) and root not in self._patched()

    def _patched(self) -> Collection[str]:
        """Return the packages with a class whose operator, such as `__getitem__`, was replaced."""
        if self._with_patches is None:
            self._with_patches = {
                root
                for root, cls in _classes()
                for base in cls.__mro__
                for name, value in list(vars(base).items())
                if name.startswith("__")
                and base.__module__.partition(".")[0] == root
                and not _is_of(value, root)
            }
        return self._with_patches

    def is_original(self, module: str, name: str) -> bool:
        """Return True if a module's function is the original one."""
        loaded = sys.modules.get(module)
        value = _MISSING if loaded is None else vars(loaded).get(name, _MISSING)
        if module == "builtins" and self.namespace.get("__builtins__", builtins) not in (
            builtins,
            vars(builtins),
        ):
            return False
        if module != "builtins":
            return value is not _MISSING and _is_of(value, module.partition(".")[0])
        if name == "display":
            return getattr(value, "__module__", "") == "IPython.core.display_functions" and _is_of(
                value, "IPython"
            )
        return value is _BUILTINS.get(name, _MISSING)

    def is_replaced(self, attribute: str) -> bool:
        """Return True if user code replaced an attribute of this name in a class of a known library."""
        for root, cls in _classes():
            for base in cls.__mro__:
                if attribute in vars(base):
                    if base.__module__.partition(".")[0] == root and not _is_of(vars(base)[attribute], root):
                        return True
                    break
        return False

    def is_column(self, name: str) -> bool:
        """Return True if an attribute of a table with this name can only be a column."""
        if self._columns is None:
            frame = _member("pandas", "core.frame.DataFrame")
            self._columns = {
                column
                for key, value in list(self.namespace.items())
                if frame is not None and type(value) is frame and self.kind(key) == "table"
                for column in value.columns
                if type(column) is str
            }
        array = _member("numpy", "ndarray")
        return name in self._columns and not any(
            hasattr(cls, name) for cls in (array, list, dict, *(known_class for _, known_class in _classes()))
        )

    def why_not_drawn(self) -> str:
        """Return the reason why a script must not draw; empty if it may draw."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not self.is_loaded("matplotlib.pyplot"):
            return "matplotlib is not loaded yet"
        if sys.modules["matplotlib"].rcParams["text.usetex"]:
            return "texts of figures are set by LaTeX"
        if any(figure not in DRAWN for figure in open_figures()):
            return "a figure of yours is open, and it may change it"
        return ""

    def is_free(self, name: str) -> bool:
        """Return True if a script may assign to this existing variable.

        A script created the value, and no cell of the user contains the name.
        """
        is_made = name in self._created and id(self.namespace.get(name)) == self._created[name]
        return is_made and not self.is_mentioned(name)

    def is_mentioned(self, name: str) -> bool:
        """Return True if a cell of the user contains this name."""
        if self._words is None:
            self._words = {
                word for cell in self._cells for word in _WORD.findall(unicodedata.normalize("NFKC", cell))
            }
        return name in self._words


_MISSING: Final = object()
_BUILTINS: Final = {name: value for name, value in vars(builtins).items() if not name.startswith("_")}
"""The builtins at the import of this package."""


def _kind(name: str, value: Any) -> str:
    if type(value) is ModuleType:
        is_itself = sys.modules.get(value.__name__) is value
        return f"module {value.__name__}" if is_itself else "other"
    function = _listed(value)
    if function:
        return f"function {function}"
    texts: list[str] = []
    try:
        is_table = _look(name, value, _Budget(), texts, 0)
    except _ForeignError:
        return "other"
    except Exception:  # noqa: BLE001 # a value that fails to describe itself is unknown
        return "other"
    if sum(map(len, texts)) > _MOST_TEXT or why_not_sent("\n".join(texts)):
        return "other"
    return "table" if is_table else "data"


def _listed(value: Any) -> str:
    """Return the name of a function that a script may use, such as `math.sqrt`; empty for other values."""
    if not callable(value):
        return ""
    for module, names in READING_FUNCTIONS.items():
        loaded = sys.modules.get(module)
        if loaded is not None:
            for name in names:
                if vars(loaded).get(name, _MISSING) is value:
                    return f"{module}.{name}"
    return ""


class _Budget:
    """The number of values that the check may still visit."""

    def __init__(self, most: int = _MOST_VALUES) -> None:
        self._left = most

    def take(self, count: int) -> None:
        """Use up a part of the budget.

        Raises:
            _ForeignError: The budget is exceeded.
        """
        self._left -= count
        if self._left < 0:
            raise _ForeignError


def _look(name: str, value: Any, budget: _Budget, texts: list[str], depth: int) -> bool:
    """Check a value and its content; return True for a table or an array.

    Raises:
        _ForeignError: A part of the value has an unknown type.
    """
    budget.take(1)
    kind = type(value)
    if kind in {str, bytes}:
        text = value if kind is str else value.decode("latin-1")
        texts.append(f"{name} = {text!r}")
    if kind in _SCALARS or _is_scalar(kind):
        _check_zone(getattr(value, "tzinfo", None))
        return False
    if depth > _DEEPEST:
        raise _ForeignError
    if kind in _LISTS:
        budget.take(len(value))
        for element in value:
            _look(name, element, budget, texts, depth + 1)
        return False
    if kind is dict:
        budget.take(len(value))
        for key, element in value.items():
            _look(name, key, budget, texts, depth + 1)
            _look(str(key) if type(key) is str else name, element, budget, texts, depth + 1)
        return False
    if kind is _member("numpy", "ndarray"):
        if value.dtype.hasobject or value.dtype.names:  # a list of fields gives a view
            raise _ForeignError
        return True
    _check_table(value, kind, budget)
    return True


def _check_zone(zone: Any) -> None:
    """Check a time zone. A time zone class of the user runs code at each use of the time.

    Raises:
        _ForeignError: The type is not from the standard library.
    """
    if zone is not None and type(zone) not in {dt.timezone, _member("zoneinfo", "ZoneInfo")}:
        raise _ForeignError


def _is_scalar(kind: type) -> bool:
    """Return True for the scalar types of numpy and pandas."""
    pandas, generic = sys.modules.get("pandas"), _member("numpy", "generic")
    if generic is not None and issubclass(kind, generic):
        return any(candidate is kind for candidate in vars(sys.modules["numpy"]).values())
    names = ("Timestamp", "Timedelta", "Period", "Interval")
    missing = {type(getattr(pandas, name, None)) for name in ("NaT", "NA")} if pandas else set()
    return pandas is not None and (
        kind in missing or kind in {getattr(pandas, candidate, None) for candidate in names}
    )


def _check_table(value: Any, kind: type, budget: _Budget) -> None:
    """Check a table, series or index of pandas.

    Raises:
        _ForeignError: The value has another type, holds objects of other types, or has attributes of the user.
    """
    pandas = sys.modules.get("pandas")
    indexes = set() if pandas is None else _indexes(pandas)
    if pandas is None or kind not in {pandas.DataFrame, pandas.Series, *indexes}:
        raise _ForeignError
    is_own = any(not attribute.startswith("_") for attribute in vars(value))  # `df.describe = ...`
    if is_own or (kind not in indexes and value.attrs) or not _is_known_freq(value):
        raise _ForeignError
    for name in () if kind is pandas.DataFrame else value.names if kind in indexes else (value.name,):
        _look("", name, budget, [], _DEEPEST - 1)
    axes = value.levels if kind is pandas.MultiIndex else () if kind in indexes else value.axes
    for axis in axes:
        _check_table(axis, type(axis), budget)
    if kind is pandas.DataFrame:
        for at, dtype in enumerate(value.dtypes):
            if not _is_plain(dtype):
                _check_cells(dtype, value.iloc[:, at], budget)
    elif kind is not pandas.MultiIndex and not _is_plain(value.dtype):
        _check_cells(value.dtype, value, budget)


def _is_known_freq(value: Any) -> bool:
    """Return True if the steps of an index have a pandas type. The user may define another class of steps."""
    freq = getattr(value, "freq", None)
    return freq is None or _member("pandas", f"_libs.tslibs.offsets.{type(freq).__name__}") is type(freq)


def _indexes(pandas: Any) -> set[type]:
    names = (
        "Index MultiIndex RangeIndex CategoricalIndex DatetimeIndex TimedeltaIndex PeriodIndex IntervalIndex"
    )
    return {getattr(pandas, name) for name in names.split()}


def _is_plain(dtype: Any) -> bool:
    """Return True for a numpy type without objects, and for the text type of pandas."""
    numpy = sys.modules["numpy"]
    if isinstance(dtype, numpy.dtype):
        return not dtype.hasobject
    kind = type(dtype)
    home = sys.modules.get(kind.__module__)
    is_of_pandas = (
        kind.__module__.partition(".")[0] == "pandas" and getattr(home, kind.__name__, None) is kind
    )
    if not is_of_pandas:
        raise _ForeignError
    if kind.__name__ not in _DTYPES:
        raise _ForeignError
    return kind.__name__ != "CategoricalDtype"


def _check_cells(dtype: Any, column: Any, budget: _Budget) -> None:
    """Check each object or category of a column."""
    if hasattr(dtype, "categories"):
        _check_table(dtype.categories, type(dtype.categories), budget)
        return
    budget.take(len(column) // 10)  # a cell takes less time than a value in a list
    cells = column.to_numpy()
    for cell in () if set(map(type, cells)) <= _PLAIN else cells:
        if type(cell) not in _PLAIN:
            _look("", cell, _Budget(1), [], _DEEPEST)


def _is_of(value: Any, root: str) -> bool:
    """Return True if the code of a function, class or property is in a module of the package."""
    is_plain = isinstance(value, FunctionType | type)
    for part in ("__wrapped__", *(() if is_plain else ("__func__", "fget", "func", "_accessor"))):
        inner = getattr(value, part, None)
        if inner is not None and inner is not value and not (is_plain and _is_of(inner, root)):
            return _is_of(inner, root)
    if isinstance(value, FunctionType):
        home = str(value.__globals__.get("__name__", ""))
        return home.partition(".")[0] == root or value.__code__.co_filename.startswith("<__array_function__")
    if isinstance(value, type):
        constructors = [
            constructor
            for constructor in (vars(value).get("__init__"), vars(value).get("__new__"))
            if constructor is not None
        ]
        return value.__module__.partition(".")[0] in {root, "builtins"} and all(
            _is_of(constructor, root) for constructor in constructors
        )
    if isinstance(value, BuiltinFunctionType) or type(value).__name__ == "cython_function_or_method":
        home = str(value.__module__ or root).partition(".")[0]
        owner = getattr(value, "__self__", None)  # `words.append` is also a builtin
        return home.removeprefix("_") == root and isinstance(owner, ModuleType | type | None)
    if callable(value) and "(vectorized)" in str(getattr(value, "__name__", "")):
        return False  # `numpy.frompyfunc` created it from a function
    return type(value).__module__.partition(".")[0] in {root, "builtins", "numpy", "pandas", "functools"}


def _classes() -> Iterator[tuple[str, type]]:
    """Yield the classes of the loaded libraries, each with the name of its package."""
    for root, paths in _CLASSES.items():
        if root in sys.modules:
            for path in paths:
                cls = _member(root, path)
                if isinstance(cls, type):
                    yield root, cls


def _member(root: str, path: str) -> Any:
    """Return a member of a loaded module by its path; None if it does not exist."""
    module, _, name = f"{root}.{path}".rpartition(".")
    loaded = sys.modules.get(module)
    return None if loaded is None else vars(loaded).get(name)


def _is_installed(module: ModuleType) -> bool:
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in {"built-in", "frozen"}:
        return True
    return isinstance(origin, str) and any(Path(origin).is_relative_to(folder) for folder in _folders())


@lru_cache(maxsize=1)
def _folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    import site

    paths = sysconfig.get_paths()
    return (
        *{paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")},
        site.getusersitepackages(),
    )


DRAWN: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""The figures that scripts created."""


def open_figures() -> set[Any]:
    """Return the open figures. A notebook shows them below the cell, and scripts do not see them there."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return (
        set()
        if helpers is None
        else {manager.canvas.figure for manager in helpers.Gcf.get_all_fig_managers()}
    )


_WORD: Final = re.compile(r"[^\W\d]\w*")


def add_created_names(
    code: str, before: Mapping[str, Any], after: Mapping[str, Any], created: dict[str, int]
) -> None:
    """Add the variables that a script created to `created`, each with the identity of its value."""
    for node in ast.walk(parse(code)):
        name = ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.FunctionDef):
            name = node.name
        is_new = name not in before or created.get(name) == id(before[name])
        if name in after and is_new:
            created[name] = id(after[name])


def keep_new_variables(
    before: Mapping[str, Any], after: dict[str, Any], namespace: dict[str, Any]
) -> dict[str, Any]:
    """Copy a script's new variables into a namespace, and return them. Skip variables that changed since."""
    moved = {}
    for name, value in after.items():
        is_made = name not in before or before[name] is not value
        if (
            is_made
            and not name.startswith("_")
            and namespace.get(name, _MISSING) is before.get(name, _MISSING)
        ):
            moved[name] = namespace[name] = _rebound(value, after, namespace)
    return moved


def _rebound(value: Any, after: dict[str, Any], namespace: dict[str, Any]) -> Any:
    """Rebind a function of a script to the variables of a namespace. Return other values unchanged."""
    if type(value) is not FunctionType or value.__globals__ is not after:
        return value
    moved = FunctionType(value.__code__, namespace, value.__name__, value.__defaults__, value.__closure__)
    moved.__kwdefaults__ = value.__kwdefaults__
    return moved
