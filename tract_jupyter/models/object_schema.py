"""JSON Schemas of arguments as providers of models take them: of an object, with nothing that combines at the top.

OpenAI and Anthropic refuse a whole request for one tool whose schema begins with `anyOf` or `$ref`, or says no `type`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.json_types import TypeReader

if TYPE_CHECKING:
    from tract_jupyter.models.json_schema import Place
    from tract_jupyter.models.json_types import Member

_COMBINING: Final = frozenset({
    "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "dependentSchemas",
    "dependencies",
})  # fmt: skip
_KEPT: Final = ("$schema", "$defs", "definitions", "title", "description")
_FOREIGN_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef)": "(?!#/(?:\$defs|definitions)/)')


def object_schema(schema: dict[str, Any], root: Place) -> dict[str, Any]:
    """What a provider is told: the schema itself, or all properties that it names where it combines several.

    It may accept more than the schema, which calls are held to all the same.

    Args:
        schema: of the arguments.
        root: the same, checked.
    """
    if _COMBINING.isdisjoint(schema):
        return {**schema, "type": "object", "properties": schema.get("properties", {})}
    members = TypeReader(root).members()
    required = [name for name, member in members.items() if member.required]
    return {
        **{key: schema[key] for key in _KEPT if key in schema},
        "type": "object",
        "properties": {name: _property(member) for name, member in members.items()},
        **({"required": required} if required else {}),
        "additionalProperties": TypeReader(root).is_open(),
    }


def _property(member: Member) -> dict[str, Any]:
    """What any of its schemas says; nothing if one refers to a place that is left out."""
    said = {json.dumps(place.schema): place.schema for place in member.places}
    if any(not isinstance(part, dict) or _FOREIGN_REFERENCE.search(text) for text, part in said.items()):
        return {}
    parts = list(said.values())
    return {"anyOf": parts} if len(parts) > 1 else next(iter(parts), {})
