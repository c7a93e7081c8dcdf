"""Schemas for OpenAI's strict mode follow its rules, and values written for them are read back correctly."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.models.schema import strict_schema, without_nulls

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
ALLOWED = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
    "description", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minItems", "maxItems",
}  # fmt: skip
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def violations(schema, place="root"):
    """Return the parts of a schema that strict mode refuses."""
    is_object = "object" in str(schema.get("type"))
    rules = {
        f"unknown words: {schema.keys() - ALLOWED}": schema.keys() <= ALLOWED,
        "something beside $ref": "$ref" not in schema or len(schema) == 1,
        "the root is no object": place != "root" or (is_object and "anyOf" not in schema),
        "any type": {"type", "anyOf", "$ref"} & schema.keys(),
        "other properties": not is_object or schema.get("additionalProperties") is False,
        "not required": not is_object or set(schema.get("required", ())) == set(schema.get("properties", ())),
        "anything in an array": "array" not in str(schema.get("type")) or "items" in schema,
        "format": schema.get("format", "date") in FORMATS,
    }
    parts = {
        **schema.get("properties", {}),
        **schema.get("$defs", {}),
        **dict(enumerate(schema.get("anyOf", ()))),
    }
    parts |= {"items": schema["items"]} if "items" in schema else {}
    within = [problem for name, part in parts.items() for problem in violations(part, f"{place}.{name}")]
    return [f"{place}: {problem}" for problem, kept in rules.items() if not kept] + within


def an_object(properties, required=(), **more):
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def filled(value, schema):
    """Return the value as written by a model that must give every property."""
    if isinstance(value, list):
        return [filled(part, schema["items"]) for part in value]
    if isinstance(value, dict):
        return {name: filled(value.get(name), part) for name, part in schema["properties"].items()}
    return value


LEAVES = {
    "string": ({"type": "string"}, st.text(max_size=3)),
    "integer": ({"type": "integer", "minimum": 0, "title": "N"}, st.integers(0, 9)),
    "boolean": ({"type": "boolean", "default": True}, st.booleans()),
    "choice": ({"type": "string", "enum": ["a", "b"]}, st.sampled_from(["a", "b"])),
    "constant": ({"type": "string", "const": "c", "description": "One."}, st.just("c")),
}


@st.composite
def cases(draw, depth=2):
    """Draw a schema of an object and a valid value."""
    properties, required, value = {}, [], {}
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)):
        kind = draw(st.sampled_from([*LEAVES, *(["object", "array", "null"] if depth else [])]))
        if kind in LEAVES:
            schema, values = LEAVES[kind]
            item = draw(values)
        elif kind == "null":
            schema, item = (
                {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                draw(st.none() | st.integers(0, 9)),
            )
        else:
            schema, item = draw(cases(depth=depth - 1))
            if kind == "array":
                schema, item = {"type": "array", "items": schema}, [item] * draw(st.integers(0, 2))
        properties[name] = schema
        needed = kind == "null" or draw(st.booleans())
        if needed:
            required.append(name)
        if needed or draw(st.booleans()):
            value[name] = item
    return an_object(properties, required), value


@given(cases())
def test_a_valid_value_also_fits_the_strict_schema_and_is_read_back(case):
    schema, value = case
    strict = strict_schema(schema)
    assert not violations(strict)
    jsonschema.validate(value, schema)
    written = filled(value, schema)
    jsonschema.validate(written, strict)
    assert without_nulls(written, schema) == value
    assert without_nulls(value, schema) == value


@given(cases())
def test_a_strict_schema_is_not_changed_again(case):
    strict = strict_schema(case[0])
    assert strict_schema(strict) == strict


def test_every_tool_of_the_package(tract, spec, search):
    tract.register_operation(spec())
    told = {}
    for tool in tract.as_tools("full", strict=True):
        function = tool["function"]
        told[function["name"]] = function["strict"]
        if function["strict"]:
            assert not violations(function["parameters"]), function["name"]
        else:
            plain = next(t for t in tract.as_tools("full") if t["function"]["name"] == function["name"])
            assert function["parameters"] == plain["function"]["parameters"]
    loose = ["commit", "merge", "register_policy", "propose_operation", "agent_create", "agent_update"]
    assert [name for name, strict in told.items() if not strict] == loose
    assert {"web_search", "fire_citation_check"} <= told.keys()


def test_optional_properties_are_nullable_and_name_their_default(search):
    assert strict_schema(search.parameters.json_schema)["properties"] == {
        "query": {"type": "string", "description": "What to look for."},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "How many. Default: 10."},
        "sites": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
            "description": "Where.",
        },
    }


def test_definitions_are_kept_and_a_reference_has_no_sibling_keys():
    point = an_object({"x": {"type": "integer"}, "next": {"$ref": "#/$defs/Point"}}, ["x"])
    schema = an_object(
        {
            "a": {"$ref": "#/$defs/Point", "description": "A."},
            "b": {"$ref": "#/$defs/Point", "default": {"x": 1}},
        },
        ["a"],
        **{"$defs": {"Point": point}},
    )
    strict = strict_schema(schema)
    assert not violations(strict)
    assert strict["properties"]["a"] == {"anyOf": [{"$ref": "#/$defs/Point"}], "description": "A."}
    written = {"a": {"x": 1, "next": {"x": 2, "next": None}}, "b": None}
    jsonschema.validate(written, strict)
    assert without_nulls(written, schema) == {"a": {"x": 1, "next": {"x": 2}}}


def test_of_several_objects_the_one_with_these_properties_is_meant():
    cat, dog = (
        an_object({"claws": {"type": "integer"}}),
        an_object({"tail": {"type": "integer"}, "name": {"type": "string"}}),
    )
    schema = an_object({"pet": {"anyOf": [cat, dog, {"type": "array", "items": cat}]}}, ["pet"])
    assert not violations(strict_schema(schema))
    assert without_nulls({"pet": {"tail": None, "name": "x"}}, schema) == {"pet": {"name": "x"}}
    assert without_nulls({"pet": [{"claws": None}]}, schema) == {"pet": [{}]}
    assert without_nulls({"pet": {"wings": None}}, schema) == {"pet": {"wings": None}}


def test_a_nullable_object_stays_nullable():
    schema = an_object(
        {"a": {"type": ["object", "null"], "properties": {}, "additionalProperties": False}}, ["a"]
    )
    jsonschema.validate({"a": None}, strict_schema(schema))
    assert without_nulls({"a": None}, schema) == {"a": None}


@pytest.mark.parametrize(
    "part",
    [
        {}, {"description": "Anything."}, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "array"}, {"type": "array", "items": {}}, {"type": "array", "prefixItems": [{"type": "string"}]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"allOf": [{"type": "string"}]}, {"not": {"type": "string"}},
        {"type": "string", "if": {}}, {"enum": ["a", 1]}, {"$ref": "https://example.com/schema"}, {"$ref": "#/properties/b"},
        {"anyOf": [{"type": "string"}, {}]}, True,
        an_object({f"p{n}": {"type": "string"} for n in range(5_001)}),
        {"type": "string", "enum": [f"{n}" for n in range(1_001)]}, {"type": "string", "enum": ["x" * 120_001]},
    ],
)  # fmt: skip
def test_a_part_that_strict_mode_cannot_express_has_no_strict_form(part):
    assert strict_schema(an_object({"a": part})) is None


def test_a_root_that_is_not_a_closed_object_has_no_strict_form():
    assert strict_schema({"anyOf": [an_object({})]}) is None
    assert strict_schema({**an_object({}), "anyOf": [an_object({})]}) is None
    assert strict_schema({"type": "object"}) is None
    assert strict_schema({"type": "object", "properties": {}}) == an_object({})


def test_a_required_property_without_a_schema_has_no_strict_form():
    text = {"type": "string"}
    assert strict_schema({"type": "object", "properties": {"a": text}, "required": ["a", "b"]}) is None


def test_many_long_choices_have_no_strict_form():
    def choices(count, length):
        return an_object({"a": {"type": "string", "enum": [f"{n:0{length}}" for n in range(count)]}}, ["a"])

    assert strict_schema(choices(250, 100)) is not None
    assert strict_schema(choices(251, 59)) is not None
    assert strict_schema(choices(251, 60)) is None


def nested(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = an_object({"a": schema}, ["a"])
    return schema


def test_ten_levels_at_most():
    assert strict_schema(nested(9)) is not None
    assert strict_schema(nested(10)) is None
    assert strict_schema(nested(900)) is None


def test_references_that_lead_nowhere_are_read_as_anything():
    for definitions in ({}, {"A": {"$ref": "#/$defs/A"}}):
        schema = an_object({"a": {"$ref": "#/$defs/A"}}, **{"$defs": definitions})
        assert without_nulls({"a": None}, schema) == {"a": None}
        assert without_nulls({"a": {"b": None}}, schema) == {"a": {"b": None}}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
    )
)
def test_any_value_can_be_read(value):
    schema = an_object({"a": {"type": "array", "items": nested(2)}, "b": {"type": "integer"}})
    read = without_nulls(value, schema)
    if not isinstance(value, dict):
        assert read == value
