"""Safe forms of values: data that a hostile process may have written, and that executes nothing when it is read.

A value is a table of nodes in JSON, followed by raw buffers. A node is `[tag, parts, ...]`. A part is a JSON scalar, or
`[number]` for another node, so shared and cyclic references are kept. Later values of the same encoder may refer to
nodes of earlier values. Only exact types have a form: a subclass may have code of its own.
"""

from __future__ import annotations

import json
import re
import sys
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from random import Random
from types import NoneType
from typing import Any, Final
from uuid import UUID

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.models import cut

Buffer = bytes | bytearray | memoryview
Node = list[Any]
Encode = Callable[["Encoder", Any], Node]
Field = type | tuple[type, ...]
Build = tuple[Callable[..., Any], tuple[Field, ...] | None, tuple[Field, ...]]
"""A function, the exact types of the parts, and the exact types of the rest of a node."""

MOST_BUFFERS: Final = 1_000_000
_MOST_TEXT: Final = 512 * 1024**2
_MOST_EQUAL_HASHES: Final = 1_000
_LARGEST_KEY: Final = 10_000
_MOST_HASHED: Final = 10_000_000
_MISSING: Final = object()
_LIBRARIES: Final = {  # the module of this package that knows the types of a library
    "numpy": "arrays",
    "pandas": "frames",
    "pyarrow": "arrow",
    "polars": "polars_frames",
}
_TAG_LIBRARIES: Final = {"np": "arrays", "pd": "frames", "pa": "arrow", "pl": "polars_frames"}


class UnsafeValueError(RehearsalError):
    """A value has no safe form. The message is the reason: `a LinearRegression has no safe form`."""


def no_form(value: Any, reason: str = "has no safe form") -> UnsafeValueError:
    """Return the error about a value without a safe form."""
    name = cut(type(value).__name__, 60)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return UnsafeValueError(f"{article} {name} {reason}")


class Encoder:
    """Writes values. The values must not change before their buffers were sent.

    Args:
        known: The id of an object that the reader has, too, and its name there. Only the name is written.
        owners: The ids of arrays that are written. A view of one of them is written as a view.
    """

    def __init__(self, known: Mapping[int, str] | None = None, owners: Collection[int] = ()) -> None:
        self._known = known or {}
        self._owners = owners
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is unique only among living objects
        self._nodes: list[Any] = []
        self._pending: list[tuple[int, Any]] = []
        self._buffers: list[Buffer] = []
        self._first = 0

    def encode(self, value: Any) -> list[Buffer]:
        """Return the form of a value: a table of nodes as JSON, then its buffers.

        Raises:
            UnsafeValueError: the value, or a part of it, has no safe form.
        """
        before = set(self._numbers), len(self._alive)
        self._nodes, self._pending, self._buffers = [], [], [b""]
        try:
            root = self.part(value)
            while self._pending:
                number, part = self._pending.pop()
                self._nodes[number - self._first] = self.node(part)
            table = {"first": self._first, "nodes": self._nodes, "root": root}
            self._buffers[0] = json.dumps(table, separators=(",", ":")).encode("ascii")
        except BaseException:
            self._numbers = {key: number for key, number in self._numbers.items() if key in before[0]}
            del self._alive[before[1] :]
            raise
        self._first += len(self._nodes)
        return self._buffers

    def part(self, value: Any) -> Any:
        """Return a scalar, or a reference to the node of the value."""
        if _is_plain(value):
            return value
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = self._first + len(self._nodes)
            self._alive.append(value)
            self._nodes.append(None)
            self._pending.append((number, value))
        return [number]

    def forget(self, value: Any) -> None:
        """Write a value again, although it was written before."""
        self._numbers.pop(id(value), None)

    def parts(self, values: Sequence[Any]) -> list[Any]:
        """Return the part of each value."""
        if _are_plain(values):
            return list(values)
        return list(map(self.part, values))

    def is_shared(self, value: Any) -> bool:
        """Return True if the reader has this object anyway."""
        return id(value) in self._owners or id(value) in self._numbers or id(value) in self._known

    def buffer(self, data: Buffer) -> int:
        """Add a buffer, and return its number."""
        self._buffers.append(data)
        return len(self._buffers) - 1

    def node(self, value: Any) -> Node:
        """Return the node of a value."""
        name = self._known.get(id(value))
        if name is not None:
            return ["known", [], name]
        encode = _encoder_of(type(value))
        if encode is None:
            return self.unknown(value)
        return encode(self, value)

    def unknown(self, value: Any) -> Node:
        """Refuse a value whose type has no safe form."""
        raise _refusal(value)


def _refusal(value: Any) -> UnsafeValueError:
    for base in (list, dict, tuple, set, str, int, float):
        if isinstance(value, base):
            return no_form(value, f"is a subclass of {base.__name__}, and has no safe form")
    return no_form(value)


_PLAIN_INT: Final = 2**63
_PLAIN_KINDS: Final = frozenset({str, int, float, bool, NoneType})


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_unicode(value)
    if kind is int:
        return -_PLAIN_INT < value < _PLAIN_INT
    return kind is float or kind is bool or value is None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_plain(values: Sequence[Any]) -> bool:
    kinds = set(map(type, values))
    if not kinds <= _PLAIN_KINDS:
        return False
    if str in kinds and not _is_plain("".join([value for value in values if type(value) is str])):
        return False
    numbers = [value for value in values if type(value) is int] if int in kinds else [0]
    return min(numbers) > -_PLAIN_INT and max(numbers) < _PLAIN_INT


_ENCODERS: Final[dict[type, Encode]] = {}
_BUILDERS: Final[dict[str, Build]] = {}
_SHELLS: Final[dict[str, tuple[Callable[[list[Any]], Any], Callable[[Frame, Any, list[Any]], None]]]] = {}


def encodes(*kinds: type) -> Callable[[Encode], Encode]:
    """Register a function that writes values of exactly these types."""

    def register(function: Encode) -> Encode:
        _ENCODERS.update(dict.fromkeys(kinds, function))
        return function

    return register


def builds(
    tag: str, *rest: Field, parts: tuple[Field, ...] | None = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that reads nodes with a tag: `(frame, *parts, *rest) -> value`.

    Args:
        tag: The tag.
        rest: The exact types of the values after the parts.
        parts: The exact types of the parts; None for any, which the function gets as one list.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _BUILDERS[tag] = function, parts, rest
        return function

    return register


def _encoder_of(kind: type) -> Encode | None:
    found = _ENCODERS.get(kind)
    if found is None:
        _load(_LIBRARIES.get(str(getattr(kind, "__module__", "")).partition(".")[0]))
        found = _ENCODERS.get(kind)
    return found


def load_forms() -> None:
    """Load the forms for the libraries of this process, before a fork needs them."""
    for library in _LIBRARIES.keys() & sys.modules.keys():
        _load(_LIBRARIES[library])


def _load(module: str | None) -> None:
    if module is not None:
        import_module(f"tract_jupyter.rehearsal.{module}")


# ---- reading


class Decoder:
    """Reads values that an `Encoder` wrote, which may refer to the `known` objects by name. The data may be hostile."""

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        self.known = known if known is not None else {}
        self.built: list[Any] = []

    def decode(self, buffers: Sequence[Buffer]) -> Any:
        """Return the value.

        Raises:
            RehearsalError: the data is malformed, or too large.
        """
        size = len(self.built)
        try:
            return Frame(self, buffers).value()
        except RehearsalError:
            del self.built[size:]
            raise
        except Exception as error:  # noqa: BLE001 # hostile data may raise anything in a library
            del self.built[size:]
            raise malformed(f"{type(error).__name__}: {cut(str(error), 200)}") from None


def malformed(reason: str) -> RehearsalError:
    """Return the error about data that cannot be read."""
    return RehearsalError(
        f"The result of the rehearsal cannot be read: {reason}. Rehearse again, or run the code."
    )


class Frame:
    """The table of nodes of one value, while it is read."""

    def __init__(self, decoder: Decoder, buffers: Sequence[Buffer]) -> None:
        check(0 < len(buffers) <= MOST_BUFFERS, "the number of buffers")
        check(len(buffers[0]) <= _MOST_TEXT, "a table of nodes that is too large")
        table = json.loads(bytes(buffers[0]))
        check(isinstance(table, dict) and set(table) == {"first", "nodes", "root"}, "the table of nodes")
        self.known = decoder.known
        self._buffers = buffers
        self._nodes = table["nodes"]
        self._root = table["root"]
        self._built = decoder.built
        self._first = len(self._built)
        self._later: list[Callable[[], None]] = []
        self.check_keys = _Keys(_MOST_HASHED + len(buffers[0])).check
        check(table["first"] == self._first and isinstance(self._nodes, list), "the numbers of the nodes")
        self._built.extend([_MISSING] * len(self._nodes))

    def value(self) -> Any:
        """Build the value with all nodes that it needs."""
        shells = self._resolve(_references([self._root]))
        while shells:
            number = shells.pop()
            tag, parts, *_ = self._node(number)
            shells += self._resolve(_references(parts))
            _SHELLS[tag][1](self, self._built[number], self._values(parts))
        for finish in self._later:
            finish()
        return self._values([self._root])[0]

    def buffer(self, number: Any) -> memoryview:
        """Return a buffer of the value."""
        check(type(number) is int and 0 < number < len(self._buffers), "the number of a buffer")
        return memoryview(self._buffers[number]).cast("B")

    def later(self, function: Callable[[], None]) -> None:
        """Call a function when all containers have their content."""
        self._later.append(function)

    def _node(self, number: int) -> Node:
        check(number >= self._first, "a reference to a node of another value")
        node = self._nodes[number - self._first]
        check(
            isinstance(node, list)
            and len(node) > 1
            and isinstance(node[0], str)
            and isinstance(node[1], list),
            "a node",
        )
        return node

    def _resolve(self, numbers: list[int]) -> list[int]:
        """Build nodes and the nodes that they need. Return the numbers of containers that are still empty."""
        shells: list[int] = []
        stack, opened = numbers, set()
        while stack:
            number = stack[-1]
            check(number < len(self._built), "the number of a node")
            if self._built[number] is not _MISSING:
                stack.pop()
                continue
            tag, parts, *rest = self._node(number)
            if tag in _SHELLS:
                self._built[number] = _SHELLS[tag][0](rest)
                shells.append(number)
                continue
            needed = [each for each in _references(parts) if self._at(each) is _MISSING]
            if needed:
                check(number not in opened, "a cycle without a container")
                opened.add(number)
                stack += needed
                continue
            build, kinds, fields = _builder(tag)
            values = self._values(parts)
            known = [values] if kinds is None else take(values, *kinds)
            self._built[number] = build(self, *known, *take(rest, *fields))
        return shells

    def _at(self, number: int) -> Any:
        check(number < len(self._built), "the number of a node")
        return self._built[number]

    def _values(self, parts: list[Any]) -> list[Any]:
        if list not in set(map(type, parts)):
            return parts
        return [self._built[part[0]] if type(part) is list else part for part in parts]


def _builder(tag: str) -> Build:
    found = _BUILDERS.get(tag)
    if found is None:
        _load(_TAG_LIBRARIES.get(tag.partition(".")[0]))
        found = _BUILDERS.get(tag)
    check(found is not None, f"unknown tag {cut(tag, 20)!r}")
    assert found is not None  # noqa: S101 # for the type checker
    return found


_SCALARS: Final = frozenset({str, int, float, bool, NoneType})


def _references(parts: list[Any]) -> list[int]:
    kinds = set(map(type, parts))
    check(kinds <= _SCALARS | {list}, "a part of a node")
    if list not in kinds:
        return []
    found = [part for part in parts if type(part) is list]
    check(all(len(part) == 1 and type(part[0]) is int and part[0] >= 0 for part in found), "a reference")
    return [part[0] for part in found]


def check(is_valid: bool, reason: str) -> None:  # noqa: FBT001 # the condition
    """Refuse malformed data if the condition is false."""
    if not is_valid:
        raise malformed(f"invalid data ({reason})")


def take(values: Sequence[Any], *kinds: Field) -> Sequence[Any]:
    """Return values that must have exactly these types."""
    check(len(values) == len(kinds), "the number of fields")
    for value, kind in zip(values, kinds, strict=True):
        allowed = kind if isinstance(kind, tuple) else (kind,)
        check(type(value) in allowed, f"a {type(value).__name__} in place of another value")
    return values


class _Keys:
    """The keys of one value. Keys may share parts, so their size can be exponential in the size of the data.

    Args:
        most: The maximum of hashed parts, and of comparisons of keys with equal hashes.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._sizes: dict[
            int, int
        ] = {}  # by the id of a tuple or frozenset, which lives as long as the value

    def check(self, keys: Sequence[Any]) -> None:
        """Refuse keys that run code when they are hashed, and keys that take too long to hash or to compare."""
        if set(map(type, keys)) <= _SCALARS - {int, float}:
            return
        sizes = list(map(self._size, keys))
        self._spend(sum(sizes))
        counts = Counter(map(hash, keys))
        if len(counts) == len(keys):
            return
        check(max(counts.values()) <= _MOST_EQUAL_HASHES, "keys with equal hashes")
        self._spend(max(sizes) * sum(count * count for count in counts.values() if count > 1))

    def _spend(self, number: int) -> None:
        self._left -= number
        check(self._left >= 0, "keys that take too long to hash")

    def _size(self, key: Any) -> int:
        kind = type(key)
        if kind is not tuple and kind is not frozenset:
            check(kind in _SCALARS or kind in _ENCODERS, "a key")
            return 1
        size = self._sizes.get(id(key))
        if size is None:
            check(len(key) < _LARGEST_KEY, "a large key")
            size = self._sizes[id(key)] = 1 + sum(map(self._size, key))
            check(size <= _LARGEST_KEY, "a large key")
        return size


# ---- containers


@encodes(list)
def _list(encoder: Encoder, value: list[Any]) -> Node:
    return ["list", encoder.parts(value)]


@encodes(tuple)
def _tuple(encoder: Encoder, value: tuple[Any, ...]) -> Node:
    return ["tuple", encoder.parts(value)]


@encodes(set, frozenset)
def _set(encoder: Encoder, value: set[Any] | frozenset[Any]) -> Node:
    members = list(value)
    if set(map(type, members)) <= {str} or set(map(type, members)) <= {int}:
        members.sort()  # a digest must not depend on the order
    return [type(value).__name__, encoder.parts(members)]


@encodes(dict, Counter, OrderedDict)
def _dict(encoder: Encoder, value: dict[Any, Any]) -> Node:
    return [type(value).__name__, encoder.parts([*value, *value.values()])]


_FACTORIES: Final = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple)}


@encodes(defaultdict)
def _default(encoder: Encoder, value: defaultdict[Any, Any]) -> Node:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        raise no_form(value, "with a function has no safe form")
    name = None if factory is None else factory.__name__
    return ["defaultdict", encoder.parts([*value, *value.values()]), name]


@encodes(deque)
def _deque(encoder: Encoder, value: deque[Any]) -> Node:
    return ["deque", encoder.parts(list(value)), value.maxlen]


def _fill_set(frame: Frame, shell: set[Any], parts: list[Any]) -> None:
    frame.check_keys(parts)
    shell.update(parts)


def _fill_dict(frame: Frame, shell: dict[Any, Any], parts: list[Any]) -> None:
    check(len(parts) % 2 == 0, "the keys of a dict")
    half = len(parts) // 2
    frame.check_keys(parts[:half])
    shell.update(zip(parts[:half], parts[half:], strict=True))


def _fill_counter(frame: Frame, shell: Counter[Any], parts: list[Any]) -> None:
    counts: dict[Any, Any] = {}
    _fill_dict(frame, counts, parts)
    dict.update(shell, counts)  # its own method would add


def _fill(_: Frame, shell: list[Any] | deque[Any], parts: list[Any]) -> None:
    shell.extend(parts)


def _shell(kind: type) -> Callable[[list[Any]], Any]:
    def make(rest: list[Any]) -> Any:
        take(rest)
        return kind()

    return make


def _shell_deque(rest: list[Any]) -> deque[Any]:
    (most,) = take(rest, (int, NoneType))
    return deque(maxlen=most)


def _shell_default(rest: list[Any]) -> defaultdict[Any, Any]:
    (name,) = take(rest, (str, NoneType))
    check(name is None or name in _FACTORIES, "a factory")
    return defaultdict(None if name is None else _FACTORIES[name])


_SHELLS.update(
    {
        "list": (_shell(list), _fill),
        "deque": (_shell_deque, _fill),
        "set": (_shell(set), _fill_set),
        "dict": (_shell(dict), _fill_dict),
        "Counter": (_shell(Counter), _fill_counter),
        "OrderedDict": (_shell(OrderedDict), _fill_dict),
        "defaultdict": (_shell_default, _fill_dict),
    }
)


@builds("tuple", parts=None)
def _build_tuple(_: Frame, parts: list[Any]) -> tuple[Any, ...]:
    return tuple(parts)


@builds("frozenset", parts=None)
def _build_frozenset(frame: Frame, parts: list[Any]) -> frozenset[Any]:
    frame.check_keys(parts)
    return frozenset(parts)


@builds("known", str)
def _build_known(frame: Frame, name: str) -> Any:
    check(name in frame.known, "a reference to an unknown variable")
    return frame.known[name]


# ---- scalars


def scalar(
    kind: type, tag: str, write: Callable[[Any], list[Any]], read: Callable[..., Any], *fields: Any
) -> None:
    """Add a type that is made from JSON scalars of fixed types."""
    encodes(kind)(lambda _, value: [tag, [], *write(value)])
    builds(tag, *fields)(lambda _, *rest: read(*rest))


def _read_int(text: str) -> int:
    check(re.fullmatch(r"-?0x[0-9a-f]+", text) is not None, "an integer")
    return int(text, 16)


def _read_decimal(text: str) -> Decimal:
    check(len(text) < 10_000_000 and text.isascii(), "a decimal number")  # noqa: PLR2004 # 10 million digits
    return Decimal(text)


def _read_text(data: str) -> str:
    return bytes.fromhex(data).decode("utf-32-le", "surrogatepass")


def _write_zone(value: zoneinfo.ZoneInfo) -> list[Any]:
    if value.key not in _zones():
        raise no_form(value, "without a known key has no safe form")
    return [value.key]


def _read_zone(key: str) -> zoneinfo.ZoneInfo:
    check(key in _zones(), "a time zone")
    return zoneinfo.ZoneInfo(key)


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


scalar(int, "int", lambda value: [hex(value)], _read_int, str)
scalar(str, "str", lambda value: [value.encode("utf-32-le", "surrogatepass").hex()], _read_text, str)
scalar(complex, "complex", lambda value: [value.real, value.imag], complex, float, float)
scalar(Decimal, "Decimal", lambda value: [str(value)], _read_decimal, str)
scalar(UUID, "UUID", lambda value: [value.hex], UUID, str)
scalar(zoneinfo.ZoneInfo, "ZoneInfo", _write_zone, _read_zone, str)
scalar(date, "date", lambda value: [value.isoformat()], date.fromisoformat, str)
scalar(
    timedelta,
    "timedelta",
    lambda value: [value.days, value.seconds, value.microseconds],
    timedelta,
    int,
    int,
    int,
)
scalar(type(...), "Ellipsis", lambda _: [], lambda: ...)
scalar(type(NotImplemented), "NotImplemented", lambda _: [], lambda: NotImplemented)
for _kind in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath):
    scalar(_kind, _kind.__name__, lambda value: [str(value)], _kind, str)


@encodes(timezone)
def _timezone(encoder: Encoder, value: timezone) -> Node:
    offset = value.utcoffset(None)
    if value == UTC:
        return ["utc", []]
    return ["timezone", [encoder.part(offset)], value.tzname(None)]


@builds("utc")
def _build_utc(_: Frame) -> timezone:
    return UTC


@builds("timezone", str, parts=(timedelta,))
def _build_timezone(_: Frame, offset: timedelta, name: str) -> timezone:
    plain = timezone(offset)
    return plain if plain.tzname(None) == name else timezone(offset, name)


@encodes(datetime, time)
def _moment(encoder: Encoder, value: datetime | time) -> Node:
    naive = value.replace(tzinfo=None, fold=0)
    return [type(value).__name__, [encoder.part(value.tzinfo)], naive.isoformat(), value.fold]


ZONES: Final = (NoneType, timezone, zoneinfo.ZoneInfo)


@builds("datetime", str, int, parts=(ZONES,))
@builds("time", str, int, parts=(ZONES,))
def _build_moment(
    _: Frame, zone: timezone | zoneinfo.ZoneInfo | None, text: str, fold: int
) -> datetime | time:
    kind = datetime if "T" in text else time
    naive = kind.fromisoformat(text)
    check(naive.tzinfo is None, "a time with two zones")
    return naive.replace(tzinfo=zone, fold=fold)


@encodes(Fraction)
def _fraction(encoder: Encoder, value: Fraction) -> Node:
    return ["Fraction", encoder.parts([value.numerator, value.denominator])]


@builds("Fraction", parts=(int, int))
def _build_fraction(_: Frame, numerator: int, denominator: int) -> Fraction:
    check(max(numerator.bit_length(), denominator.bit_length()) < 100_000, "a fraction")  # noqa: PLR2004 # gcd is quadratic
    return Fraction(numerator, denominator)


@encodes(range, slice)
def _range(encoder: Encoder, value: range | slice) -> Node:
    return [type(value).__name__, [encoder.part(part) for part in (value.start, value.stop, value.step)]]


@builds("range", parts=(int, int, int))
def _build_range(_: Frame, start: int, stop: int, step: int) -> range:
    return range(start, stop, step)


@builds("slice", parts=None)
def _build_slice(_: Frame, parts: list[Any]) -> slice:
    check(len(parts) == 3, "a slice")  # noqa: PLR2004 # start, stop and step
    return slice(*parts)


@encodes(bytes, bytearray)
def _bytes(encoder: Encoder, value: bytes | bytearray) -> Node:
    return [type(value).__name__, [], encoder.buffer(value)]


@builds("bytes", int)
def _build_bytes(frame: Frame, number: int) -> bytes:
    return bytes(frame.buffer(number))


@builds("bytearray", int)
def _build_bytearray(frame: Frame, number: int) -> bytearray:
    return bytearray(frame.buffer(number))


@encodes(Random)
def _random(encoder: Encoder, value: Random) -> Node:
    return ["Random", [encoder.part(value.getstate())]]


@builds("Random", parts=(tuple,))
def _build_random(_: Frame, state: tuple[Any, ...]) -> Random:
    made = Random()  # noqa: S311 # the user's generator
    made.setstate(state)
    return made


def encoded(value: Any, encoder: Encoder) -> tuple[dict[str, Any], list[Buffer]]:
    """Return a header with the sizes of the buffers of a value, and the buffers. `split` reads them."""
    buffers = encoder.encode(value)
    return {"sizes": [memoryview(one).nbytes for one in buffers]}, buffers


def split(payload: Buffer, sizes: Sequence[Any]) -> list[memoryview]:
    """Return the buffers of a payload, by their sizes in bytes."""
    view = memoryview(payload).cast("B")
    check(
        len(sizes) <= MOST_BUFFERS and all(type(size) is int and size >= 0 for size in sizes),
        "the sizes of buffers",
    )
    check(sum(sizes) == len(view), "the sizes of buffers")
    found, at = [], 0
    for size in sizes:
        found.append(view[at : at + size])
        at += size
    return found
