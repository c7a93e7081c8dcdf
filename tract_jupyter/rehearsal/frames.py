"""Safe forms of pandas' frames, series, indexes and scalars, by numpy's buffers. Arrow's columns need pyarrow."""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

import numpy as np
import pandas as pd

from tract_jupyter.rehearsal import arrays as arrays  # noqa: PLC0414 # registers numpy's forms
from tract_jupyter.rehearsal.values import ZONES, Encoder, Frame, Node, builds, check, encodes, scalar

_MASKED: Final = {
    **{f"{sign}Int{bits}": pd.arrays.IntegerArray for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "Float32": pd.arrays.FloatingArray,
    "Float64": pd.arrays.FloatingArray,
    "boolean": pd.arrays.BooleanArray,
}
_CLOSED: Final = frozenset({"left", "right", "both", "neither"})
_INDEXES: Final = (
    pd.Index, pd.RangeIndex, pd.MultiIndex, pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex, pd.IntervalIndex,
    pd.CategoricalIndex,
)  # fmt: skip
_LONGEST_FREQUENCY: Final = 40
_MOST_SEPARATE: Final = 90
"""The maximum number of columns with an array each."""


def _frequency(text: str) -> str:
    check(len(text) <= _LONGEST_FREQUENCY and text.isascii(), "a frequency")
    return text


# ---- arrays


@encodes(pd.arrays.NumpyExtensionArray)
def _numpy(encoder: Encoder, value: Any) -> Node:
    return ["pd.numpy", [encoder.part(value.to_numpy())]]


@builds("pd.numpy", parts=(np.ndarray,))
def _build_numpy(_: Frame, data: np.ndarray[Any, Any]) -> Any:
    return pd.arrays.NumpyExtensionArray(data)


@encodes(pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)
def _nullable(encoder: Encoder, value: Any) -> Node:
    mask = value.isna()
    plain = np.dtype(bool) if value.dtype.name == "boolean" else value.dtype.numpy_dtype
    data = value.to_numpy(dtype=plain, na_value=plain.type(0))
    return ["pd.nullable", [encoder.part(data), encoder.part(mask)], value.dtype.name]


@builds("pd.nullable", str, parts=(np.ndarray, np.ndarray))
def _build_nullable(_: Frame, data: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], name: str) -> Any:
    check(
        name in _MASKED and data.ndim == 1 and mask.shape == data.shape and mask.dtype == bool,
        "a nullable array",
    )
    made = _MASKED[name](data, mask)
    check(made.dtype.name == name, "a nullable array")
    return made


@encodes(pd.arrays.StringArray)
def _strings(encoder: Encoder, value: Any) -> Node:
    data = value.to_numpy(dtype=object, na_value=None)
    return ["pd.strings", encoder.parts(data.tolist()), value.dtype.na_value is pd.NA]


@builds("pd.strings", bool, parts=None)
def _build_strings(_: Frame, parts: list[Any], has_na: Any) -> Any:
    check(set(map(type, parts)) <= {str, NoneType}, "a text")
    dtype = pd.StringDtype("python", na_value=pd.NA if has_na else np.nan)
    data = np.array([*parts, None], object)[:-1]  # an empty list has no type
    return pd.array(data, dtype=dtype)


@encodes(pd.arrays.ArrowStringArray, pd.arrays.ArrowExtensionArray)
def _arrow(encoder: Encoder, value: Any) -> Node:
    import pyarrow as pa

    from tract_jupyter.rehearsal.arrow import chunks_form

    data = value.__arrow_array__()
    data = data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])
    kind = None if isinstance(value.dtype, pd.ArrowDtype) else value.dtype.na_value is pd.NA
    return ["pd.arrow", [], chunks_form(encoder, data), kind]


@builds("pd.arrow", list, (bool, NoneType))
def _build_arrow(frame: Frame, form: list[Any], has_na: Any) -> Any:
    from tract_jupyter.rehearsal.arrow import read_chunks

    data = read_chunks(frame, form)
    dtype: Any = (
        pd.ArrowDtype(data.type)
        if has_na is None
        else pd.StringDtype("pyarrow", na_value=pd.NA if has_na else np.nan)
    )
    return dtype.__from_arrow__(data)


@encodes(pd.Categorical)
def _categorical(encoder: Encoder, value: pd.Categorical) -> Node:
    return [
        "pd.categorical",
        [encoder.part(_unlocked(value.codes)), encoder.part(value.categories)],
        bool(value.ordered),
    ]


@builds("pd.categorical", bool, parts=(np.ndarray, _INDEXES))
def _build_categorical(
    _: Frame, codes: np.ndarray[Any, Any], categories: Any, is_ordered: Any
) -> pd.Categorical:
    check(codes.dtype.kind == "i" and codes.ndim == 1, "a categorical")
    return pd.Categorical.from_codes(codes, categories=categories, ordered=is_ordered)


@encodes(pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray)
def _moments(encoder: Encoder, value: Any) -> Node:
    data = np.asarray(value.asi8).view(f"{value.dtype.kind}8[{value.unit}]")
    zone = getattr(value, "tz", None)
    return ["pd.moments", [encoder.part(data), encoder.part(zone)]]


@builds("pd.moments", parts=(np.ndarray, ZONES))
def _build_moments(_: Frame, data: np.ndarray[Any, Any], zone: Any) -> Any:
    check(data.dtype.kind in "mM" and data.ndim == 1, "an array of times")
    index = pd.Index(data)
    array = index.tz_localize("UTC").tz_convert(zone).array if zone is not None else index.array
    return array.copy()  # an index locks its array


@encodes(pd.arrays.PeriodArray)
def _periods(encoder: Encoder, value: Any) -> Node:
    return ["pd.periods", [encoder.part(np.asarray(value.asi8))], value.freqstr]


@builds("pd.periods", str, parts=(np.ndarray,))
def _build_periods(_: Frame, data: np.ndarray[Any, Any], text: str) -> Any:
    check(data.dtype == np.int64 and data.ndim == 1, "an array of periods")
    return pd.PeriodIndex.from_ordinals(data, freq=_frequency(text)).array.copy()


@encodes(pd.arrays.IntervalArray)
def _intervals(encoder: Encoder, value: Any) -> Node:
    return ["pd.intervals", [encoder.part(value.left), encoder.part(value.right)], value.closed]


@builds("pd.intervals", str, parts=(_INDEXES, _INDEXES))
def _build_intervals(_: Frame, left: Any, right: Any, closed: Any) -> Any:
    check(closed in _CLOSED, "intervals")
    return pd.arrays.IntervalArray.from_arrays(left, right, closed=closed)


_ARRAYS: Final = (
    np.ndarray,
    pd.arrays.NumpyExtensionArray,
    pd.arrays.IntegerArray,
    pd.arrays.FloatingArray,
    pd.arrays.BooleanArray,
    pd.arrays.StringArray,
    pd.arrays.ArrowStringArray,
    pd.arrays.ArrowExtensionArray,
    pd.Categorical,
    pd.arrays.DatetimeArray,
    pd.arrays.TimedeltaArray,
    pd.arrays.PeriodArray,
    pd.arrays.IntervalArray,
)


def column_array(data: pd.Series[Any] | pd.Index[Any]) -> Any:
    """Return the values of a column as numpy's array if they are one, without a copy; else as pandas' array."""
    return _unlocked(data.to_numpy()) if isinstance(data.dtype, np.dtype) else data.array


def _unlocked(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that is writable if its memory is.

    Pandas locks the arrays that it gives away. A copy with the lock could not be changed in place, even by pandas.
    """
    owner = data.base
    if data.flags.writeable or not (isinstance(owner, np.ndarray) and owner.flags.writeable):
        return data
    data = data.view()
    data.flags.writeable = True
    return data


# ---- indexes


_NESTED: Final = (tuple, frozenset)


@encodes(pd.RangeIndex)
def _range_index(encoder: Encoder, value: pd.RangeIndex) -> Node:
    return ["pd.range", [encoder.part(value.name)], value.start, value.stop, value.step]


@builds("pd.range", int, int, int, parts=None)
def _build_range_index(frame: Frame, parts: list[Any], start: int, stop: int, step: int) -> pd.RangeIndex:
    check(len(parts) == 1, "an index")
    frame.check_keys(parts)
    return pd.RangeIndex(start, stop, step, name=parts[0])


@encodes(pd.MultiIndex)
def _multi_index(encoder: Encoder, value: pd.MultiIndex) -> Node:
    codes = [np.asarray(one) for one in value.codes]
    return ["pd.multi", encoder.parts([*value.levels, *codes, *value.names]), value.nlevels]


@builds("pd.multi", int, parts=None)
def _build_multi_index(frame: Frame, parts: list[Any], count: int) -> pd.MultiIndex:
    check(len(parts) == 3 * count, "an index")
    levels, codes, names = parts[:count], parts[count : 2 * count], parts[2 * count :]
    check(all(isinstance(level, pd.Index) for level in levels), "an index")
    check(
        all(type(code) is np.ndarray and code.dtype.kind == "i" and code.ndim == 1 for code in codes),
        "an index",
    )
    frame.check_keys(names)
    return pd.MultiIndex(levels, codes, names=names, verify_integrity=True)


@encodes(pd.Index, pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex, pd.IntervalIndex, pd.CategoricalIndex)
def _index(encoder: Encoder, value: pd.Index[Any]) -> Node:
    frequency = (
        getattr(value, "freqstr", None) if isinstance(value, pd.DatetimeIndex | pd.TimedeltaIndex) else None
    )
    data = column_array(value)
    return ["pd.index", [encoder.part(data), encoder.part(value.name)], frequency]


@builds("pd.index", (str, NoneType), parts=None)
def _build_index(frame: Frame, parts: list[Any], frequency: str | None) -> pd.Index[Any]:
    check(len(parts) == 2 and type(parts[0]) in _ARRAYS, "an index")  # noqa: PLR2004 # values and name
    data, name = parts
    check(data.ndim == 1, "an index")
    labels = data.tolist() if data.dtype == object else []
    frame.check_keys([name, *(label for label in labels if type(label) in _NESTED)])
    if frequency is not None:
        check(data.dtype.kind in "mM", "an index")
        kind = pd.DatetimeIndex if data.dtype.kind == "M" else pd.TimedeltaIndex
        return kind(data, freq=_frequency(frequency), name=name)
    return pd.Index(data, dtype=data.dtype, name=name, copy=False)


# ---- frames


@encodes(pd.Series)
def _series(encoder: Encoder, value: pd.Series[Any]) -> Node:
    parts = [column_array(value), value.index, value.name, value.attrs]
    return ["pd.series", [encoder.part(part) for part in parts], value.flags.allows_duplicate_labels]


@builds("pd.series", bool, parts=None)
def _build_series(frame: Frame, parts: list[Any], has_duplicates: Any) -> pd.Series[Any]:
    check(len(parts) == 4 and type(parts[0]) in _ARRAYS, "a series")  # noqa: PLR2004 # as written
    data, index, name, attrs = parts
    frame.check_keys([name])
    made = _column(data, index)
    made.name = name
    return _finished(frame, made, attrs, has_duplicates=has_duplicates)


def _column(data: Any, index: Any) -> pd.Series[Any]:
    check(isinstance(index, pd.Index) and data.ndim == 1 and len(data) == len(index), "a column")
    return pd.Series(data, index=index, dtype=data.dtype, copy=False)


def _finished(frame: Frame, made: Any, attrs: Any, *, has_duplicates: bool) -> Any:
    check(type(attrs) is dict, "attributes")
    if not has_duplicates:
        made.flags.allows_duplicate_labels = False

    def finish() -> None:
        made.attrs = attrs

    frame.later(finish)
    return made


@encodes(pd.DataFrame)
def _frame(encoder: Encoder, value: pd.DataFrame) -> Node:
    columns = [column_array(value.iloc[:, number]) for number in range(value.shape[1])]
    parts = [value.columns, value.index, value.attrs, *columns]
    return ["pd.frame", [encoder.part(part) for part in parts], value.flags.allows_duplicate_labels]


@builds("pd.frame", bool, parts=None)
def _build_frame(frame: Frame, parts: list[Any], has_duplicates: Any) -> pd.DataFrame:
    check(len(parts) > 2, "a frame")  # noqa: PLR2004 # columns, index and attributes
    columns, index, attrs, *data = parts
    check(
        isinstance(columns, pd.Index) and isinstance(index, pd.Index) and len(columns) == len(data), "a frame"
    )
    check(all(type(one) in _ARRAYS for one in data), "a column")
    series = {number: _column(one, index) for number, one in enumerate(data)}
    # pandas warns at the next column of a table with many separate arrays. A copy joins them
    made = pd.DataFrame(series, index=index, copy=len(data) > _MOST_SEPARATE)
    made.columns = columns
    return _finished(frame, made, attrs, has_duplicates=has_duplicates)


# ---- scalars


@encodes(pd.Timestamp)
def _timestamp(encoder: Encoder, value: pd.Timestamp) -> Node:
    return ["pd.timestamp", [encoder.part(np.asarray(value.asm8)), encoder.part(value.tz)]]


@builds("pd.timestamp", parts=(np.ndarray, ZONES))
def _build_timestamp(_: Frame, data: np.ndarray[Any, Any], zone: Any) -> Any:
    check(data.shape == () and data.dtype.kind == "M", "a timestamp")
    made = pd.Timestamp(data[()])
    return made.tz_localize("UTC").tz_convert(zone) if zone is not None else made


@encodes(pd.Timedelta)
def _timedelta(encoder: Encoder, value: pd.Timedelta) -> Node:
    return ["pd.timedelta", [encoder.part(np.asarray(value.asm8))]]


@builds("pd.timedelta", parts=(np.ndarray,))
def _build_timedelta(_: Frame, data: np.ndarray[Any, Any]) -> Any:
    check(data.shape == () and data.dtype.kind == "m", "a time span")
    return pd.Timedelta(data[()])


scalar(type(pd.NaT), "pd.nat", lambda _: [], lambda: pd.NaT)
scalar(type(pd.NA), "pd.na", lambda _: [], lambda: pd.NA)


def _read_period(ordinal: int, text: str) -> pd.Period:
    return pd.Period(ordinal=ordinal, freq=_frequency(text))


scalar(pd.Period, "pd.period", lambda value: [int(value.ordinal), value.freqstr], _read_period, int, str)


@encodes(pd.Interval)
def _interval(encoder: Encoder, value: pd.Interval[Any]) -> Node:
    return ["pd.interval", [encoder.part(value.left), encoder.part(value.right)], value.closed]


@builds("pd.interval", str, parts=None)
def _build_interval(_: Frame, parts: list[Any], closed: Any) -> Any:
    check(len(parts) == 2 and closed in _CLOSED, "an interval")  # noqa: PLR2004
    return pd.Interval(*parts, closed=closed)
