"""Python types: from text such as `"list[str]"`, to text, and from a JSON Schema.

A specification may come from a model, so its type names are parsed into a syntax tree and mapped through a table.
Nothing is evaluated.

A type from a schema is wider than the schema if Python cannot express it, and hardly ever narrower. The size of the
type is bounded, because references can make a short schema endless; the rest is `Any`.
"""

from __future__ import annotations

import ast
import inspect
import types
import typing
from dataclasses import dataclass, field
from itertools import chain
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Optional,
    Required,
    Union,
    get_args,
    get_origin,
)

from typing_extensions import is_typeddict

from tract_jupyter.exceptions import SpecError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tract_jupyter.models.schema.json_schema import SchemaNode


class JsonType(NamedTuple):
    """A JSON type: the Python type of its values, and its name in messages."""

    python: Any
    wanted: str


JSON_TYPES: Final = {
    "string": JsonType(str, "a valid string"),
    "integer": JsonType(int, "a valid integer"),
    "number": JsonType(float, "a valid number"),
    "boolean": JsonType(bool, "a valid boolean"),
    "array": JsonType(list, "a valid list"),
    "object": JsonType(dict, "a valid dictionary"),
    "null": JsonType(None, "None"),
}
"""Every type of JSON by its name in a schema: the one table between JSON's types and Python's."""

CONTAINERS: Final = frozenset({list, dict, tuple, set, frozenset})
"""The types with parts in brackets."""

_NAMES: Final = {name: getattr(kind.python, "__name__", "None") for name, kind in JSON_TYPES.items()}
_BY_NAME: Final[dict[str, Any]] = {
    **{_NAMES[name]: kind.python for name, kind in JSON_TYPES.items()}, "Any": Any, "object": Any,
}  # fmt: skip
_SUBSCRIPTED: Final = frozenset({"list", "dict", "Literal", "Optional", "Union"})
_MISTAKEN: Final = {**_NAMES, "List": "list", "Dict": "dict", "text": "str"}
"""Names that people and models write, with the names that they mean."""

_MAX_LENGTH = 500


def parse_type(text: str) -> Any:
    """Convert a type expression to the type that pydantic validates.

    Args:
        text: `str int float bool list dict Any None`, `list[T]`, `dict[str, T]`, `T | U`, `Optional[T]`,
            `Union[T, U]` and `Literal[...]`, nested as needed.
    """
    if not isinstance(text, str):
        raise SpecError(f"a type name must be a string such as 'list[str]', not {type(text).__name__}")
    if len(text) > _MAX_LENGTH:
        raise SpecError(f"the type name is {len(text)} characters long; {_MAX_LENGTH} is the maximum")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(
            f"{text!r} is not a type name; use for example 'str', 'list[str]' or 'int | None'"
        ) from None
    return _convert(tree, text)


def _convert(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Name):
        return _named(node.id)
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[_convert(node.left, text), _convert(node.right, text)]  # noqa: UP007
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _subscripted(node.value.id, node.slice, text)
    raise SpecError(f"{text!r} is not a type name; use for example 'str', 'list[str]' or 'int | None'")


def _named(name: str) -> Any:
    if name in _BY_NAME:
        return _BY_NAME[name]
    known = sorted(_SUBSCRIPTED | _BY_NAME.keys())
    hint = f" Did you mean {_MISTAKEN[name]!r}?" if name in _MISTAKEN else nearest(name, known)
    raise SpecError(f"unknown type name {name!r}.{hint} Known are: {', '.join(known)}")


def _subscripted(name: str, index: ast.expr, text: str) -> Any:
    arguments = index.elts if isinstance(index, ast.Tuple) else [index]
    if not arguments:
        raise SpecError(f"the brackets of {name!r} are empty, in {text!r}")
    if name == "Literal":
        return Literal[tuple(_literal(argument, text) for argument in arguments)]
    if name not in _SUBSCRIPTED:
        _named(name)
        raise SpecError(f"{name!r} takes no type in brackets, in {text!r}")
    types = [_convert(argument, text) for argument in arguments]
    if name == "Union":
        return Union[tuple(types)]  # noqa: UP007
    if len(types) != (2 if name == "dict" else 1):
        raise SpecError(
            f"{name}[...] takes {'a key and a value' if name == 'dict' else 'one'} type, in {text!r}"
        )
    if name == "dict":
        if types[0] is not str:
            raise SpecError(f"the keys of a dict are strings, as in JSON: write 'dict[str, ...]' in {text!r}")
        return dict[str, types[1]]  # type: ignore[valid-type]
    return list[types[0]] if name == "list" else Optional[types[0]]  # type: ignore[valid-type] # noqa: UP045


def _literal(node: ast.expr, text: str) -> str | int | bool | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if value is None or isinstance(value, str | int | bool):
        return value
    raise SpecError(f"Literal takes strings, integers, booleans and None, in {text!r}")


_WRITTEN = (str, bytes, int, type(None))  # literals in code


def type_name(annotation: Any) -> str:
    """Return the name of a type without parts."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        return annotation.__name__
    return "..." if annotation is ... else inspect.formatannotation(annotation).replace("typing.", "")


def type_text(annotation: Any, name: Callable[[Any], str] = type_name) -> str:
    """Return the type in Python syntax: `list[str]`, not `<class 'list'>`. `name` returns the name of each part."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return " | ".join(type_text(part, name) for part in parts)
    if origin is Literal and all(isinstance(part, _WRITTEN) for part in parts):
        return f"{name(origin)}[{', '.join(map(repr, parts))}]"
    if origin is Annotated:
        return type_text(parts[0], name)
    if origin in CONTAINERS and parts:
        return f"{name(origin)}[{', '.join(type_text(part, name) for part in parts)}]"
    return name(annotation)


_LEAVES: Final = frozenset({*_BY_NAME.values(), type(None)})
_COMPOSED: Final = frozenset({list, Union, types.UnionType, NotRequired, Required})


def without_json_form(annotation: Any, within: tuple[Any, ...] = ()) -> Any:
    """Return the part of a type without a JSON form; None if JSON can express the whole type."""
    annotation = _unwrapped(annotation)
    if annotation in within or _is_leaf(annotation):
        return None
    parts = _parts(annotation)
    if parts is None:
        return annotation
    problems = (without_json_form(part, (*within, annotation)) for part in parts)
    return next((wrong for wrong in problems if wrong is not None), None)


def _unwrapped(annotation: Any) -> Any:
    """Return the type without annotations, or the target of a type alias (`type Row = dict[str, int]`)."""
    if get_origin(annotation) is Annotated:
        return annotation.__origin__
    return getattr(annotation, "__value__", annotation)


def _parts(annotation: Any) -> list[Any] | None:
    """Return the parts of a type; None if JSON cannot express it."""
    origin, arguments = get_origin(annotation), list(get_args(annotation))
    if origin is Literal:
        return [type(value) for value in arguments]
    if origin is dict:
        return arguments[1:] if arguments[0] is str else None
    if origin in _COMPOSED:
        return arguments
    if is_typeddict(annotation):
        return list(typing.get_type_hints(annotation, include_extras=True).values())
    return None


def _is_leaf(annotation: Any) -> bool:
    try:
        return annotation in _LEAVES
    except TypeError:  # not hashable, so it is not one of them
        return False


_MOST_READ: Final = 2_000
"""Schemas that are read for one tool."""

_DEEPEST: Final = 20
_MOST_CHOICES: Final = 50
_LONGEST_CHOICE: Final = 60
_EXTRAS: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})


class Member(NamedTuple):
    """One property of an object: all its schemas, and whether it is required."""

    places: tuple[SchemaNode, ...] = ()
    required: bool = False

    @property
    def described(self) -> dict[str, Any]:
        """The first schema that is not empty."""
        return next((p.schema for p in self.places if isinstance(p.schema, dict) and p.schema), {})


@dataclass(eq=False)
class Record:
    """The type of an object with known properties. They are added later, because a record may contain itself."""

    members: dict[str, RecordMember] = field(default_factory=dict)


class RecordMember(NamedTuple):
    """One property of a record."""

    annotation: Any
    required: bool
    description: str


class TypeReader:
    """Reads the types of one document.

    Args:
        root: the whole document.
        records: True to read objects as `Record`s, False for `dict[str, Any]`.
    """

    def __init__(self, root: SchemaNode, *, records: bool = False) -> None:
        self.root = root
        self._left = _MOST_READ
        self._wants_records = records
        self._records: dict[int, Record] = {}
        self._reading: set[int] = set()

    def members(self) -> dict[str, Member]:
        """Return the properties of the whole document, from all its parts."""
        return self._members(self.root)

    def type_of(self, member: Member) -> Any:
        """Return the type of a property: the union of the types of its schemas."""
        return _union(map(self.read, member.places)) if member.places else Any

    def read(self, place: SchemaNode) -> Any:
        """Return the type of a schema."""
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

    def describes_other_properties(self) -> bool:
        """Return True if the schema names no properties, or describes properties that it does not name."""
        parts = list(self._parts(self.root))
        return any(not _EXTRAS.isdisjoint(part) for part in parts) or not any(
            "properties" in p for p in parts
        )

    def is_open(self) -> bool:
        """Return True if there may be properties that the schema does not name."""
        return self.describes_other_properties() and not any(
            part.get("additionalProperties") is False or part.get("unevaluatedProperties") is False
            for part in self._parts(self.root)
        )

    def _enter(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def _read(self, place: SchemaNode) -> Any:
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
        return next((hint for hint in map(self.read, place.every()) if hint is not Any), Any)

    def _of_kind(self, kind: str, place: SchemaNode) -> Any:
        if kind == "array":
            items = place.schema.get("items", True)
            return list[Any if isinstance(items, list) else self.read(place.within(items))]  # type: ignore[misc]
        if kind == "object":
            return self._object(place)
        return JSON_TYPES[kind].python if kind in JSON_TYPES else Any

    def _object(self, place: SchemaNode) -> Any:
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

    def _members(self, place: SchemaNode, depth: int = 0) -> dict[str, Member]:
        schema = place.schema
        if not isinstance(schema, dict) or depth > _DEEPEST or not self._enter():
            return {}
        named = schema.get("properties", {})
        members = {name: Member((place.within(part),)) for name, part in named.items() if part is not False}
        for part in place.every():
            _add(members, self._members(part, depth + 1))
        for parts in place.alternatives():
            _add(members, _either([self._members(part, depth + 1) for part in parts]))
        for part in place.sometimes():
            _add(members, _either([self._members(part, depth + 1), {}]))
        for name in schema.get("required", ()):
            members[name] = members.get(name, Member())._replace(required=True)
        return members

    def _parts(self, place: SchemaNode, depth: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the schemas that may apply to the same value as this one."""
        if not isinstance(place.schema, dict) or depth > _DEEPEST or not self._enter():
            return
        yield place.schema
        for part in chain(place.every(), *place.alternatives(), place.sometimes()):
            yield from self._parts(part, depth + 1)


def _add(members: dict[str, Member], others: dict[str, Member]) -> None:
    """Add further required schemas. If a property has two schemas, either one is wide enough."""
    for name, other in others.items():
        mine = members.get(name, Member())
        members[name] = Member(mine.places or other.places, mine.required or other.required)


def _either(branches: list[dict[str, Member]]) -> dict[str, Member]:
    """Merge the members of alternative schemas. A property is required if all alternatives require it."""
    merged: dict[str, Member] = {}
    for name in dict.fromkeys(chain(*branches)):
        members = [branch.get(name, Member()) for branch in branches]
        merged[name] = Member(tuple(chain(*(m.places for m in members))), all(m.required for m in members))
    return merged


def _implied(schema: dict[str, Any]) -> str:
    """Return the value type that a schema without `type` implies."""
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
