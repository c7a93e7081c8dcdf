"""Safe forms of pyarrow's tables and arrays, and of polars' frames, by their buffers.

Types are written in a small grammar of their own: no extension type, and no compressed buffer. Each array is validated
in full after it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tract_jupyter.rehearsal.values import Encoder, Frame, Node, builds, check, encodes, no_form, take

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES: Final = (
    "null bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "string large_string binary large_binary date32 date64"
)
_SIMPLE: Final = {
    str(kind): kind
    for kind in (
        *(getattr(pa, name)() for name in _NAMES.split()),
        *(pa.time32(unit) for unit in ("s", "ms")),
        *(pa.time64(unit) for unit in ("us", "ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    )
}
_UNITS: Final = frozenset({"s", "ms", "us", "ns"})
_MOST_COLUMNS: Final = 100_000
_DEEPEST: Final = 20
_SLACK: Final = 64  # bytes of padding


# ---- types


def _type_form(kind: pa.DataType) -> Any:
    types = pa.types
    if str(kind) in _SIMPLE:
        return str(kind)
    if types.is_timestamp(kind):
        return ["timestamp", kind.unit, kind.tz]
    if types.is_decimal128(kind):
        return ["decimal", kind.precision, kind.scale]
    if types.is_dictionary(kind):
        return ["dictionary", _type_form(kind.index_type), _type_form(kind.value_type), kind.ordered]
    if types.is_struct(kind):
        return ["struct", [[field.name, _type_form(field.type)] for field in kind]]
    return _list_form(kind)


def _list_form(kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_fixed_size_list(kind):
        return ["fixed_list", _type_form(kind.value_type), kind.list_size, kind.value_field.name]
    if types.is_list(kind) or types.is_large_list(kind):
        name = "list" if types.is_list(kind) else "large_list"
        return [name, _type_form(kind.value_type), kind.value_field.name]
    raise no_form(kind, f"of {kind} has no safe form")


def _read_type(form: Any, depth: int = 0) -> pa.DataType:
    check(depth < _DEEPEST, "an Arrow type")
    if isinstance(form, str):
        check(form in _SIMPLE, "an Arrow type")
        return _SIMPLE[form]
    check(isinstance(form, list) and bool(form) and isinstance(form[0], str), "an Arrow type")
    check(form[0] in _TYPES, "an Arrow type")
    return _TYPES[form[0]](form[1:], depth + 1)


def _timestamp(rest: list[Any], _: int) -> pa.DataType:
    unit, zone = take(rest, str, (str, type(None)))
    check(unit in _UNITS and len(zone or "") < 64, "an Arrow type")  # noqa: PLR2004 # longer than any zone
    return pa.timestamp(unit, zone)


def _decimal(rest: list[Any], _: int) -> pa.DataType:
    precision, scale = take(rest, int, int)
    check(0 < precision <= 38 and -38 <= scale <= 38, "an Arrow type")  # noqa: PLR2004 # of 128 bits
    return pa.decimal128(precision, scale)


def _dictionary(rest: list[Any], depth: int) -> pa.DataType:
    index, value, is_ordered = take(rest, str, (str, list), bool)
    kind = _read_type(index, depth)
    check(pa.types.is_integer(kind), "an Arrow type")
    return pa.dictionary(kind, _read_type(value, depth), is_ordered)


def _fixed_list(rest: list[Any], depth: int) -> pa.DataType:
    value, size, name = take(rest, (str, list), int, str)
    check(0 <= size < 2**31, "an Arrow type")
    return pa.list_(pa.field(name, _read_type(value, depth)), size)


def _lists(make: Callable[[pa.Field], pa.DataType]) -> Callable[[list[Any], int], pa.DataType]:
    def read(rest: list[Any], depth: int) -> pa.DataType:
        value, name = take(rest, (str, list), str)
        return make(pa.field(name, _read_type(value, depth)))

    return read


def _struct(rest: list[Any], depth: int) -> pa.DataType:
    (fields,) = take(rest, list)
    check(len(fields) <= _MOST_COLUMNS, "an Arrow type")
    named = []
    for each in fields:
        check(isinstance(each, list), "an Arrow type")
        name, kind = take(each, str, (str, list))
        named.append(pa.field(name, _read_type(kind, depth)))
    return pa.struct(named)


_TYPES: Final[dict[str, Callable[[list[Any], int], pa.DataType]]] = {
    "timestamp": _timestamp,
    "decimal": _decimal,
    "dictionary": _dictionary,
    "fixed_list": _fixed_list,
    "list": _lists(pa.list_),
    "large_list": _lists(pa.large_list),
    "struct": _struct,
}


# ---- arrays


def _array_form(encoder: Encoder, array: pa.Array) -> dict[str, Any]:
    """Return the JSON form of an array, which refers to its buffers."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return {
            "indices": _array_form(encoder, array.indices),
            "dictionary": _array_form(encoder, array.dictionary),
        }
    if array.offset or array.get_total_buffer_size() > _SLACK + 1.25 * array.nbytes:
        array = pa.concat_arrays([array, array.slice(0, 0)])  # a copy without the values outside a slice
    own = _buffers_of(array)
    form = {"length": len(array), "offset": array.offset, "buffers": [_number(encoder, one) for one in own]}
    children = _children(array)
    if children:
        form["children"] = [_array_form(encoder, child) for child in children]
    return form


def _children(array: pa.Array) -> list[pa.Array]:
    types = pa.types
    if types.is_struct(array.type):
        return [array.field(number) for number in range(array.type.num_fields)]
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return [array.values]
    return []


def _number(encoder: Encoder, buffer: pa.Buffer | None) -> int | None:
    return None if buffer is None else encoder.buffer(memoryview(buffer).cast("B") if buffer.size else b"")


def _buffers_of(array: pa.Array) -> list[pa.Buffer | None]:
    """Return the array's own buffers, without those of its children."""
    return list(array.buffers()[: _count(array.type)])


def _count(kind: pa.DataType) -> int:
    types = pa.types
    if types.is_null(kind) or types.is_struct(kind) or types.is_fixed_size_list(kind):
        return 1
    if str(kind) in {"string", "large_string", "binary", "large_binary"}:
        return 3
    return 2


def _read_array(frame: Frame, kind: pa.DataType, form: Any, depth: int = 0) -> pa.Array:
    check(isinstance(form, dict) and depth < _DEEPEST, "an Arrow array")
    if pa.types.is_dictionary(kind):
        check(set(form) == {"indices", "dictionary"}, "an Arrow array")
        indices = _read_array(frame, kind.index_type, form["indices"], depth + 1)
        values = _read_array(frame, kind.value_type, form["dictionary"], depth + 1)
        indices.validate(full=True)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered, safe=True)
    check(
        {"length", "offset", "buffers"} <= set(form) <= {"length", "offset", "buffers", "children"},
        "an Arrow array",
    )
    length, offset, numbers = take([form["length"], form["offset"], form["buffers"]], int, int, list)
    check(0 <= length < 2**48 and 0 <= offset < 2**48 and len(numbers) == _count(kind), "an Arrow array")
    buffers = [None if number is None else pa.py_buffer(bytes(frame.buffer(number))) for number in numbers]
    kinds = [kind.field(number).type for number in range(kind.num_fields)]
    forms = form.get("children", [])
    check(isinstance(forms, list) and len(forms) == len(kinds), "an Arrow array")
    children = [_read_array(frame, *each, depth + 1) for each in zip(kinds, forms, strict=True)]
    _check_sizes(kind, length + offset, buffers, children)
    return pa.Array.from_buffers(kind, length, buffers, -1, offset, children)


def _check_sizes(
    kind: pa.DataType, end: int, buffers: list[pa.Buffer | None], children: list[pa.Array]
) -> None:
    """Check the sizes of buffers before anything reads them. `validate` checks the rest."""
    validity, *others = buffers
    check(validity is None or validity.size * 8 >= end, "the size of an Arrow buffer")
    if pa.types.is_null(kind):
        check(validity is None, "an Arrow buffer")
    if pa.types.is_struct(kind):
        check(all(len(child) >= end for child in children), "the length of an Arrow array")
    if not others:
        return
    if len(others) == 2 or children:  # noqa: PLR2004 # offsets and data
        width = 64 if str(kind).startswith("large") else 32
        needed = (end + 1) * width if end else 0
    else:
        needed = end * kind.bit_width
    size = 0 if others[0] is None else others[0].size
    check(size * 8 >= needed and (others[0] is not None or not end), "the size of an Arrow buffer")


def chunks_form(encoder: Encoder, data: pa.ChunkedArray) -> list[Any]:
    """Return the JSON form of a column: its type and its chunks."""
    return [_type_form(data.type), [_array_form(encoder, chunk) for chunk in data.chunks]]


def read_chunks(frame: Frame, form: Any) -> pa.ChunkedArray:
    """Return the column of a JSON form."""
    check(isinstance(form, list), "an Arrow column")
    type_form, forms = take(form, (str, list), list)
    kind = _read_type(type_form)
    data = pa.chunked_array([_read_array(frame, kind, each) for each in forms], kind)
    data.validate(full=True)
    return data


@encodes(pa.ChunkedArray)
def _chunked(encoder: Encoder, value: pa.ChunkedArray) -> Node:
    return ["pa.chunked", [], chunks_form(encoder, value)]


@builds("pa.chunked", list)
def _build_chunked(frame: Frame, form: list[Any]) -> pa.ChunkedArray:
    return read_chunks(frame, form)


_ARRAY_NAMES: Final = (
    "Null Boolean Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 HalfFloat Float Double String LargeString Binary "
    "LargeBinary Date32 Date64 Timestamp Time32 Time64 Duration Decimal128 List LargeList FixedSizeList Struct "
    "Dictionary"
)


@encodes(*(getattr(pa, f"{name}Array") for name in _ARRAY_NAMES.split()))
def _array(encoder: Encoder, value: pa.Array) -> Node:
    return ["pa.array", [], chunks_form(encoder, pa.chunked_array([value]))]


@builds("pa.array", list)
def _build_array(frame: Frame, form: list[Any]) -> pa.Array:
    data = read_chunks(frame, form)
    check(data.num_chunks == 1, "an Arrow array")
    return data.chunk(0)


# ---- tables


@encodes(pa.Table)
def _table(encoder: Encoder, value: pa.Table) -> Node:
    metadata = {key.hex(): data.hex() for key, data in (value.schema.metadata or {}).items()}
    if any(field.metadata for field in value.schema):
        raise no_form(value, "with metadata of fields has no safe form")
    columns = [
        [field.name, field.nullable, chunks_form(encoder, value.column(number))]
        for number, field in enumerate(value.schema)
    ]
    return ["pa.table", [], columns, metadata, value.num_rows]


@builds("pa.table", list, dict, int)
def _build_table(frame: Frame, columns: list[Any], metadata: dict[str, Any], rows: int) -> pa.Table:
    check(len(columns) <= _MOST_COLUMNS, "the number of columns")
    fields, data = [], []
    for column in columns:
        check(isinstance(column, list), "a column")
        name, is_nullable, form = take(column, str, bool, list)
        data.append(read_chunks(frame, form))
        fields.append(pa.field(name, data[-1].type, is_nullable))
        check(len(data[-1]) == rows, "the length of a column")
    pairs = {bytes.fromhex(key): bytes.fromhex(one) for key, one in metadata.items()}
    table = pa.table(data, pa.schema(fields, pairs or None))
    table.validate(full=True)
    return table
