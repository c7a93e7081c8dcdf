"""The values that a standing approval covers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu import cpu_seconds
from tract_jupyter.review import covers, pattern_text

PATTERNS = st.text(st.sampled_from("ab./\\*?"), max_size=8)
VALUES = st.text(st.sampled_from("ab./\\\n"), max_size=10)


def allows(pattern, value, approved="approved"):
    return covers({"x": pattern}, {"x": approved}, {"x": value})


@given(
    PATTERNS.filter(lambda p: p != "*"),
    st.lists(VALUES, max_size=3),
    st.lists(VALUES, max_size=3),
    st.sampled_from("/\\"),
)
def test_a_pattern_never_covers_a_value_that_climbs(pattern, before, after, slash):
    assert not allows(pattern, slash.join([*before, "..", *after]))


@given(PATTERNS.filter(lambda p: "**" not in p and p != "*"), VALUES)
def test_one_star_does_not_cross_a_slash(pattern, value):
    if allows(pattern, value):
        assert value.count("/") == pattern.count("/")


@given(VALUES.filter(lambda v: ".." not in v))
def test_a_text_without_wildcards_covers_itself_and_nothing_else(value):
    assert allows(value, value)
    assert not allows(value, value + "a")
    assert not allows(value, "a" + value)


@given(VALUES)
def test_the_star_alone_covers_anything(value):
    assert allows("*", value)
    assert allows("*", [value])
    assert allows("*", None)


@pytest.mark.parametrize(
    ("pattern", "value", "covered"),
    [
        ("data/*", "data/a.csv", True), ("data/*", "data/b/a.csv", False), ("data/*", "data", False),
        ("data/**", "data/b/a.csv", True), ("**", "a/b", True), ("?.csv", "a.csv", True), ("?.csv", "/.csv", False),
        ("a.c", "abc", False), ("[ab]", "a", False), ("data/*", "data/a\n", True), ("data/*", "/data/a", False),
        ("data/*", 3, False), ("3", 3, False), ("data/*", ["data/a"], False), (["r", "w"], "r", True),
        (["r", "w"], "x", False), (["data/*"], "data/a", False), ([], "", False), (1, 1, True), (None, None, True),
        ({"a": 1}, {"a": 1}, True), ({"a": 1}, {"a": 1.0}, False), ("DATA/*", "data/a", False),
    ],
)  # fmt: skip
def test_a_pattern_covers_the_expected_values(pattern, value, covered):
    assert allows(pattern, value) is covered


REGEX = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


@given(PATTERNS.filter(lambda p: p != "*"), VALUES.filter(lambda v: ".." not in v))
def test_a_pattern_matches_like_its_regular_expression(pattern, value):
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    expression = "".join(REGEX.get(part) or re.escape(part) for part in parts)
    assert allows(pattern, value) is bool(re.fullmatch(expression, value, re.DOTALL))


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        ("*a*b*.csv", "ab"), ("**a**b**.csv", "ab"), ("*" * 50 + "b", "a"), ("**/*" * 20 + "b", "a/"),
        ("?*" * 50 + "b", "a"), ("*a" * 1_000 + "b", "a"), ("/".join(["*"] * 100) + "b", "a/"),
    ],
)  # fmt: skip
def test_a_long_value_of_the_model_takes_linear_time(pattern, piece):
    with cpu_seconds() as seconds:
        assert not allows(pattern, piece * 100_000)
    assert seconds[0] < 2


DISTINCT = [
    1,
    1.0,
    True,
    "1",
    "True",
    0,
    False,
    None,
    "",
    [],
    {},
    [1],
    [True],
    {"a": 1},
    {"a": True},
    -0.0,
    0.0,
]


@given(st.sampled_from(DISTINCT), st.sampled_from(DISTINCT))
def test_exact_values_are_distinguished_by_type(one, other):
    is_same = type(one) is type(other) and repr(one) == repr(other)
    assert covers({}, {"x": one}, {"x": other}) is is_same
    assert allows([one], other) is is_same


def test_values_without_a_pattern_must_be_equal():
    approved = {"path": "data/a", "mode": "r"}
    assert covers({"path": "data/*"}, approved, {"path": "data/b", "mode": "r"})
    assert not covers({"path": "data/*"}, approved, {"path": "data/b", "mode": "w"})


@pytest.mark.parametrize("values", [{}, {"x": 1, "y": 2}, {"y": 1}])
def test_other_names_are_never_covered(values):
    assert not covers({"x": "*"}, {"x": 1}, values)


def test_in_words():
    assert pattern_text({"path": "data/*"}, {"path": "a", "mode": "r"}) == "path: data/*, mode = 'r'"
    assert pattern_text({"n": "*", "m": [1, 2]}, {"n": 1, "m": 1}) == "n: anything, m: 1 or 2"
    assert pattern_text({}, {}) == "no values"
