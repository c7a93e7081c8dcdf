"""JSON Schemas in the form that providers of models accept, and the conversion of strict answers.

OpenAI and Anthropic refuse a whole request for one tool whose schema begins with `anyOf` or `$ref`, or has no `type`.
`object_schema` describes an object, without combined schemas at the top.

In OpenAI's strict mode, a model can only write values that the schema allows, and the schema language is smaller: every
property is required, no other is allowed, and an omitted value is null. `strict_schema` translates into this language,
and `without_nulls` reads the answer. The rules:
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.schema.types import TypeReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.models.schema.json_schema import SchemaNode
    from tract_jupyter.models.schema.types import Member

_COMBINING: Final = frozenset({
    "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "dependentSchemas",
    "dependencies",
})  # fmt: skip
_KEPT_AT_TOP: Final = ("$schema", "$defs", "definitions", "title", "description")
_FOREIGN_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef)": "(?!#/(?:\$defs|definitions)/)')


def object_schema(schema: dict[str, Any], root: SchemaNode) -> dict[str, Any]:
    """Return the schema for a provider: unchanged, or with all its named properties if it combines several schemas.

    The result may accept more values than the original schema. Calls are still checked against the original.
    """
    if _COMBINING.isdisjoint(schema):
        return {**schema, "type": "object", "properties": schema.get("properties", {})}
    members = TypeReader(root).members()
    required = [name for name, member in members.items() if member.required]
    return {
        **{key: schema[key] for key in _KEPT_AT_TOP if key in schema},
        "type": "object",
        "properties": {name: _property(member) for name, member in members.items()},
        **({"required": required} if required else {}),
        "additionalProperties": TypeReader(root).is_open(),
    }


def _property(member: Member) -> dict[str, Any]:
    """Return the union of the member's schemas, or an empty one if a schema refers to an omitted place."""
    schemas = {json.dumps(place.schema): place.schema for place in member.places}
    if any(not isinstance(part, dict) or _FOREIGN_REFERENCE.search(text) for text, part in schemas.items()):
        return {}
    parts = list(schemas.values())
    return {"anyOf": parts} if len(parts) > 1 else next(iter(parts), {})


# keywords that only describe or narrow values: the executor checks the values anyway
_LEFT_OUT: Final = frozenset({
    "$schema", "$id", "$comment", "title", "default", "examples", "deprecated", "readOnly", "writeOnly", "minLength",
    "maxLength", "uniqueItems",
})  # fmt: skip
_KEPT: Final = frozenset({
    "type", "enum", "const", "description", "pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems", "$ref",
})  # fmt: skip
_FORMATS: Final = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_DEFINED: Final = "#/$defs/"
_MAX_PROPERTIES: Final = 5_000
_MAX_CHOICES: Final = 1_000
_MANY_CHOICES: Final = 250  # in one property; with more, the total text is limited
_MAX_CHOICES_TEXT: Final = 15_000
_MAX_TEXT: Final = 120_000
_MAX_DEPTH: Final = 10
_NULL: Final = {"type": "null"}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of an object for strict mode; None if strict mode cannot express it.

    Strict mode cannot express objects with any properties (`dict[str, ...]`), values of any type, tuples, `allOf`,
    `oneOf`, `not` and conditions.
    """
    try:
        if schema.get("type") != "object" or "anyOf" in schema:
            return None
        return _StrictConverter(schema).result
    except (_NotStrictError, RecursionError):
        return None


def without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value without the nulls that mean omitted parts. The original schema does not allow these nulls."""
    return _NullRemover(schema).read(value, schema)


class _NotStrictError(Exception):
    """Strict mode cannot express a part of the schema."""


class _StrictConverter:
    """The conversion of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._properties = self._choices = self._text = 0
        defined = {name: self._converted(part, 1) for name, part in schema.get("$defs", {}).items()}
        body = {key: value for key, value in schema.items() if key != "$defs"}
        self.result = {**self._converted(body, 1), **({"$defs": defined} if defined else {})}
        self._text += sum(map(len, defined))
        if self._properties > _MAX_PROPERTIES or self._choices > _MAX_CHOICES or self._text > _MAX_TEXT:
            raise _NotStrictError

    def _converted(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            raise _NotStrictError
        converted: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _KEPT:
                converted[key] = value
            elif key == "anyOf":
                converted[key] = [self._converted(part, depth) for part in value]
            elif key == "items":
                converted[key] = self._converted(value, depth + 1)
            elif key == "format" and value in _FORMATS:
                converted[key] = value
            elif key not in _LEFT_OUT | {"format", "properties", "required", "additionalProperties"}:
                raise _NotStrictError
        self._count(converted)
        if "object" in _types(converted) or "properties" in schema:
            converted.update(self._object(schema, depth))
        return _checked(converted)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return the keywords of an object. Strict mode cannot describe an object with arbitrary properties."""
        if schema.get("additionalProperties", "properties" not in schema) is not False:
            raise _NotStrictError
        properties, required = schema.get("properties", {}), schema.get("required", ())
        if not set(required) <= set(properties):  # no value could satisfy the schema
            raise _NotStrictError
        self._properties += len(properties)
        self._text += sum(map(len, properties))
        return {
            "type": schema.get("type", "object"),
            "properties": {
                name: self._property(part, depth + 1, required=name in required)
                for name, part in properties.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        }

    def _property(self, schema: Any, depth: int, *, required: bool) -> dict[str, Any]:
        converted = self._converted(schema, depth)
        if required:
            return converted
        description = _with_default(converted.pop("description", ""), schema)
        if not allows_null(schema, self._root):
            converted = {
                "anyOf": [*(converted["anyOf"] if set(converted) == {"anyOf"} else [converted]), _NULL]
            }
        return {**converted, **({"description": description} if description else {})}

    def _count(self, converted: dict[str, Any]) -> None:
        choices = [*converted.get("enum", ()), *([converted["const"]] if "const" in converted else [])]
        length = sum(len(choice) for choice in choices if isinstance(choice, str))
        self._choices += len(choices)
        self._text += length
        if len(choices) > _MANY_CHOICES and length > _MAX_CHOICES_TEXT:
            raise _NotStrictError


class _NullRemover:
    """Converts a value from the strict schema to the original one."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def read(self, value: Any, schema: Any) -> Any:
        """Return the value in the form of the original schema."""
        if isinstance(value, list):
            items = self._branch(value, schema).get("items", {})
            return [self.read(part, items) for part in value]
        if not isinstance(value, dict):
            return value
        chosen = self._branch(value, schema)
        properties, required = chosen.get("properties", {}), chosen.get("required", ())
        return {
            name: self.read(part, properties.get(name, {}))
            for name, part in value.items()
            if part is not None
            or name in required
            or name not in properties
            or allows_null(properties[name], self._root)
        }

    def _branch(self, value: Any, schema: Any) -> Mapping[str, Any]:
        """Return the schema of a list or object. Of several, choose the one with exactly its properties."""
        followed = _followed(schema, self._root)
        branches = [_followed(branch, self._root) for branch in followed.get("anyOf", ())]
        if not branches:
            return followed
        if isinstance(value, list):
            fitting = (branch for branch in branches if "items" in branch)
        else:
            fitting = (branch for branch in branches if branch.get("properties", {}).keys() == value.keys())
        return next(fitting, {})


def allows_null(schema: Any, root: Mapping[str, Any]) -> bool:
    """Return True if a schema allows null, according to its type and choices."""
    schema = _followed(schema, root)
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const", "")])
    branches = [branch for key in ("anyOf", "oneOf") for branch in schema.get(key, ())]
    if branches:
        return any(allows_null(branch, root) for branch in branches)
    return "type" not in schema or "null" in _types(schema)


def _types(schema: Mapping[str, Any]) -> list[Any]:
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def _followed(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema behind a reference, or an empty one if this document has no such schema."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith(_DEFINED):
            break
        schema = root.get("$defs", {}).get(reference.removeprefix(_DEFINED), {})
    return schema if isinstance(schema, dict) and "$ref" not in schema else {}


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        if not schema["$ref"].startswith(_DEFINED):
            raise _NotStrictError
        others = {key: value for key, value in schema.items() if key != "$ref"}
        # other keywords next to `$ref` are not allowed
        return {"anyOf": [{"$ref": schema["$ref"]}], **others} if others else schema
    if "type" not in schema and "anyOf" not in schema:  # any value
        raise _NotStrictError
    if "array" in _types(schema) and "items" not in schema:
        raise _NotStrictError
    return schema


def _with_default(description: str, schema: Any) -> str:
    """Return the description with the default in words, since strict mode has no defaults."""
    if not isinstance(schema, dict) or schema.get("default") is None:
        return description
    return f"{description} Default: {json.dumps(schema['default'], ensure_ascii=False)}.".strip()
