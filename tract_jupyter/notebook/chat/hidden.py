"""The values of variables, hidden in texts for a model: `--schema-only`.

Values and texts are split into words and numbers in the same way. A value of up to three words is hidden where its
words follow each other. A longer value is hidden wherever three of its words follow each other. A number is hidden if
it equals a value, or if it has at least four digits and a value rounds to it.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HIDDEN: Final = "[hidden]"
_NOT_FOUND: Final = "[hidden: this text may have values of {}]"
_MOST: Final = 200_000
"""Numbers and phrases of all values."""
_DEEPEST: Final = 5
_PHRASE: Final = 3
_LEAST_DIGITS: Final = 4
_TOKEN: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[^\W\d]\w*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
"""A number such as 1,234.5, or several numbers between commas."""
_OPEN: Final = frozenset({0.0, 1.0})
"""Numbers that stay, because they occur everywhere."""


_SHORT: Final = (str, bytes, bytearray, date, time, timedelta)


class HiddenValues:
    """The values of variables of the notebook. Any thread may use it. Some of the variables may not exist yet.

    Raises:
        OperationError: the values of a variable cannot be hidden.
    """

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        self._namespace = namespace
        self.names = tuple(dict.fromkeys(names))
        self._phrases: set[str] = set()
        self._numbers: list[float] = []
        self._lock = threading.Lock()
        self._collect()

    def redact(self, text: str) -> str:
        """Return a text without the values, also those that the variables had earlier."""
        with self._lock:
            try:
                self._collect()
                return "".join(self._visible(text))
            except Exception:  # noqa: BLE001 # a script may have put anything into a variable
                return _NOT_FOUND.format(", ".join(self.names))

    def _collect(self) -> None:
        schema: set[str] = set()
        numbers = set(self._numbers)
        for name in self.names:
            value = self._namespace.get(name)
            schema |= {" ".join(_words(column)) for column in (name, *_columns(value))}
            try:
                for leaf in _leaves(value, 0):
                    self._add(leaf, numbers)
            except _UnknownValueError as error:
                raise OperationError(
                    f"the values of {name} cannot be hidden, because it has a value of type {error}. Use tables, "
                    "arrays, texts, numbers, and lists and dicts of these. Nothing was sent"
                ) from None
        self._phrases -= schema
        self._numbers = sorted(number for number in numbers - _OPEN if math.isfinite(number))

    def _add(self, leaf: Any, numbers: set[float]) -> None:
        if isinstance(leaf, Real | Decimal):
            numbers.add(abs(float(leaf)))
        elif isinstance(leaf, list):
            numbers.update(leaf)
        else:
            words = _words(leaf)
            number = _number(words[0]) if len(words) == 1 else None
            if number is None:
                self._phrases.update(_phrases(words))
            else:
                numbers.add(number)
        if len(self._phrases) + len(numbers) > _MOST:
            raise OperationError(
                f"the variables have more than {_MOST:,} different values, which is too many to hide. Attach a part "
                "of them. Nothing was sent"
            )

    def _visible(self, text: str) -> Iterator[str]:
        """Yield the pieces of a text, with a mark in place of each value."""
        tokens = list(_TOKEN.finditer(text))
        hidden = self._hidden([token[0].casefold() for token in tokens])
        grouped = [one.span() for one in _GROUPED.finditer(text) if self._is_number(one[0].replace(",", ""))]
        for place, token in enumerate(tokens) if grouped else ():
            hidden[place] |= any(start <= token.start() < end for start, end in grouped)
        at, was_hidden = 0, False
        for token, is_hidden in zip(tokens, hidden, strict=True):
            between = text[at : token.start()]
            if not is_hidden:
                yield between + token[0]
            elif not (was_hidden and len(between) <= 1):  # one mark for all words of a value
                yield between + HIDDEN
            at, was_hidden = token.end(), is_hidden
        yield text[at:]

    def _hidden(self, words: Sequence[str]) -> list[bool]:
        hidden = [self._is_number(word) for word in words]
        for start in range(len(words)):
            for end in range(start + 1, min(start + _PHRASE, len(words)) + 1):
                if " ".join(words[start:end]) in self._phrases:
                    hidden[start:end] = [True] * (end - start)
        return hidden

    def _is_number(self, word: str) -> bool:
        number = _number(word)
        if number is None or number in _OPEN:
            return False
        digits, _, power = word.partition("e")
        decimals = len(digits.partition(".")[2]) - int(power or 0)
        is_long = len(digits.replace(".", "").lstrip("0")) >= _LEAST_DIGITS
        near = 0.500001 * 10.0**-decimals if is_long else 0.0
        place = bisect_left(self._numbers, number - near)
        return place < len(self._numbers) and self._numbers[place] <= number + near


class _UnknownValueError(Exception):
    """A value whose texts are not known, by its type."""


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _TOKEN.findall(text)]


def _phrases(words: Sequence[str]) -> Iterator[str]:
    """Return the whole text, or each three words of a longer one."""
    length = min(len(words), _PHRASE)
    return (" ".join(words[start : start + length]) for start in range(len(words) - length + 1) if length)


def _number(word: str) -> float | None:
    """Return the number of a token; None if it is a word."""
    with suppress(ValueError):  # a digit that is no number in Python
        return float(word) if word[0].isdigit() else None
    return None


def _columns(value: Any) -> Iterable[str]:
    """Return the names of a table's columns, which stay."""
    return map(str, getattr(value, "columns", ())) if _library(value) in {"pandas", "polars"} else ()


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    """Yield the texts, the numbers and the lists of positive numbers in a value."""
    if value is None or isinstance(value, bool):
        return
    library = _library(value)
    if isinstance(value, Real | Decimal):
        yield value
    elif isinstance(value, _SHORT):
        yield from _texts(value)
    elif library in _PARTS:
        for part in _PARTS[library](value):
            yield from [part] if type(part) is _Numbers else _leaves(part, depth)
    elif isinstance(value, list | tuple | set | frozenset | Mapping) and depth < _DEEPEST:
        for item in chain(value, value.values()) if isinstance(value, Mapping) else value:
            yield from _leaves(item, depth + 1)
    else:
        raise _UnknownValueError(type(value).__name__)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a text, of bytes or of a time, as they are printed."""
    if isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    yield str(value)
    if isinstance(value, date | time):
        yield value.isoformat()
    elif isinstance(value, str) and "\\" in repr(value):
        yield repr(value)


class _Numbers(list[float]):
    """Positive numbers of a column."""


def _parts_of_pandas(value: Any) -> Iterator[Any]:
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        yield value.index
        yield from (value.iloc[:, place] for place in range(value.shape[1]))
    elif isinstance(value, pandas.MultiIndex):
        yield from value.levels
    elif isinstance(value, pandas.Series):
        yield value.index
        yield from _values_of_pandas(value)
    elif isinstance(value, pandas.Index):
        if not isinstance(value, pandas.RangeIndex):
            yield from _values_of_pandas(value)
    elif isinstance(value, pandas.Period | pandas.Interval):
        yield str(value)
    elif value is not pandas.NA:
        raise _UnknownValueError(type(value).__name__)


def _values_of_pandas(column: Any) -> Iterator[Any]:
    present = column.dropna()
    with suppress(TypeError):  # lists and dicts
        present = present.drop_duplicates()
    if column.dtype.kind in "iuf":
        yield _Numbers(map(abs, present.astype(float).tolist()))
    else:
        yield present.astype(object).tolist()


def _parts_of_polars(value: Any) -> Iterator[Any]:
    polars = sys.modules["polars"]
    if isinstance(value, polars.DataFrame):
        yield from value.get_columns()
    elif isinstance(value, polars.Series):
        yield value.to_list()
    else:
        raise _UnknownValueError(type(value).__name__)


def _parts_of_numpy(value: Any) -> Iterator[Any]:
    numpy = sys.modules["numpy"]
    if not isinstance(value, numpy.ndarray | numpy.generic) or value.dtype.kind not in "biufSUOMm":
        raise _UnknownValueError(type(value).__name__)
    if value.dtype.kind in "Mm":  # as datetime, and not as a number of nanoseconds
        value = value.astype(f"{value.dtype.kind}8[us]")
    if value.dtype.kind in "iuf":
        yield _Numbers(numpy.unique(numpy.abs(value.astype(float))).tolist())
    else:
        yield value.tolist()


_PARTS: Final = {"pandas": _parts_of_pandas, "polars": _parts_of_polars, "numpy": _parts_of_numpy}
