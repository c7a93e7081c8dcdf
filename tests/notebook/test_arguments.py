"""The line of `%tract_fire`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook import parse_fire
from tract_jupyter.review import split_words

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def fields(line, **namespace):
    return parse_fire(f"op {line}", namespace).fields


def test_values_are_literals_json_variables_or_bare_words():
    line = """a=['x', "y z"] b=true c=None d=$mine e=word f="two words" g={"k": [1, 2]} h=-3.5"""
    sentinel = object()
    assert fields(line, mine=sentinel) == {
        "a": ["x", "y z"], "b": True, "c": None, "d": sentinel, "e": "word", "f": "two words", "g": {"k": [1, 2]}, "h": -3.5,
    }  # fmt: skip


def test_fields_takes_a_dict_or_a_variable():
    assert fields("--fields {'a': 1} b=2") == {"a": 1, "b": 2}
    assert fields("--fields=$d", d={"a": 1}) == {"a": 1}


def test_review_is_an_option():
    assert parse_fire("op --review a=1", {}).review
    assert not parse_fire("op a=1", {}).review


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "name the operation"),
        ("--review", "name the operation"),
        ("a=1", "name the operation"),
        ("op a=$nmae", "Did you mean 'name'"),
        ("op a=[1", "neither a Python literal nor JSON"),
        ("op a=", "neither"),
        ("op a=1 a=2", "duplicate field"),
        ("op a=1 --fields {'a':1}", "duplicate field"),
        ("op --fields 3", "takes a dict"),
        ("op --fields", "neither"),
        ("op --reveiw", "Did you mean '--review'"),
        ("op word", "not field=value"),
        ("op 1a=2", "not field=value"),
    ],
)
def test_an_unreadable_line_is_refused(line, words):
    with pytest.raises(OperationError, match=words):
        parse_fire(line, {"name": 1})


@given(VALUES)
def test_every_json_value_and_every_literal_comes_through(value):
    for text in (json.dumps(value), repr(value)):
        if "\n" not in text:
            assert fields(f"v={text}") == {"v": value}


@given(st.text())
def test_any_line_is_read_or_refused(line):
    try:
        parse_fire(line, {})
    except OperationError as error:
        assert str(error)


@given(st.lists(st.text(alphabet="abc=,", min_size=1)))
def test_plain_words_split_at_spaces(words):
    assert split_words("  ".join(words)) == words


def test_nothing_is_evaluated(tmp_path):
    mark = tmp_path / "mark"
    assert not mark.exists()
    with pytest.raises(OperationError):
        fields(f"a=[open({str(mark)!r},'w')]")
    assert not mark.exists()
