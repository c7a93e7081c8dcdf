"""Safe forms of polars' frames and series, through Arrow."""

from __future__ import annotations

from types import NoneType
from typing import Any

import polars as pl
import pyarrow as pa

from tract_jupyter.rehearsal.arrow import chunks_form, read_chunks
from tract_jupyter.rehearsal.values import (
    Encoder,
    Frame,
    Node,
    builds,
    check,
    encodes,
    malformed,
    no_form,
    take,
)


def _form(encoder: Encoder, series: pl.Series) -> list[Any]:
    categories = series.dtype.categories.to_list() if isinstance(series.dtype, pl.Enum) else None
    try:
        data = series.to_arrow()
    except (pa.ArrowException, TypeError, ValueError, pl.exceptions.PolarsError):
        raise no_form(series, f"of {series.dtype} has no safe form") from None
    form = chunks_form(encoder, pa.chunked_array([data]))
    return [series.name, categories, form]


def _read(frame: Frame, form: Any) -> pl.Series:
    check(isinstance(form, list), "a column")
    name, categories, chunks = take(form, str, (list, NoneType), list)
    data = read_chunks(frame, chunks)
    try:
        made = pl.from_arrow(data)
        assert isinstance(made, pl.Series)  # noqa: S101 # of a chunked array
        if categories is not None:
            check(all(type(one) is str for one in categories), "a category")
            made = made.cast(pl.Enum(categories))
    except pl.exceptions.PanicException as error:  # it is no Exception
        raise malformed(str(error)[:200]) from None
    return made.rename(name)


@encodes(pl.Series)
def _series(encoder: Encoder, value: pl.Series) -> Node:
    return ["pl.series", [], _form(encoder, value)]


@builds("pl.series", list)
def _build_series(frame: Frame, form: list[Any]) -> pl.Series:
    return _read(frame, form)


@encodes(pl.DataFrame)
def _frame(encoder: Encoder, value: pl.DataFrame) -> Node:
    return ["pl.frame", [], [_form(encoder, column) for column in value.get_columns()]]


@builds("pl.frame", list)
def _build_frame(frame: Frame, columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame([_read(frame, column) for column in columns])
