"""The form of a JSON Schema for model providers: always an object, without combinations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.schema_strategies import argument_schemas
from tract_jupyter.exceptions import SpecError
from tract_jupyter.models.schema import JsonSchema, Parameters, SchemaParameters

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
POINT = {"type": "object", "properties": {"x": NUMBER}, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({}, {"type": "object", "properties": {}}),
        (
            {"type": ["object", "null"], "properties": {"a": TEXT}},
            {"type": "object", "properties": {"a": TEXT}},
        ),
        (
            {"$ref": "#/$defs/Point", "$defs": {"Point": POINT}},
            {**POINT, "$defs": {"Point": POINT}, "additionalProperties": False},
        ),
        (
            {
                "type": "object",
                "properties": {"a": TEXT},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"type": "object", "properties": {"a": TEXT, "b": {}}, "additionalProperties": False},
        ),
        (
            {"oneOf": [POINT, {"type": "object", "properties": {"x": TEXT, "y": NUMBER}, "required": ["x"]}]},
            {
                "type": "object",
                "properties": {"x": {"anyOf": [NUMBER, TEXT]}, "y": NUMBER},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (
            {"allOf": [POINT, {"additionalProperties": True}], "description": "Anything."},
            {**POINT, "description": "Anything.", "additionalProperties": True},
        ),
    ],
)
def test_object_schema_is_an_object_without_combinations(schema, told):
    assert SchemaParameters("go", schema).object_schema == told


def test_a_reference_to_a_removed_place_becomes_an_empty_schema():
    schema = {"allOf": [{"properties": {"a": {"$ref": "#/allOf/0/properties/b"}, "b": TEXT}}]}
    assert SchemaParameters("go", schema).object_schema["properties"] == {"a": {}, "b": TEXT}


def test_object_schema_of_our_own_parameters_is_unchanged():
    def go(a: int, b: list[str] | None = None) -> None: ...

    parameters = Parameters.of(go)
    assert parameters.object_schema == parameters.json_schema


@pytest.mark.slow
@settings(max_examples=200)
@given(argument_schemas())
def test_object_schema_of_any_schema_is_valid(schema):
    try:
        parameters = SchemaParameters("go", schema)
    except SpecError:
        return
    told = parameters.object_schema
    assert told["type"] == "object"
    assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "enum", "const", "if"} & told.keys()
    permitted = {name for name, part in told["properties"].items() if part is not False}
    assert permitted.union(told.get("required", ())) == set(parameters.names)
    JsonSchema(told)  # every reference in it can be resolved
