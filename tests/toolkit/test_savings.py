"""The estimate of tokens saved."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.toolkit.results import (
    CHARACTERS_PER_TOKEN,
    TOKENS_PER_CALL,
    CallRecord,
    TokenSavings,
    estimate_savings,
    rough_size,
)


def record(arguments, result):
    return CallRecord("t", {}, "user", True, "", 0.0, arguments, result)


def test_the_arithmetic():
    savings = estimate_savings([record(40, 400), record(2, 3)])
    assert savings == TokenSavings(calls=2, argument_tokens=42 // 4, result_tokens=403 // 4)
    assert savings.total == 2 * TOKENS_PER_CALL + 10 + 100
    assert CHARACTERS_PER_TOKEN == 4


def test_nothing_called_nothing_saved():
    assert estimate_savings([]).total == 0


def test_of_real_calls(tract):
    assert tract.tools.savings().total == 0
    tract.tools.commit({"content_type": "dialogue", "role": "user", "text": "x" * 4_000})
    first = tract.tools.savings()
    assert (first.calls, first.argument_tokens >= 1_000) == (1, True)
    tract.tools.compile()
    second = tract.tools.savings()
    assert second.calls == 2
    assert second.result_tokens - first.result_tokens >= 1_000


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("abcd", 6, 6), (b"abcd", 6, 6), ("", 2, 2), (3, 1, 10), (None, 1, 10), (object(), 1, 10), ([], 1, 10), ({}, 1, 10),
        (["abcd"] * 1_000, 7_000, 9_000), ({"k" * 4 + str(n): "v" * 10 for n in range(100)}, 2_000, 2_600),
        ({1: 2}, 2, 20), ((1, 2, 3), 3, 30), ({1, 2}, 2, 30),
    ],
)  # fmt: skip
def test_rough_size(value, least, most):
    assert least <= rough_size(value) <= most


def test_a_huge_or_endless_value_takes_no_time():
    nested: list = []
    nested.append(nested)
    assert rough_size(nested) < 100
    assert rough_size([[["x" * 100] * 1_000] * 1_000] * 1_000) > 10_000_000


@given(st.recursive(
    st.text(st.characters(codec="ascii", exclude_characters='"\\', exclude_categories=["Cc"])) | st.integers(0, 99999),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text("abc", max_size=5), inner, max_size=5),
    max_leaves=20,
))  # fmt: skip
def test_it_is_about_the_size_of_the_json(value):
    size = len(json.dumps(value))
    assert rough_size(value) <= 6 * size + 10
    if not isinstance(value, dict | list):
        assert rough_size(value) >= size - 2
