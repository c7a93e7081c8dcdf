"""Safe forms of numpy's arrays, scalars and random generators."""

from __future__ import annotations

import math
import re
from types import NoneType
from typing import Any, Final

import numpy as np

from tract_jupyter.rehearsal.values import Encoder, Frame, Node, builds, check, encodes, no_form, take

_SIMPLE: Final = re.compile(r"[<>|=][biufcSUVmM]\d{1,9}(\[\d{0,9}[A-Za-z]{1,3}\])?")
_MOST_DIMENSIONS: Final = 32
_LAST_CHARACTER: Final = 0x10FFFF
_SCALAR_TYPES: Final = tuple(
    kind
    for kind in set(np.sctypeDict.values())
    if kind not in {np.object_, np.bool_, np.longdouble, np.clongdouble}
)
_CONGRUENTIAL: Final = {"PCG64": np.random.PCG64, "PCG64DXSM": np.random.PCG64DXSM}
_TWISTER: Final = 624  # words of its state


# ---- types


def dtype_form(dtype: np.dtype[Any]) -> Any:
    """Return the JSON form of a dtype."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": dtype_form(base), "shape": list(shape)}
    if dtype.fields is not None:
        names = dtype.names or ()
        return {
            "names": list(names),
            "formats": [dtype_form(dtype.fields[name][0]) for name in names],
            "offsets": [dtype.fields[name][1] for name in names],
            "itemsize": dtype.itemsize,
        }
    if dtype.hasobject or not _SIMPLE.fullmatch(dtype.str) or dtype.type in {np.longdouble, np.clongdouble}:
        raise no_form(dtype, f"{dtype} has no safe form")
    return dtype.str


def read_dtype(form: Any, depth: int = 0) -> np.dtype[Any]:
    """Return the dtype of a JSON form."""
    check(depth < 10, "a dtype")  # noqa: PLR2004 # nested structures
    if isinstance(form, str):
        check(_SIMPLE.fullmatch(form) is not None, "a dtype")
        return np.dtype(form)
    check(isinstance(form, dict), "a dtype")
    if set(form) == {"base", "shape"}:
        return np.dtype((read_dtype(form["base"], depth + 1), read_shape(form["shape"])))
    check(set(form) == {"names", "formats", "offsets", "itemsize"}, "a dtype")
    check(all(isinstance(form[key], list) for key in ("names", "formats", "offsets")), "a dtype")
    check(all(type(name) is str for name in form["names"]), "a dtype")
    check(all(type(each) is int and each >= 0 for each in (*form["offsets"], form["itemsize"])), "a dtype")
    formats = [read_dtype(each, depth + 1) for each in form["formats"]]
    return np.dtype({**form, "formats": formats})


def read_shape(form: Any) -> tuple[int, ...]:
    """Return a shape."""
    check(isinstance(form, list) and len(form) <= _MOST_DIMENSIONS, "a shape")
    check(all(type(length) is int and 0 <= length < 2**62 for length in form), "a shape")
    return tuple(form)


# ---- arrays


def raw(array: np.ndarray[Any, Any]) -> memoryview | bytes:
    """Return the bytes of a contiguous array, without a copy."""
    return memoryview(array.reshape(-1, order="A").view(np.uint8)) if array.nbytes else b""


@encodes(np.ndarray)
def _array(encoder: Encoder, value: np.ndarray[Any, Any]) -> Node:
    shape = list(value.shape)
    if value.dtype == object:
        return ["np.objects", encoder.parts(value.ravel().tolist()), shape, value.flags.writeable]
    dtype = dtype_form(value.dtype)
    owner = value.base
    if type(owner) is np.ndarray and encoder.is_shared(owner) and owner.flags.c_contiguous:
        offset = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        return [
            "np.view",
            [encoder.part(owner)],
            dtype,
            shape,
            list(value.strides),
            offset,
            value.flags.writeable,
        ]
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    data = value if value.flags[f"{order}_CONTIGUOUS"] else np.ascontiguousarray(value)
    return ["np.array", [], dtype, shape, order, value.flags.writeable, encoder.buffer(raw(data))]


@builds("np.array", (str, dict), list, str, bool, int)
def _build_array(
    frame: Frame, form: Any, dimensions: list[Any], order: Any, is_writable: Any, number: int
) -> np.ndarray[Any, Any]:
    check(order in {"C", "F"}, "an order")
    dtype, shape, data = read_dtype(form), read_shape(dimensions), frame.buffer(number)
    check(math.prod(shape) * dtype.itemsize == len(data), "the size of an array")
    array = np.empty(shape, dtype, order=order)
    if len(data):
        array.reshape(-1, order="A").view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    _check_content(array)
    array.flags.writeable = is_writable
    return array


@builds("np.view", (str, dict), list, list, int, bool, parts=(np.ndarray,))
def _build_view(
    _: Frame,
    owner: np.ndarray[Any, Any],
    form: Any,
    dimensions: list[Any],
    strides: list[Any],
    offset: int,
    is_writable: Any,
) -> np.ndarray[Any, Any]:
    dtype, shape = read_dtype(form), read_shape(dimensions)
    check(not owner.dtype.hasobject and owner.flags.c_contiguous, "a view")
    check(
        len(strides) == len(shape) and all(type(one) is int and abs(one) < 2**48 for one in strides), "a view"
    )
    check(0 <= offset <= owner.nbytes, "a view")
    array = np.ndarray(shape, dtype, owner.reshape(-1).view(np.uint8), offset, tuple(strides))
    _check_content(array)
    array.flags.writeable = is_writable and owner.flags.writeable
    return array


def _check_content(array: np.ndarray[Any, Any]) -> None:
    """Refuse bytes that are no value of their type."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _check_content(array[name])
    elif dtype.kind == "b" and array.size:
        check(int(array.view(np.uint8).max()) <= 1, "a truth value")
    elif dtype.kind == "U" and array.nbytes:
        code = np.dtype(np.uint32).newbyteorder(dtype.byteorder)
        flat = np.ascontiguousarray(array).reshape(-1).view(code)
        check(int(flat.max()) <= _LAST_CHARACTER, "a character")


@builds("np.objects", list, bool, parts=None)
def _build_objects(
    _: Frame, parts: list[Any], dimensions: list[Any], is_writable: Any
) -> np.ndarray[Any, Any]:
    shape = read_shape(dimensions)
    check(math.prod(shape) == len(parts), "the size of an array")
    array = np.empty(len(parts), object)
    for place, part in enumerate(parts):
        array[place] = part
    array = array.reshape(shape)
    array.flags.writeable = is_writable
    return array


@encodes(*_SCALAR_TYPES, np.bool_)
def _number(encoder: Encoder, value: np.generic) -> Node:
    return ["np.scalar", [encoder.part(np.asarray(value))]]


@builds("np.scalar", parts=(np.ndarray,))
def _build_number(_: Frame, array: np.ndarray[Any, Any]) -> Any:
    check(array.shape == () and not array.dtype.hasobject, "a scalar")
    return array[()]


@encodes(np.ma.MaskedArray)
def _masked(encoder: Encoder, value: np.ma.MaskedArray[Any, Any]) -> Node:
    mask = None if value.mask is np.ma.nomask else np.asarray(value.mask)
    fill = np.asarray(value.fill_value, dtype=value.dtype)
    return ["np.masked", [encoder.part(part) for part in (np.asarray(value.data), mask, fill)]]


@builds("np.masked", parts=(np.ndarray, (np.ndarray, NoneType), np.ndarray))
def _build_masked(_: Frame, data: Any, mask: Any, fill: Any) -> np.ma.MaskedArray[Any, Any]:
    check(fill.shape == () and fill.dtype == data.dtype and not data.dtype.hasobject, "a fill value")
    check(mask is None or mask.shape == data.shape, "a mask")
    return np.ma.MaskedArray(data, np.ma.nomask if mask is None else mask, fill_value=fill[()])


@encodes(type(np.dtype("f8")), *(type(np.dtype(code)) for code in "?bBhHiIlLqQefdFDSUVMm"))
def _dtype(_: Encoder, value: np.dtype[Any]) -> Node:
    return ["np.dtype", [], dtype_form(value)]


@builds("np.dtype", (str, dict))
def _build_dtype(_: Frame, form: Any) -> np.dtype[Any]:
    return read_dtype(form)


# ---- random generators. A state with a position out of range would read memory of others, so each number is checked.


@encodes(np.random.Generator)
def _generator(encoder: Encoder, value: np.random.Generator) -> Node:
    bits = value.bit_generator
    name, state = type(bits).__name__, bits.state
    if name in _CONGRUENTIAL:
        numbers = [state["state"]["state"], state["state"]["inc"]]
    elif name == "MT19937":
        numbers = [*state["state"]["key"].tolist(), state["state"]["pos"]]
    else:
        raise no_form(bits)
    spare = [state.get("has_uint32", 0), state.get("uinteger", 0)]
    return ["np.generator", encoder.parts([*numbers, *spare]), name]


@builds("np.generator", str, parts=None)
def _build_generator(_: Frame, parts: list[Any], name: str) -> np.random.Generator:
    *numbers, has_spare, spare = take(parts, *[int] * len(parts))
    check(has_spare in {0, 1} and 0 <= spare < 2**32, "a random state")
    if name in _CONGRUENTIAL:
        check(len(numbers) == 2 and all(0 <= number < 2**128 for number in numbers), "a random state")  # noqa: PLR2004
        inner = {"state": numbers[0], "inc": numbers[1]}
        state = {"bit_generator": name, "state": inner, "has_uint32": has_spare, "uinteger": spare}
        made = _CONGRUENTIAL[name](0)
        made.state = state
        return np.random.Generator(made)
    check(name == "MT19937", "a random generator")
    key, place = _twister(numbers)
    twister = np.random.MT19937(0)
    twister.state = {"bit_generator": name, "state": {"key": key, "pos": place}}
    return np.random.Generator(twister)


def _twister(numbers: list[int]) -> tuple[np.ndarray[Any, Any], int]:
    check(len(numbers) == _TWISTER + 1 and all(0 <= number < 2**32 for number in numbers), "a random state")
    check(numbers[-1] <= _TWISTER, "a random state")
    return np.array(numbers[:-1], np.uint32), numbers[-1]


@encodes(np.random.RandomState)
def _random_state(encoder: Encoder, value: np.random.RandomState) -> Node:
    name, key, place, has_gauss, gauss = value.get_state(legacy=True)
    if name != "MT19937":
        raise no_form(value)
    return ["np.random_state", encoder.parts([*key.tolist(), place]), has_gauss, float(gauss)]


@builds("np.random_state", int, float, parts=None)
def _build_random_state(_: Frame, parts: list[Any], has_gauss: int, gauss: float) -> np.random.RandomState:
    key, place = _twister(list(take(parts, *[int] * len(parts))))
    made = np.random.RandomState(0)  # the user's generator
    made.set_state(("MT19937", key, place, int(bool(has_gauss)), gauss))
    return made
