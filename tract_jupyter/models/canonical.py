"""Canonical JSON and its hashes.

Equal values give equal bytes: sorted keys, no spaces, UTF-8, no NaN. A value without such a form (a lone surrogate, a
key that is not a string, an arbitrary object) is refused, because it could not be read back.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tract_jupyter.exceptions import ContentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def _encoder() -> Any:
    """Return the encoder that `JSONEncoder.iterencode` would otherwise build for each value."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return lambda value, _: _ENCODER.iterencode(value)
    return make(None, _ENCODER.default, encode_basestring, None, ":", ",", True, False, False)  # noqa: FBT003


_encode: Final[Callable[[Any, int], Iterable[str]]] = _encoder()
_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_BY_VALUE: Final = 2  # the format of `marshal` without references, so equal values have equal bytes
_DEEPEST: Final = 200  # data written from a shallow stack must be readable from a deep stack


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of `value`.

    Raises:
        ContentError: the value has no JSON form, or holds text that is not valid Unicode.
    """
    parts: Iterable[Any]
    waiting = [(value, 0)]  # keys and depth are checked with a stack, and here: this runs for every commit
    while waiting:
        container, depth = waiting.pop()
        if isinstance(container, dict):
            try:
                "".join(container)  # the fastest look at all keys
            except TypeError:
                wrong = next(key for key in container if not isinstance(key, str))
                raise ContentError(f"the value has no JSON form: the key {wrong!r} is not a string") from None
            parts = container.values()
        elif isinstance(container, list | tuple):
            parts = container
        else:
            continue
        if depth >= _DEEPEST:
            raise ContentError(f"the value is nested more than {_DEEPEST} levels deep, or contains itself")
        for part in parts:
            if type(part) not in _LEAVES:
                waiting.append((part, depth + 1))  # noqa: PERF401 # a generator is slower
    try:
        text = "".join(_encode(value, 0))
        text.encode()
    except UnicodeEncodeError as error:
        raise ContentError(
            f"the text has a lone surrogate ({error.object[error.start]!a}) and is not valid Unicode; "
            "repair it with text.encode('utf-8', 'replace').decode()"
        ) from None
    except (TypeError, ValueError) as error:
        raise ContentError(
            f"the value has no JSON form: {error}; use strings, numbers, booleans, None, lists and dicts"
        ) from None
    return text


def plain(value: Any) -> Any:
    """Return a copy of `value` as it would be read back."""
    if type(value) is str and value.isascii():  # nothing in it can be wrong
        return value
    return json.loads(canonical_json(value))


def frozen(value: Any) -> bytes | None:
    """Copy a value for `marshal.loads`; return None if it cannot be copied. Equal bytes have equal values and types."""
    try:
        return marshal.dumps(value, _BY_VALUE)
    except ValueError:  # of a subclass, such as an enumeration's member
        try:
            return marshal.dumps(plain(value), _BY_VALUE)
        except ContentError:
            return None


def read_strict_json(text: str, **options: Any) -> Any:
    """Read a JSON text, and refuse NaN and infinity. `json.loads` gets the `options`."""
    return json.loads(text, parse_constant=_refuse_constant, **options)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def digest(value: Any) -> str:
    """Return the sha256 of the canonical JSON of `value`, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256(data: bytes) -> str:
    """Return the sha256 of bytes, as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()
