"""What providers of models are told of a JSON Schema: an object, whatever it combines."""

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
def test_it_is_of_an_object_and_combines_nothing(schema, told):
    assert SchemaParameters("go", schema).object_schema == told


def test_of_what_refers_to_a_place_that_is_left_out_nothing_is_said():
    schema = {"allOf": [{"properties": {"a": {"$ref": "#/allOf/0/properties/b"}, "b": TEXT}}]}
    assert SchemaParameters("go", schema).object_schema["properties"] == {"a": {}, "b": TEXT}


def test_our_own_are_told_as_they_are():
    def go(a: int, b: list[str] | None = None) -> None: ...

    parameters = Parameters.of(go)
    assert parameters.object_schema == parameters.json_schema


@pytest.mark.slow
@settings(max_examples=200)
@given(argument_schemas())
def test_any_schema_comes_to_one_that_can_be_used(schema):
    try:
        parameters = SchemaParameters("go", schema)
    except SpecError:
        return
    told = parameters.object_schema
    assert told["type"] == "object"
    assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "enum", "const", "if"} & told.keys()
    assert set(told["properties"]) == set(parameters.names) or told["properties"] == schema["properties"]
    JsonSchema(told)  # every reference in it leads somewhere
