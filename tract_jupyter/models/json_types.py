"""From JSON Schema to Python's types.

A type is wider than the schema where Python has no words for it, hardly ever narrower. How much is read is bounded,
since references can make a short schema stand for an endless one; the rest is `Any`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.models.json_schema import Place

_MOST_READ: Final = 2_000
"""Schemas that are read for one tool."""

_DEEPEST: Final = 20
_MOST_CHOICES: Final = 50
_LONGEST_CHOICE: Final = 60
_PLAIN: Final[dict[str, Any]] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "null": None,
}  # fmt: skip
_EXTRAS: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})


class Member(NamedTuple):
    """One property of an object: all schemas that describe it, and whether it must be given."""

    places: tuple[Place, ...] = ()
    required: bool = False

    @property
    def described(self) -> dict[str, Any]:
        """The first schema that says something."""
        return next((p.schema for p in self.places if isinstance(p.schema, dict) and p.schema), {})


@dataclass(eq=False)
class Record:
    """The type of an object with known properties. They are filled in later, since one may hold the like of itself."""

    members: dict[str, RecordMember] = field(default_factory=dict)


class RecordMember(NamedTuple):
    """One property of a record."""

    annotation: Any
    required: bool
    description: str


class TypeReader:
    """Reads the types of one document.

    Args:
        root: the whole.
        records: whether objects are `Record`s, or `dict[str, Any]`.
    """

    def __init__(self, root: Place, *, records: bool = False) -> None:
        self.root = root
        self._left = _MOST_READ
        self._wants_records = records
        self._records: dict[int, Record] = {}
        self._reading: set[int] = set()

    def members(self) -> dict[str, Member]:
        """The properties of the whole, whichever part of it names them."""
        return self._members(self.root)

    def type_of(self, member: Member) -> Any:
        """The type of a property: what any of its schemas may stand for."""
        return _union(map(self.read, member.places)) if member.places else Any

    def read(self, place: Place) -> Any:
        """The type that a schema stands for."""
        key = id(place.schema)
        if key in self._records:
            return self._records[key]
        if not isinstance(place.schema, dict) or key in self._reading:
            return Any
        if len(self._reading) >= _DEEPEST or not self._enter():
            return Any
        self._reading.add(key)
        try:
            return self._read(place)
        finally:
            self._reading.discard(key)

    def says_what_else(self) -> bool:
        """Whether the whole says something about properties that it does not name, or names none."""
        parts = list(self._parts(self.root))
        return any(not _EXTRAS.isdisjoint(part) for part in parts) or not any(
            "properties" in p for p in parts
        )

    def is_open(self) -> bool:
        """Whether there may be properties that the whole does not name."""
        return self.says_what_else() and not any(
            part.get("additionalProperties") is False or part.get("unevaluatedProperties") is False
            for part in self._parts(self.root)
        )

    def _enter(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def _read(self, place: Place) -> Any:
        schema = place.schema
        if "$ref" in schema:
            return self.read(place.target())
        if "const" in schema or "enum" in schema:
            return _choices(schema.get("enum", [schema.get("const")]))
        kinds = schema.get("type") or _implied(schema)
        if kinds:
            return _union(
                self._of_kind(kind, place) for kind in ([kinds] if isinstance(kinds, str) else kinds)
            )
        for parts in place.alternatives():
            return _union(map(self.read, parts))
        return next((made for made in map(self.read, place.every()) if made is not Any), Any)

    def _of_kind(self, kind: str, place: Place) -> Any:
        if kind == "array":
            items = place.schema.get("items", True)
            return list[Any if isinstance(items, list) else self.read(place.within(items))]  # type: ignore[misc]
        if kind == "object":
            return self._object(place)
        return _PLAIN.get(kind, Any)

    def _object(self, place: Place) -> Any:
        others = place.schema.get("additionalProperties")
        is_mapping = others is not None and others is not False
        if is_mapping and "properties" not in place.schema:
            return dict[str, self.read(place.within(others))]  # type: ignore[misc]
        members = {} if is_mapping or not self._wants_records else self._members(place)
        if not members:
            return dict[str, Any]
        record = self._records[id(place.schema)] = Record()
        for name, member in members.items():
            text = str(member.described.get("description", ""))
            record.members[name] = RecordMember(self.type_of(member), member.required, text)
        return record

    def _members(self, place: Place, depth: int = 0) -> dict[str, Member]:
        schema = place.schema
        if not isinstance(schema, dict) or depth > _DEEPEST or not self._enter():
            return {}
        named = schema.get("properties", {})
        found = {name: Member((place.within(part),)) for name, part in named.items() if part is not False}
        for part in place.every():
            _add(found, self._members(part, depth + 1))
        for parts in place.alternatives():
            _add(found, _either([self._members(part, depth + 1) for part in parts]))
        for part in place.sometimes():
            _add(found, _either([self._members(part, depth + 1), {}]))
        for name in schema.get("required", ()):
            found[name] = found.get(name, Member())._replace(required=True)
        return found

    def _parts(self, place: Place, depth: int = 0) -> Iterator[dict[str, Any]]:
        """The schemas that may apply to the same value as this one."""
        if not isinstance(place.schema, dict) or depth > _DEEPEST or not self._enter():
            return
        yield place.schema
        for part in chain(place.every(), *place.alternatives(), place.sometimes()):
            yield from self._parts(part, depth + 1)


def _add(found: dict[str, Member], others: dict[str, Member]) -> None:
    """Add what must hold as well; of two schemas for one property, either is wide enough."""
    for name, other in others.items():
        mine = found.get(name, Member())
        found[name] = Member(mine.places or other.places, mine.required or other.required)


def _either(branches: list[dict[str, Member]]) -> dict[str, Member]:
    """What holds if one of several does, whichever."""
    found: dict[str, Member] = {}
    for name in dict.fromkeys(chain(*branches)):
        members = [branch.get(name, Member()) for branch in branches]
        found[name] = Member(tuple(chain(*(m.places for m in members))), all(m.required for m in members))
    return found


def _implied(schema: dict[str, Any]) -> str:
    """The kind of value that a schema is about, where it does not say so."""
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else ""


def _choices(values: list[Any]) -> Any:
    plain = [v for v in values if v is None or isinstance(v, str | int)]
    if len(plain) <= _MOST_CHOICES and all(len(str(value)) <= _LONGEST_CHOICE for value in plain):
        kinds = [Literal[tuple(plain)]] if plain else []
        rest = [value for value in values if isinstance(value, float | list | dict)]
    else:
        kinds, rest = [], values
    return _union([*kinds, *dict.fromkeys(map(_kind_of, rest))])


def _kind_of(value: Any) -> Any:
    if isinstance(value, dict):
        return dict[str, Any]
    return list[Any] if isinstance(value, list) else type(value)


def _union(kinds: Iterable[Any]) -> Any:
    different = tuple(dict.fromkeys(kinds))
    if not different or Any in different:
        return Any
    choices = tuple(chain.from_iterable(get_args(kind) for kind in different if get_origin(kind) is Literal))
    rest = tuple(kind for kind in different if get_origin(kind) is not Literal)
    return Union[((Literal[choices], *rest) if choices else rest)]  # noqa: UP007 # as many as there are
