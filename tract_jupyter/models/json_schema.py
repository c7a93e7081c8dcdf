"""A JSON Schema that somebody else wrote: checked, and bounded in what it may cost.

A schema may come from a server, so it is data that may be wrong or hostile. Nothing of it is fetched or evaluated, a
check ends in time, and what cannot be bounded is refused. jsonschema does the validating; it is imported when the
first schema is read, since that takes as long as all that `%load_ext` needs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError, SpecError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.schema_keywords import TooSlowError, time_limit, validator_class
from tract_jupyter.models.text import brief_repr, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST: Final = 100_000
"""Characters of a schema. Those that a prompt can hold have a few thousand."""

SECONDS: Final = 2.0
"""How long one check may take."""

_SHOWN: Final = 200
_REFERENCES: Final = ("$ref", "$dynamicRef")


class Place(NamedTuple):
    """A schema within a document, and how its references are looked up from there."""

    schema: Any
    resolver: Any
    specification: Any

    def within(self, schema: Any) -> Place:
        """A subschema of this one."""
        resource = self.specification.create_resource(schema)
        return self._replace(schema=schema, resolver=self.resolver.in_subresource(resource))

    def target(self, keyword: str = "$ref") -> Place:
        """What the reference refers to.

        Raises:
            SpecError: it is no place of this document. Nothing is fetched.
        """
        from referencing.exceptions import Unresolvable

        reference = self.schema[keyword]
        try:
            found = self.resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError) as error:
            raise SpecError(
                f"{keyword} {brief_repr(reference)} leads nowhere; only what the schema holds itself is looked up"
            ) from error
        if not isinstance(found.contents, dict | bool):
            raise SpecError(f"{keyword} {brief_repr(reference)} leads to what is no schema")
        return self._replace(schema=found.contents, resolver=found.resolver)

    def subschemas(self) -> Iterator[Place]:
        """The schemas right within this one."""
        return map(self.within, self.specification.subresources_of(self.schema))


class JsonSchema:
    """A schema that was checked.

    A number such as 1.0 is no integer here, and formats are not checked, as the standard has it. A pattern is matched
    in linear time; one that cannot be, since it looks around or refers back, is left to whoever gets the values.

    Args:
        schema: of draft 2020-12, unless its `$schema` names draft 4, 6, 7 or 2019-09.

    Raises:
        SpecError: it is no JSON Schema, is too large, refers to what it does not hold, or takes too long to check.
    """

    def __init__(self, schema: Any) -> None:
        document = read_schema(schema)
        dialect = str(document.pop("$schema", ""))
        draft = validator_class(dialect)
        _check(draft, document)
        self.root = _root(draft, document)
        _check_places(self.root)
        self._validator = draft(document, registry=_empty_registry())
        self.errors({})  # one that refers to itself without end does so at once

    def errors(self, values: Any) -> list[Any]:
        """What is wrong with the values: `ValidationError`s of jsonschema.

        Raises:
            SpecError: checking takes too long.
        """
        from referencing.exceptions import Unresolvable

        try:
            with time_limit(SECONDS):
                return list(self._validator.iter_errors(values))
        except TooSlowError:
            raise SpecError(f"checking against the schema takes more than {SECONDS:g} seconds") from None
        except RecursionError:
            raise SpecError(
                "the values are nested too deep, or the schema refers to itself without end"
            ) from None
        except Unresolvable as error:
            raise SpecError(f"a reference of the schema leads nowhere: {brief_repr(error.ref)}") from None


def read_schema(schema: Any) -> dict[str, Any]:
    """A copy of a schema, as JSON would give it back.

    Raises:
        SpecError: it has no JSON form, is no object or is too large.
    """
    if not isinstance(schema, dict):
        raise SpecError(f"a JSON Schema is an object, got {type(schema).__name__}")
    try:
        size = len(canonical_json(schema))
    except ContentError as error:
        raise SpecError(f"the schema cannot be read: {error}") from None
    if size > LARGEST:
        raise SpecError(f"the schema has {size:,} characters; {LARGEST:,} is the most")
    return json.loads(json.dumps(schema))  # type: ignore[no-any-return] # an object, like the schema


def _check(draft: Any, document: dict[str, Any]) -> None:
    """Check that a document is a schema.

    Raises:
        SpecError: it is none.
    """
    from jsonschema.exceptions import SchemaError

    try:
        draft.check_schema(document, format_checker=None)  # `re` reads fewer patterns than there are
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "the whole"
        raise SpecError(
            f"the JSON Schema is not valid at {printable(place, _SHOWN)}: {printable(error.message, _SHOWN)}"
        ) from None
    except RecursionError:
        raise SpecError("the JSON Schema is nested too deep") from None


def _root(draft: Any, document: dict[str, Any]) -> Place:
    from referencing.jsonschema import EMPTY_REGISTRY, specification_with

    specification = specification_with(draft.META_SCHEMA.get("$schema"))
    resource = specification.create_resource(document)
    return Place(document, EMPTY_REGISTRY.resolver_with_root(resource), specification)


def _empty_registry() -> Any:
    from referencing.jsonschema import EMPTY_REGISTRY

    return EMPTY_REGISTRY


def _check_places(root: Place) -> None:
    """Check what holds for every subschema.

    Raises:
        SpecError: a reference leads nowhere, or a combination cannot be checked in bounded time.
    """
    keywords: set[str] = set()
    waiting, seen = [root], {id(root.schema)}
    while waiting:
        place = waiting.pop()
        if not isinstance(place.schema, dict):
            continue
        keywords.update(place.schema)
        next_ones = [place.target(keyword) for keyword in _REFERENCES if keyword in place.schema]
        next_ones += place.subschemas()
        waiting += [found for found in next_ones if id(found.schema) not in seen]
        seen.update(id(found.schema) for found in next_ones)
    if "$schema" in keywords:
        raise SpecError("a schema within the schema has a `$schema` of its own; only the whole may have one")
    if {"unevaluatedProperties", "patternProperties"} <= keywords:
        raise SpecError(
            "`unevaluatedProperties` beside `patternProperties` cannot be checked in bounded time"
        )
