"""Laws of parameters: validation, description and schema agree."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ParameterError, SpecError
from tract_jupyter.models import canonical_json, safe_repr
from tract_jupyter.models.schema import Parameter, Parameters, parse_type, type_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
PLAIN = {
    "str": TEXTS,
    "int": st.integers(-(2**53), 2**53),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "None": st.none(),
    "Literal['a', 2]": st.sampled_from(["a", 2]),
    "Any": st.one_of(TEXTS, st.lists(st.integers(), max_size=2)),
}


@st.composite
def typed(draw, depth=2):
    """Draw a type name and the strategy of its values."""
    kinds = ["plain", "list", "dict", "or"] if depth else ["plain"]
    kind = draw(st.sampled_from(kinds))
    if kind == "plain":
        return draw(st.sampled_from(sorted(PLAIN.items(), key=str)))
    name, values = draw(typed(depth - 1))
    if kind == "list":
        return f"list[{name}]", st.lists(values, max_size=3)
    if kind == "dict":
        return f"dict[str, {name}]", st.dictionaries(TEXTS, values, max_size=3)
    return f"{name} | None", values | st.none()


@st.composite
def declared(draw):
    """Draw parameters and a value for each of them."""
    items, values = [], {}
    for number in range(draw(st.integers(0, 4))):
        name, strategy = draw(typed())
        default = draw(strategy) if draw(st.booleans()) else inspect.Parameter.empty
        items.append(Parameter(f"p{number}", parse_type(name), default))
        values[f"p{number}"] = draw(strategy)
    return Parameters("thing", items), values


@given(declared())
def test_valid_values_are_returned_unchanged(made):
    parameters, values = made
    assert parameters.validate(values) == values
    assert tuple(parameters.validate(values)) == parameters.names


@given(declared())
def test_defaults_validate_to_themselves_and_are_filled_in(made):
    parameters, values = made
    needed = {p.name: values[p.name] for p in parameters if p.required}
    filled = parameters.validate(needed)
    assert filled == {p.name: needed[p.name] if p.required else p.default for p in parameters}
    assert parameters.validate(filled) == filled
    for p in parameters:
        if isinstance(p.default, list | dict):
            assert filled[p.name] is not p.default


@given(declared())
def test_the_schema_accepts_all_valid_values(made):
    parameters, values = made
    schema = json.loads(json.dumps(parameters.json_schema))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert schema["required"] == [p.name for p in parameters if p.required]
    assert list(schema["properties"]) == list(parameters.names)


@given(declared())
def test_a_missing_or_unknown_parameter_is_reported(made):
    parameters, values = made
    with pytest.raises(ParameterError, match="'surplus' is unknown"):
        parameters.validate({**values, "surplus": 1})
    for p in parameters:
        if p.required:
            with pytest.raises(ParameterError, match=f"'{p.name}' is missing"):
                parameters.validate({k: v for k, v in values.items() if k != p.name})


@given(declared())
def test_binding_by_position_is_binding_by_name(made):
    parameters, values = made
    ordered = tuple(values[name] for name in parameters.names)
    assert parameters.bind(ordered, {}) == values
    parameters.signature().bind(*ordered)


@given(typed())
def test_a_type_name_is_read_back_from_its_own_text(made):
    text = type_text(parse_type(made[0]))
    assert type_text(parse_type(text)) == text


@given(st.text(max_size=20))
def test_any_text_is_a_type_or_refused_with_our_error(text):
    try:
        parse_type(text)
    except SpecError:
        return


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("str", str), (" int ", int), ("list", list), ("dict", dict), ("Any", Any), ("object", Any), ("None", None),
        ("list[str]", list[str]), ("dict[str, list[int]]", dict[str, list[int]]), ("int | None", int | None),
        ("Optional[int]", int | None), ("Union[int, str]", int | str), ("Literal['a', 'b']", Literal["a", "b"]),
        ("Literal[-1, True]", Literal[-1, True]), ("list[int | None]", list[int | None]),
    ],
)  # fmt: skip
def test_parse_type(text, expected):
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (list[str], "list[str]"), (int | None, "int | None"), (parse_type("Optional[int]"), "int | None"), (None, "None"),
        (Literal["a"], "Literal['a']"), (Any, "Any"), (str, "str"), (dict[str, Any], "dict[str, Any]"),
    ],
)  # fmt: skip
def test_type_text(annotation, text):
    assert type_text(annotation) == text


@pytest.mark.parametrize(("type_name", "default"), [
    ("float", 0), ("float | None", 1), ("list[float]", [0, 1]), ("dict[str, float]", {"a": 2}), ("int | float", 0),
    ("Any", 0),
])  # fmt: skip
def test_a_default_is_the_same_as_that_value_given(type_name, default):
    parameters = Parameters("f", [Parameter("n", parse_type(type_name), default)])
    left_out, given = parameters.validate({}), parameters.validate({"n": default})
    assert canonical_json(left_out) == canonical_json(given)


def test_a_number_given_and_by_default_is_one_question(tract, spec):
    tract.register_operation(spec(name="note", fields={"n": {"type": "float", "default": 0}}, actions={}))
    fired = [tract.fire("note", fields, review=True) for fields in ({}, {"n": 0}, {"n": 0.0})]
    assert len({pending.fingerprint for pending in fired}) == 1
    assert len(tract.review.inbox()) == 1


def test_mutable_defaults_deep_inside_are_fresh():
    parameters = Parameters("f", [Parameter("a", dict[str, list[int]], {"x": [1]})])
    parameters.validate({})["a"]["x"].append(2)
    assert parameters.validate({}) == {"a": {"x": [1]}}


def test_the_parameters_of_a_function():
    def f(self, a: Annotated[int, "A number."], b: list[str] | None = None, c=3):
        pass

    made = list(Parameters.of(f, skip=1))
    assert made == [
        Parameter("a", int, inspect.Parameter.empty, "A number."),
        Parameter("b", list[str] | None, None),
        Parameter("c", Any, 3),
    ]


class Rude:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", [Rude(), pytest.param(10**5000, id="huge"), pytest.param([10**5000], id="in a list")]
)
def test_a_value_without_a_repr_is_still_reported(value):
    with pytest.raises(ParameterError, match="'a' should be a valid string, got <.* that cannot be shown>"):
        Parameters("f", [Parameter("a", str)]).validate({"a": value})
    assert "cannot be shown" in safe_repr(value)


def test_a_huge_value_gives_a_short_error():
    with pytest.raises(ParameterError) as caught:
        Parameters("f", [Parameter("a", int)]).validate({"a": "x" * 1_000_000})
    assert len(str(caught.value)) < 200
