"""Arguments described by a JSON Schema: validation, readable errors, and limits of time and size."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema.validators import extend

from tests.schema_strategies import JUNK, NAMES, VALUES, argument_schemas
from tract_jupyter.exceptions import ParameterError, SpecError
from tract_jupyter.models.schema import Parameter, SchemaParameters

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "schemas.json").read_text())
SLOW = settings(suppress_health_check=list(HealthCheck))


def named(cases):
    return [pytest.param(case, id=case["name"]) for case in cases]


def schema_of(properties, *required, **more) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def made(properties, *required, **more) -> SchemaParameters:
    return SchemaParameters("f", schema_of(properties, *required, **more))


# --- vectors


@pytest.mark.parametrize("case", named(VECTORS["usable"]))
def test_values_are_accepted_or_refused_as_the_vectors_say(case):
    parameters = SchemaParameters("f", case["schema"])
    for values in case["accepts"]:
        accepted = parameters.validate(values)
        assert accepted.items() >= values.items()
        assert parameters.validate(accepted) == accepted
    for values, words in case["refuses"]:
        with pytest.raises(ParameterError) as caught:
            parameters.validate(values)
        assert words in str(caught.value)


@pytest.mark.parametrize("case", named(VECTORS["usable"]))
def test_the_schema_of_the_parameters_is_not_changed(case):
    parameters = SchemaParameters("f", case["schema"])
    parameters.json_schema.clear()
    assert json.dumps(parameters.json_schema) == json.dumps(case["schema"])


@pytest.mark.parametrize("case", named(VECTORS["usable"]))
def test_the_signature_has_all_names(case):
    parameters = SchemaParameters("f", case["schema"])
    given = parameters.signature().parameters
    assert [name for name, p in given.items() if p.kind is not p.VAR_KEYWORD] == list(parameters.arguments)
    assert len(parameters) == len(parameters.names) == len(list(parameters)) == len(set(parameters.names))
    assert parameters.bind((), dict.fromkeys(parameters.arguments)) == dict.fromkeys(parameters.names)


@pytest.mark.parametrize("case", named(VECTORS["usable"]))
def test_accepted_values_have_the_type_of_their_parameter(case):
    parameters = SchemaParameters("f", case["schema"])
    for values in case["accepts"]:
        accepted = parameters.validate(values)
        assert all(p.fits(accepted[p.name]) for p in parameters if p.name in accepted)


@pytest.mark.parametrize("case", named(VECTORS["refused"]))
def test_an_unusable_schema_is_refused(case):
    with pytest.raises(SpecError) as caught:
        SchemaParameters("f", case["schema"])
    assert str(caught.value).startswith("f: ")
    assert case["words"] in str(caught.value)


# --- laws


def exactly(schema):
    """The validator of jsonschema with our rule that 1.0 is not an integer."""
    draft = jsonschema.Draft202012Validator
    types = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return extend(draft, type_checker=types)(schema)


def parameters_or_none(schema) -> SchemaParameters | None:
    try:
        return SchemaParameters("f", schema)
    except SpecError:
        return None


@SLOW
@given(argument_schemas(), st.dictionaries(NAMES, VALUES, max_size=4))
def test_validation_agrees_with_jsonschema(schema, values):
    parameters = parameters_or_none(schema)
    if parameters is None:
        return
    # leave out the cases where ours is stricter (unknown names) or more lenient (None omits)
    values = {name: v for name, v in values.items() if name in parameters.names and v is not None}
    try:
        accepted = parameters.validate(values)
    except ParameterError as error:
        assert not exactly(schema).is_valid(values), error
    else:
        assert exactly(schema).is_valid(values)
        assert exactly(schema).is_valid(accepted)
        assert parameters.validate(accepted) == accepted


@SLOW
@given(JUNK, VALUES)
def test_any_json_is_refused_or_used(schema, values):
    parameters = parameters_or_none(schema)
    if parameters is not None:
        assert parameters.json_schema == schema
        assert parameters.signature_text().count("(")
        try:
            parameters.validate(values)
        except ParameterError as error:
            assert error.problems


# --- types


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({"type": "string"}, str), ({"type": "number"}, float), ({}, Any), (True, Any),
        ({"type": "array", "items": {"type": "integer"}}, list[int]), ({"items": {"type": "integer"}}, list[int]),
        ({"type": "object"}, dict[str, Any]), ({"properties": {"a": {}}}, dict[str, Any]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, dict[str, int]),
        ({"enum": ["a", 1, None]}, Literal["a", 1, None]), ({"const": True}, Literal[True]),  # noqa: PYI061
        ({"enum": [0.5, "a"]}, Literal["a"] | float), ({"enum": ["x" * 100]}, str), ({"enum": [[1], {}]}, list[Any] | dict[str, Any]),
        ({"type": ["string", "null"]}, str | None), ({"anyOf": [{"type": "string"}, {}]}, Any),
        ({"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}, Literal["a", "b"] | None),
        ({"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}, int | list[str]),
        ({"allOf": [{"minimum": 1}, {"type": "integer"}]}, int), ({"$ref": "#/$defs/n"}, float),
        ({"$ref": "#/$defs/json"}, str | list[Any]), ({"type": "string", "enum": ["a"]}, Literal["a"]),
    ],
)  # fmt: skip
def test_the_type_of_a_schema(schema, annotation):
    defined = {
        "n": {"type": "number"},
        "json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/json"}}]},
    }
    (p,) = made({"a": schema}, "a", **{"$defs": defined})
    assert p.annotation == annotation


def test_a_union_of_everything_is_anything():
    (p,) = made({"a": {"type": ["string", "integer", "number", "boolean", "null", "array", "object"]}}, "a")
    assert p.fits("x")
    assert p.fits([1])


def test_parameters_have_types_defaults_and_descriptions():
    query, limit, sites, _ = made({
        "limit": {"type": "integer", "default": 3, "description": "How\nmany.  "}, "query": {"type": "string"},
        "sites": {"type": "array"}, "odd": {"type": "integer", "default": "x"},
    }, "query")  # fmt: skip
    assert query == Parameter("query", str)
    assert limit == Parameter("limit", int, 3, "How many.")
    assert sites == Parameter("sites", list[Any] | None, None)


def test_a_required_property_with_a_default_can_be_omitted():
    """As zod writes it, with which many MCP servers are made."""
    scale = {"enum": ["css", "device"], "default": "css"}
    parameters = made({"scale": scale, "odd": {"type": "integer", "default": "x"}}, "scale", "odd")
    assert parameters.signature_text() == "(odd: int, *, scale: Literal['css', 'device'] = 'css')"
    assert parameters.validate({"odd": 1}) == {"scale": "css", "odd": 1}
    assert parameters.validate({"odd": 1, "scale": "device"}) == {"scale": "device", "odd": 1}
    with pytest.raises(ParameterError, match="'odd' is missing"):
        parameters.validate({})
    assert parameters.validate({"odd": 1, "scale": None}) == {"scale": "css", "odd": 1}


def test_a_long_or_hostile_description_is_made_fit():
    (p,) = made({"a": {"description": "\u202eabc\x00 " + "very " * 30_000}})
    assert len(p.description) <= 500
    assert p.description.startswith("\ufffdabc\ufffd very very")
    assert p.description.endswith("…")


# --- calls


def test_required_parameters_can_be_passed_by_position():
    parameters = made({"a": {}, "from": {}, "c": {}}, "a", "from")
    assert parameters.signature_text() == "(a: Any, from_: Any, *, c: Any = None)"
    assert [p.kind.name for p in parameters.signature().parameters.values()][1:] == [
        "POSITIONAL_OR_KEYWORD",
        "KEYWORD_ONLY",
    ]
    assert parameters.bind((1, 2), {"c": 3}) == {"a": 1, "from": 2, "c": 3}
    assert parameters.bind((1,), {"from_": 2}) == parameters.bind((1,), {"from": 2}) == {"a": 1, "from": 2}


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((1, 2, 3), {}, "takes at most 2 by position (a, from_), got 3"),
        ((1,), {"a": 2}, "got 'a' twice, by position and by name"),
        ((), {"from": 1, "from_": 2}, "got 'from' twice, also as 'from_'"),
        ((1, 2), {"from": 2}, "got 'from' twice"),
    ],
)
def test_calls_that_cannot_be_bound(args, kwargs, words):
    with pytest.raises(ParameterError) as caught:
        made({"a": {}, "from": {}, "c": {}}, "a", "from").bind(args, kwargs)
    assert words in str(caught.value)


def test_open_schemas_take_other_names():
    parameters = made({"a": {}, "others": {}}, additionalProperties=True)
    *_, last = parameters.signature().parameters.values()
    assert parameters.signature_text() == "(*, a: Any = None, others: Any = None, **others_: Any)"
    assert (last.name, last.kind) == ("others_", inspect.Parameter.VAR_KEYWORD)
    assert parameters.validate(parameters.bind((), {"a": 1, "z": 2})) == {"a": 1, "z": 2}


def test_none_omits_an_optional_parameter():
    parameters = made(
        {"a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": "integer", "default": 1}}
    )
    assert parameters.validate({"a": None, "b": None, "c": None}) == {"b": None, "c": 1}


def test_values_and_defaults_are_copied():
    parameters = made({"a": {"type": "array"}, "b": {"type": "array", "default": [1]}})
    given = {"a": [1]}
    first = parameters.validate(given)
    first["a"].append(2)
    first["b"].append(2)
    assert given == {"a": [1]}
    assert parameters.validate(given) == {"a": [1], "b": [1]}
    parameters.signature().parameters["b"].default.append(3)
    assert parameters.validate({}) == {"b": [1]}


def test_the_order_within_an_object_is_kept():
    value = {"b": 1, "a": 2}
    assert json.dumps(made({"x": {}}).validate({"x": value})["x"]) == json.dumps(value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"a": object()}, "'a': the value has no JSON form"), ({"a": float("nan")}, "'a': the value has no JSON form"),
        ({"a": "\ud800"}, "'a': the text has a lone surrogate"), ({1: 2}, "1 is not a name"), ([], "a dict of values is needed, got list"),
        ({"a": {1: 2}}, "'a': the value has no JSON form: the key 1 is not a string"),
    ],
)  # fmt: skip
def test_values_that_are_not_json_are_refused(values, words):
    with pytest.raises(ParameterError) as caught:
        made({"a": {}}).validate(values)
    assert words in str(caught.value)


def test_all_problems_are_reported_up_to_a_limit():
    names = [f"p{number}" for number in range(100)]
    with pytest.raises(ParameterError) as caught:
        made({name: {"type": "string"} for name in names}, *names).validate(
            {"x" * 100_000: 1, "p0": "y" * 100_000}
        )
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1] == "and 90 more"


# --- bounds


def limited(seconds, call):
    started = perf_counter()
    try:
        return call()
    finally:
        assert perf_counter() - started < seconds


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "(.*)*(.*)*(.*)*x$", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_a_pattern_takes_linear_time(pattern):
    text = "a" * 50_000 + "!"
    for properties, values in (({"a": {"pattern": pattern}}, {"a": text}), ({"a": {"patternProperties": {pattern: False}, "additionalProperties": False}}, {"a": {text: 1}}),
                               ({"a": {"propertyNames": {"pattern": pattern}}}, {"a": {text: 1}})):  # fmt: skip
        with pytest.raises(ParameterError):
            limited(30, lambda p=properties, v=values: made(p).validate(v))


def test_an_exponentially_growing_schema_ends_with_a_timeout(monkeypatch):
    monkeypatch.setattr("tract_jupyter.models.schema.json_schema.SECONDS", 0.05)
    defined = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(22)}
    growing = {"$defs": {**defined, "d22": {"type": "string"}}}
    parameters = made({"a": {"$ref": "#/$defs/d0"}}, "a", **growing)
    with pytest.raises(ParameterError, match="takes more than 0.05 seconds"):
        limited(30, lambda: parameters.validate({"a": "x"}))
    with pytest.raises(SpecError, match="f: checking against the schema takes more than 0.05 seconds"):
        limited(30, lambda: made({"a": {"$ref": "#/$defs/d0", "default": "x"}}, **growing))


def test_too_deeply_nested_values_are_refused():
    parameters = made({"a": {"$ref": "#/$defs/l"}}, **{"$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}})
    value: Any = []
    for _ in range(150):
        value = [value]
    with pytest.raises(ParameterError, match="nested too deep to be checked"):
        parameters.validate({"a": value})
    for _ in range(100):
        value = [value]
    with pytest.raises(ParameterError, match="more than 200 levels"):
        parameters.validate({"a": value})


def nested(levels):
    return {"properties": {"a": nested(levels - 1)}} if levels else {}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"description": "x" * 5_000_000}, "the schema has 5,000,018 characters; the maximum is 1,000,000"),
        (schema_of({f"p{n}": {} for n in range(1_000)}), "has 1,000 properties; the maximum is 500"),
        (schema_of({f"p{n}": {"type": "string"} for n in range(10_000)}), "the schema has 20,004 parts; the maximum is 5,000"),
        (nested(40), "nested 81 levels deep; the maximum is 60"), (nested(120), "nested more than 200 levels deep"),
        ({"allOf": [{"$ref": "#/$defs/d0"}], "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(60)} | {"d60": {}}}, "more than 50 schemas refer to each other in a chain"),
        ({"properties": {"a": {"if": {}, "then": {"not": {"$ref": "#/properties/a"}}}}}, "refers to itself without end"),
        ({"title": "\ud800"}, "the text has a lone surrogate"), ({"default": float("inf")}, "has no JSON form"), (None, "a JSON Schema is an object, got NoneType"),
    ],
    ids=lambda value: value if isinstance(value, str) else "schema",
)  # fmt: skip
def test_a_schema_without_measure_is_refused(schema, words):
    with pytest.raises(SpecError) as caught:
        limited(30, lambda: SchemaParameters("f", schema))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_short_schema_may_stand_for_an_endless_one():
    defined = {
        f"d{n}": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(8)]},
        }
        for n in range(8)
    }
    (p,) = limited(30, lambda: made({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": defined}))
    assert p.fits({"x": {"y": {}}})


def test_nothing_is_fetched(monkeypatch):
    import socket

    def refuse(*_):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for address in (
        "http://127.0.0.1:1/schema",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///dev/null",
    ):
        for schema in (
            {"$ref": address},
            {"$id": address, "allOf": [{"$ref": "other"}]},
            {"$dynamicRef": address},
        ):
            with pytest.raises(SpecError, match="leads nowhere"):
                SchemaParameters("f", schema)
