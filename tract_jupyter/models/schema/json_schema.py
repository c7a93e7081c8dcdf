"""Checked JSON Schemas from other authors, with a bound on the cost of validation.

A schema may come from a server, so it may be wrong or hostile. Nothing in it is fetched or evaluated, a check ends in
time, and a schema that cannot be bounded is refused. jsonschema validates. It is imported when the first schema is
read, because the import takes as long as all of `%load_ext`.

jsonschema matches patterns with `re`, which may take exponential time, and compares all pairs of list elements. Here,
pydantic's matcher handles patterns in linear time, and every step checks the clock.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache, wraps
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import SchemaError, SchemaValidator, core_schema

from tract_jupyter.exceptions import ContentError, SpecError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.text import brief_repr, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


LARGEST: Final = 1_000_000
"""Characters of a schema."""

MOST_PARTS: Final = 5_000
"""Objects, lists and values in it. The schemas that a prompt can hold have a few hundred."""

SECONDS: Final = 2.0
"""How long one check may take."""

_SHOWN: Final = 200
_DEEPEST: Final = 60
_LONGEST_CHAIN: Final = 50
_REFERENCES: Final = ("$ref", "$dynamicRef")


class SchemaNode(NamedTuple):
    """A schema within a document, with the base for its references."""

    schema: Any
    resolver: Any
    specification: Any

    def within(self, schema: Any) -> SchemaNode:
        """Return a subschema of this one."""
        resource = self.specification.create_resource(schema)
        return self._replace(schema=schema, resolver=self.resolver.in_subresource(resource))

    def target(self, keyword: str = "$ref") -> SchemaNode:
        """Return the schema that the reference points to.

        Raises:
            SpecError: the reference does not point into this document. Nothing is fetched.
        """
        from referencing.exceptions import Unresolvable

        reference = self.schema[keyword]
        try:
            resolved = self.resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError) as error:
            raise SpecError(
                f"{keyword} {brief_repr(reference)} leads nowhere; only what the schema holds itself is looked up"
            ) from error
        if not isinstance(resolved.contents, dict | bool):
            raise SpecError(f"{keyword} {brief_repr(reference)} leads to what is no schema")
        return self._replace(schema=resolved.contents, resolver=resolved.resolver)

    def targets(self) -> Iterator[SchemaNode]:
        """Yield the schemas that this schema references."""
        return (self.target(keyword) for keyword in _REFERENCES if keyword in self.schema)

    def subschemas(self) -> Iterator[SchemaNode]:
        """Yield the direct subschemas."""
        return map(self.within, self.specification.subresources_of(self.schema))

    def every(self) -> Iterator[SchemaNode]:
        """Yield the schemas that the same value must match as well."""
        if "$ref" in self.schema:
            yield self.target()
        yield from map(self.within, self.schema.get("allOf", ()))

    def alternatives(self) -> Iterator[list[SchemaNode]]:
        """Yield lists of schemas. The same value must match at least one of each list."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in self.schema:
                yield [self.within(part) for part in self.schema[keyword]]

    def sometimes(self) -> Iterator[SchemaNode]:
        """Yield the schemas that the same value must match under a condition."""
        yield from (
            self.within(self.schema[keyword]) for keyword in ("then", "else") if keyword in self.schema
        )
        for keyword in ("dependentSchemas", "dependencies"):
            parts = self.schema.get(keyword, {}).values()
            yield from (self.within(part) for part in parts if isinstance(part, dict))

    def of_the_same_value(self) -> Iterator[SchemaNode]:
        """Yield every schema that may be applied to the same value as this one."""
        others = (self.within(self.schema[keyword]) for keyword in ("not", "if") if keyword in self.schema)
        return chain(self.targets(), self.every(), *self.alternatives(), self.sometimes(), others)


class JsonSchema:
    """A checked schema.

    A number such as 1.0 is not an integer here, and formats are not checked, as in the standard. Patterns are matched
    in linear time. A pattern with lookaround or a back reference is not checked.

    Args:
        schema: of draft 2020-12, unless its `$schema` names draft 4, 6, 7 or 2019-09.

    Raises:
        SpecError: it is not a JSON Schema, is too large, or has missing or endless references.
    """

    def __init__(self, schema: Any) -> None:
        from referencing.jsonschema import EMPTY_REGISTRY, specification_with

        document = read_schema(schema)
        # with `$schema` in the document, jsonschema would validate subschemas with another class
        draft = validator_class(str(document.pop("$schema", "")))
        _check(draft, document)
        specification = specification_with(draft.META_SCHEMA.get("$schema"))
        resolver = EMPTY_REGISTRY.resolver_with_root(specification.create_resource(document))
        self.root = SchemaNode(document, resolver, specification)
        _check_keywords(self.root)
        _check_ends(self.root)
        self._validator = draft(document, registry=EMPTY_REGISTRY)

    def errors(self, values: Any) -> list[Any]:
        """Return the `ValidationError`s of jsonschema for these values."""
        try:
            with bounded(SECONDS):
                return list(self._validator.iter_errors(values))
        except TooSlowError:
            raise SpecError(f"checking against the schema takes more than {SECONDS:g} seconds") from None
        except (TooDeepError, RecursionError):
            raise SpecError("the values are nested too deep to be checked against the schema") from None


def read_schema(schema: Any) -> dict[str, Any]:
    """Return a copy of a schema, as a JSON round trip returns it."""
    if not isinstance(schema, dict):
        raise SpecError(f"a JSON Schema is an object, got {type(schema).__name__}")
    try:
        size = len(canonical_json(schema))
    except ContentError as error:
        raise SpecError(f"the schema cannot be read: {error}") from None
    if size > LARGEST:
        raise SpecError(f"the schema has {size:,} characters; the maximum is {LARGEST:,}")
    levels = list(_levels(schema))
    parts = sum(map(len, levels))
    if parts > MOST_PARTS:
        raise SpecError(f"the schema has {parts:,} parts; the maximum is {MOST_PARTS:,}")
    if len(levels) > _DEEPEST:
        raise SpecError(f"the schema is nested {len(levels)} levels deep; the maximum is {_DEEPEST}")
    return json.loads(json.dumps(schema))  # type: ignore[no-any-return] # an object, like the schema


def count_parts(value: Any) -> int:
    """Return the number of objects, lists and values in a JSON value, including itself."""
    return sum(map(len, _levels(value)))


def _levels(value: Any) -> Iterator[list[Any]]:
    """Yield the value, then the values in it, then their values, and so on."""
    level = [value]
    while level:
        yield level
        level = list(chain.from_iterable(map(_parts, level)))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _check(draft: Any, document: dict[str, Any]) -> None:
    """Check that a document is a schema."""
    from jsonschema.exceptions import SchemaError

    try:
        draft.check_schema(document, format_checker=None)  # `re` reads fewer patterns than there are
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "the whole"
        raise SpecError(
            f"the JSON Schema is not valid at {printable(place, _SHOWN)}: {printable(error.message, _SHOWN)}"
        ) from None


def _check_keywords(root: SchemaNode) -> None:
    """Check that a schema has no keywords with unbounded cost, and that every reference has a target."""
    keywords = set(chain.from_iterable(place.schema for place in _places(root)))
    if "$schema" in keywords:
        raise SpecError("an inner schema has a `$schema` of its own; only the outer schema may have it")
    if {"unevaluatedProperties", "patternProperties"} <= keywords:
        raise SpecError(
            "`unevaluatedProperties` beside `patternProperties` cannot be checked in bounded time"
        )


def _check_ends(root: SchemaNode) -> None:
    """Check that no schema applies itself to the same value again."""
    lengths: dict[int, int] = {}

    def length(place: SchemaNode, above: frozenset[int]) -> int:
        key = id(place.schema)
        if key in above:
            raise SpecError("the schema refers to itself without end")
        if key not in lengths:
            parts = place.of_the_same_value() if isinstance(place.schema, dict) else ()
            lengths[key] = 1 + max((length(part, above | {key}) for part in parts), default=0)
        if len(above) + lengths[key] > _LONGEST_CHAIN:
            raise SpecError(f"more than {_LONGEST_CHAIN} schemas refer to each other in a chain")
        return lengths[key]

    for place in _places(root):
        length(place, frozenset())


def _places(root: SchemaNode) -> Iterator[SchemaNode]:
    """Yield all schemas of a document, including schemas that are only reachable by references."""
    waiting, seen = [root], {id(root.schema)}
    while waiting:
        place = waiting.pop()
        if not isinstance(place.schema, dict):
            continue
        yield place
        for target in chain(place.targets(), place.subschemas()):
            if id(target.schema) not in seen:
                seen.add(id(target.schema))
                waiting.append(target)


DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
}
"""The classes of jsonschema by what `$schema` says. Anything else is read as the newest."""

_DEEPEST_CHECKED: Final = 100
"""Keywords within keywords. Each takes about four frames, of which Python has a thousand."""


class TooSlowError(Exception):
    """A check exceeded its time limit."""


class TooDeepError(Exception):
    """A check exceeded its depth limit."""


class _Bounds:
    """The progress of a check: its deadline and its depth."""

    def __init__(self, seconds: float) -> None:
        self._deadline = perf_counter() + seconds
        self._depth = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        if perf_counter() > self._deadline:
            raise TooSlowError
        if self._depth >= _DEEPEST_CHECKED:
            raise TooDeepError
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


_bounds: ContextVar[_Bounds] = ContextVar("_bounds")


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Limit the time and depth of checks in the block.

    Raises:
        TooSlowError: the checks take too long.
        TooDeepError: values and schema are nested too deep for Python's stack.
    """
    token = _bounds.set(_Bounds(seconds))
    try:
        yield
    finally:
        _bounds.reset(token)


@cache
def validator_class(dialect: str) -> Any:
    """Return the validator of a draft. Our keywords replace the keywords with unbounded cost."""
    import jsonschema
    from jsonschema.validators import extend

    draft = getattr(jsonschema, DRAFTS.get(dialect.rstrip("#"), "Draft202012Validator"))
    keywords = {name: _timed(keyword) for name, keyword in {**draft.VALIDATORS, **_OWN}.items()}
    return extend(draft, keywords, type_checker=draft.TYPE_CHECKER.redefine("integer", _is_integer))


def _is_integer(_: Any, value: Any) -> bool:
    """Return True for an integer. 1.0 is not one, as in the rest of the package."""
    return isinstance(value, int) and not isinstance(value, bool)


def _timed(keyword: Keyword) -> Keyword:
    @wraps(keyword)
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        with _bounds.get().step():
            yield from keyword(validator, value, instance, schema) or ()

    return check


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield ValidationError("")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, schema in patterns.items():
            for name in instance:
                if _matches(pattern, name):
                    yield from validator.descend(instance[name], schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not validator.is_type(instance, "object"):
        return
    for name in instance:
        if name in schema.get("properties", ()) or any(
            _matches(p, name) for p in schema.get("patternProperties", ())
        ):
            continue
        if allowed is False:
            yield ValidationError("", path=[name])
        else:
            yield from validator.descend(instance[name], allowed, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if (
        wanted
        and validator.is_type(instance, "array")
        and len(set(map(_comparable, instance))) < len(instance)
    ):
        yield ValidationError("")


def _multiple_of(validator: Any, factor: Any, instance: Any, _: Any) -> Iterator[Any]:
    """Check `multipleOf` with decimal numbers: 0.3 is a multiple of 0.1."""
    from jsonschema import ValidationError

    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(factor)):
        yield ValidationError("")


def _comparable(value: Any) -> str:
    """Return a text that is equal for equal values. 1.0 and 1 are equal."""
    return canonical_json(json.loads(canonical_json(value), parse_float=_number))


def _number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


_OWN: Final[dict[str, Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
}


def _matches(pattern: str, text: str) -> bool:
    """Return True if a text matches. A pattern without linear-time matching matches every text."""
    matcher = _matcher(pattern)
    return matcher is None or matcher.isinstance_python(text)


@lru_cache(maxsize=64)  # a hostile one takes up to 10 MB
def _matcher(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None
