from __future__ import annotations

import json
import math
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import canonical_json, digest, plain, sha256

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)


def shuffled(value: Any) -> Any:
    """The same value with every dict's keys in the opposite order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(part) for part in value] if isinstance(value, list) else value


@given(JSON)
def test_canonical_json_reads_back_unchanged(value):
    assert json.loads(canonical_json(value)) == value
    assert plain(value) == value


@given(JSON)
def test_the_order_of_keys_does_not_matter(value):
    assert canonical_json(shuffled(value)) == canonical_json(value)
    assert digest(shuffled(value)) == digest(value)


@given(JSON, JSON)
def test_other_bytes_mean_another_value(one, other):
    if canonical_json(one) == canonical_json(other):
        assert one == other
    else:
        assert digest(one) != digest(other)


def test_the_form_is_the_stated_one():
    assert canonical_json({"b": [1, 2.5, None, True], "a": "é\n"}) == '{"a":"é\\n","b":[1,2.5,null,true]}'
    assert digest({"a": "é"}) == sha256('{"a":"é"}'.encode())
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_string_and_integer_enums_are_their_values():
    class Word(StrEnum):
        ONE = "one"

    class Number(IntEnum):
        ONE = 1

    assert canonical_json([Word.ONE, Number.ONE]) == '["one",1]'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"a": [math.nan]}])
def test_numbers_without_a_json_form_are_refused(value):
    with pytest.raises(ContentError, match="no JSON form"):
        canonical_json(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", {"a": object()}, [1j]])
def test_other_objects_are_refused(value):
    with pytest.raises(ContentError, match="no JSON form"):
        canonical_json(value)


@pytest.mark.parametrize("key", [1, 1.5, True, None, (1, 2)])
def test_a_key_that_is_not_a_string_is_refused(key):
    # json would write 1 as "1", so two different values would have one fingerprint
    with pytest.raises(ContentError, match="is not a string"):
        canonical_json({"outer": [{key: "x"}]})


@pytest.mark.parametrize("value", ["\ud800", {"a": "x\udfffy"}, {"\udc00": 1}, ["ok", "\ud83d"]])
def test_a_lone_surrogate_is_refused_with_the_remedy(value):
    with pytest.raises(ContentError, match="lone surrogate.*repair it"):
        canonical_json(value)


def test_signs_beyond_the_basic_plane_and_nul_are_text():
    assert plain("\U0001f600 \0 \x1f") == "\U0001f600 \0 \x1f"


def nested(levels: int) -> Any:
    value: Any = "leaf"
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_has_a_limit_that_does_not_depend_on_the_stack():
    assert plain(nested(200)) == nested(200)
    for levels in (201, 100_000):
        with pytest.raises(ContentError, match="nested more than 200"):
            canonical_json(nested(levels))


def test_a_value_that_contains_itself_is_refused():
    ring: dict[str, Any] = {}
    ring["self"] = ring
    with pytest.raises(ContentError, match="contains itself"):
        canonical_json(ring)


def test_plain_is_a_copy():
    value = {"list": [1], "tuple": (1, 2)}
    copy = plain(value)
    value["list"].append(2)
    assert copy == {"list": [1], "tuple": [1, 2]}
