"""Savings of scripts: the arithmetic, and the counting of large values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.toolkit import (
    CODE_MODE,
    TOKENS_PER_CALL,
    Exchanged,
    Savings,
    ToolResult,
    get_profile,
    rough_size,
    schema_tokens,
)


def exchanged(longest=1_000_000):
    """Return an `Exchanged` that counts one token per character, and the list of counted texts."""
    read = []

    def count(text):
        read.append(text)
        return len(text)

    return Exchanged(count, longest), read


def add(made, output, arguments=None, **options):
    arguments = arguments or {}
    rough = rough_size(arguments) + rough_size(output)
    made.add("look", arguments, ToolResult("look", success=True, output=output)._replace(**options), rough)


EACH = len("look") + len("{}") + TOKENS_PER_CALL


def test_earlier_results_count_for_more_requests():
    made, _ = exchanged()
    for output in ("a" * 100, "b" * 10, "c"):
        add(made, output)
    assert (made.calls, made.tokens) == (3, 3 * EACH + 111)
    assert made.sent == 3 * (100 + EACH) + 2 * (10 + EACH) + (1 + EACH)


def test_of_a_failed_call_the_error_is_counted():
    made, read = exchanged()
    add(made, None, success=False, error="no such commit")
    assert made.tokens == EACH + len("no such commit")
    assert read[-1] == "no such commit"


def test_results_are_counted_as_json():
    made, read = exchanged()
    add(made, {"rows": [1, 2], "name": "é"}, {"n": 1})
    assert read == ["look", '{"n": 1}', '{"rows": [1, 2], "name": "é"}']


@pytest.mark.parametrize(
    "large", ["x" * 900_000, [{"row": n, "text": "x" * 50} for n in range(12_000)], {"a": "x" * 900_000}]
)
def test_of_a_large_result_the_beginning_is_read(large):
    made, read = exchanged()
    add(made, large)
    assert sum(map(len, read)) <= 60_000
    size = len(large) if isinstance(large, str) else len(json.dumps(large))
    assert made.tokens == pytest.approx(size, rel=0.1)


def test_no_result_counts_more_than_a_model_would_be_shown():
    made, _ = exchanged(longest=1_000)
    add(made, "x" * 500_000)
    assert made.tokens == EACH + 1_000


def test_calls_of_a_long_loop_are_estimated_from_a_sample():
    made, read = exchanged()
    for n in range(5_000):
        add(made, {"number": n % 10})
    assert len(read) == 3 * 200
    assert made.tokens == pytest.approx(5_000 * (EACH + len('{"number": 1}')), rel=0.25)


class Evil:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize("odd", [Evil(), {1, 2}, {"a": Evil()}, {(1, 2): 3}, float("nan"), b"x"])
def test_a_result_without_json_form_causes_no_error(odd):
    made, _ = exchanged()
    add(made, odd)
    assert made.tokens <= EACH + 3


def test_a_recursive_result_causes_no_error():
    endless: list = []
    endless.append(endless)
    made, _ = exchanged()
    add(made, endless)
    assert made.tokens == EACH


SAVED = Savings(
    scripts=2, calls=9, schema_tokens=11_000, exchanged_tokens=1_500, shown_tokens=400, script_tokens=100
)


def test_the_arithmetic():
    assert (SAVED.one_by_one, SAVED.in_code, SAVED.saved, SAVED.share) == (12_500, 500, 12_000, 0.96)
    assert SAVED.verdict == "≈ 12,000 tokens saved (96%)"
    assert SAVED.arithmetic.startswith(
        "one by one ≈ 12,500 in 11 requests (11,000 of schemas + 1,500 of calls"
    )
    assert SAVED.arithmetic.endswith(
        "as a script ≈ 500 in 4 (400 of schemas and instructions + 100 of code and its output)"
    )
    assert SAVED + Savings() == SAVED
    assert (SAVED + SAVED).saved == 24_000


def test_negative_savings_are_reported():
    costly = Savings(1, calls=1, schema_tokens=10, exchanged_tokens=10, shown_tokens=50, script_tokens=50)
    assert costly.verdict == "≈ 80 tokens more than separate calls would send"
    assert (Savings().saved, Savings().share) == (0, 0.0)


def test_schema_tokens_count_the_schemas_sent_to_a_model(tract, search):
    tools, full = tract.executor.tools(), get_profile("full")
    sent = tract.as_tools("full")
    assert schema_tokens(tools, full, len) == len(json.dumps(sent, ensure_ascii=False, separators=(",", ":")))
    assert schema_tokens(tools, full, len, without=CODE_MODE) < schema_tokens(tools, full, len)
    assert schema_tokens(tools, get_profile("code"), len) < 3_000
    assert schema_tokens({}, full, len) == 0


def test_calls_outside_of_scripts_save_nothing(tract):
    for _ in range(20):
        tract.tools.status()
    assert tract.tools.savings() == Savings()
    assert len(tract.tools.call_log) == 20


def test_a_script_that_calls_nothing_saves_nothing(tract):
    assert tract.scripts.run("sum(range(10))").savings == Savings()


def test_there_is_one_number(tract):
    first = tract.scripts.run("tools.status()").savings
    second = tract.scripts.run("[tools.log(), tools.status()]").savings
    assert tract.tools.savings() == tract.scripts.savings == first + second
    assert [event.data["tokens_saved"] for event in tract.events("script")] == [second.saved, first.saved]


def test_schemas_count_for_each_request(tract):
    one = tract.scripts.run("tools.status()").savings
    three = tract.scripts.run("for _ in range(3): tools.status()").savings
    assert three.schema_tokens == 2 * one.schema_tokens
    assert three.shown_tokens == one.shown_tokens
    assert 0.5 < one.share < three.share < 1


def test_more_tools_save_more(tract, add):
    before = tract.scripts.run("tools.status()").savings

    def look(n: int) -> int:
        """Look at something, as many tools do that nobody needs today."""
        return n

    for number in range(20):
        add(look, name=f"look_{number}")
    now = tract.scripts.run("tools.status()").savings
    assert now.schema_tokens > before.schema_tokens
    assert now.share > before.share


def test_the_schemas_of_a_full_profile_count_as_cost_of_a_script(tract):
    result = tract.toolset("full").execute("notebook_execute", {"code": "tools.status()"})
    direct = tract.scripts.results[-1].savings
    assert result.output["tokens_saved"] == direct.saved < 0
    tract.toolset("code").execute("notebook_execute", {"code": "tools.status()"})
    assert tract.scripts.results[-1].savings.saved > 0


def test_looking_for_tools_is_a_request_that_others_do_not_need(tract):
    model = tract.toolset("code")
    model.execute("tools_search", {"query": "branch"})
    model.execute("tools_describe", {"names": ["branch"]})
    searched = tract.tools.savings()
    assert (searched.searches, searched.calls, searched.one_by_one) == (2, 0, 0)
    assert searched.saved == -searched.in_code < -2_000
    model.execute("notebook_execute", {"code": "print(tools.tools_search(query='branch'))\ntools.status()"})
    of_script = tract.scripts.results[-1].savings
    assert (of_script.calls, tract.scripts.results[-1].call_count) == (1, 2)
    assert tract.tools.savings() == searched + of_script
    assert " in 4 (" in tract.tools.savings().arithmetic


def test_a_persons_search_counts_nowhere(tract):
    tract.tools.tools_search(query="branch")
    tract.toolset("full").execute("tools_search", {"query": "branch"})
    assert tract.tools.savings() == Savings()


def test_provider_counts_correct_the_savings(tract):
    before = tract.scripts.run("tools.status()").savings
    corrections = tract._repository.corrections
    if corrections.counter.name != "approximate":
        pytest.skip("the tract's tokenizer is exact, and nothing corrects it")
    corrections.note("m", 100, {"prompt_tokens": 200})
    after = tract.scripts.run("tools.status() ").savings
    assert after.exchanged_tokens == pytest.approx(2 * before.exchanged_tokens, rel=0.2)


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
def test_rough_size_is_close_to_the_json_size(value):
    size = len(json.dumps(value))
    assert rough_size(value) <= 6 * size + 10
    if not isinstance(value, dict | list):
        assert rough_size(value) >= size - 2
