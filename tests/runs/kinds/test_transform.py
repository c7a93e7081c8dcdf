"""Kind `transform`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kinds.operations import made_by, rules
from tract_jupyter.runs import MAX_TEXT
from tract_jupyter.runs.kinds import OperationFailed, TransformKind

KIND = TransformKind()


def transformed(value, *steps, **given):
    return made_by(KIND, {"input": value, "steps": list(steps)}, **given).value


@pytest.mark.parametrize(
    ("value", "step", "expected"),
    [
        (" a ", {"type": "trim"}, "a"),
        ("ÄB", {"type": "lower"}, "äb"),
        ("straße", {"type": "upper"}, "STRASSE"),
        ("a.b.c", {"type": "replace", "pattern": ".", "replacement": "-", "literal": True}, "a-b-c"),
        ("Ann Lee", {"type": "replace", "pattern": r"(\w+) (?<last>\w+)", "replacement": r"\g<last> \1"}, "Lee Ann"),
        ("aaa", {"type": "replace", "pattern": "b*"}, "aaa"),
        ("x=1, y=2", {"type": "extract", "pattern": r"y=(\d)"}, "2"),
        ("x=1", {"type": "extract", "pattern": r"\d"}, "1"),
        ("ab", {"type": "extract", "pattern": "(z)?b"}, "b"),
        ("x", {"type": "extract", "pattern": "y"}, None),
        ({"a": [{"b": 7}]}, {"type": "pick", "path": "a.0.b"}, 7),
        ({"a.b": [1, 2]}, {"type": "pick", "path": ["a.b", -1]}, 2),
        (["a", 1, True, None], {"type": "join", "separator": "/"}, "a/1/true/"),
        ("abcdef", {"type": "truncate", "characters": 2}, "ab"),
        ("abcdef", {"type": "truncate", "characters": 2, "keep": "end"}, "ef"),
        ("abcdef", {"type": "truncate", "characters": 0, "keep": "end"}, ""),
        ("abc", {"type": "truncate", "characters": 9, "keep": "end"}, "abc"),
        ("one two three", {"type": "truncate", "tokens": 2}, "one two "),
        ('{"a": [1.5]}', {"type": "parse_json"}, {"a": [1.5]}),
        ({"a": "ä"}, {"type": "to_json"}, '{"a":"ä"}'),
        ("you", {"type": "template", "template": "Hi {{ value }}!"}, "Hi you!"),
    ],
)  # fmt: skip
def test_each_step(value, step, expected):
    assert transformed(value, step) == expected


def test_steps_follow_each_other_and_the_input_is_a_template():
    steps = [{"type": "pick", "path": "names"}, {"type": "join", "separator": ", "}, {"type": "upper"}]
    value = "{{ art.people.value }}"
    assert transformed(value, *steps, art={"people": {"names": ["a", "b"]}}) == "A, B"


def test_template_syntax_in_data_is_not_rendered():
    """R62: the content of an artifact is never executed."""
    assert transformed("<{{ art.x.value }}>", art={"x": "{{ art.y.value }}"}) == "<{{ art.y.value }}>"


def test_without_steps_the_input_is_the_value():
    assert transformed({"a": ["{{ art.x.value }}", 1, None]}, art={"x": 2}) == {"a": [2, 1, None]}


@pytest.mark.parametrize(
    ("value", "step", "words"),
    [
        (["a"], {"type": "trim"}, "needs a text, not a list"),
        (None, {"type": "lower"}, "null"),
        ("a", {"type": "join"}, "needs a list"),
        ({"a": 1}, {"type": "pick", "path": "b"}, "there is no 'b'"),
        ("text", {"type": "pick", "path": "upper"}, "there is no 'upper'"),
        ([1], {"type": "pick", "path": "7"}, "there is no '7'"),
        ([1], {"type": "pick", "path": "9" * 5000}, "there is no"),
        ("{", {"type": "parse_json"}, "not JSON"),
        ("NaN", {"type": "parse_json"}, "NaN"),
        ("[" * 100_000, {"type": "parse_json"}, "not JSON"),
        ("ab", {"type": "replace", "pattern": "(a)", "replacement": r"\2"}, "replacement"),
        ("a" * 100_000, {"type": "replace", "pattern": "a", "replacement": "b" * 100}, "more than"),
        ("a" * 100_000, {"type": "replace", "pattern": "a", "replacement": "b" * 100, "literal": True}, "characters"),
        (["x"] * 100_000, {"type": "join", "separator": "-" * 100}, "characters"),
        ("ß" * (MAX_TEXT - 1), {"type": "upper"}, "characters"),
    ],
)  # fmt: skip
def test_an_unsuitable_value_is_an_error_with_a_code(value, step, words):
    """R55: the code is stable."""
    with pytest.raises(OperationFailed, match=words) as caught:
        transformed(value, step)
    assert caught.value.code in {"validation_error", "output_parse_error"}


def test_a_pattern_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr("tract_jupyter.runs.kinds.base.MAX_SECONDS", 0.05)
    with pytest.raises(OperationFailed, match="takes more than"):
        transformed("a" * 40 + "b", {"type": "replace", "pattern": "(?:a|aa)+$"})


@pytest.mark.parametrize(
    "params",
    [
        {}, {"input": "x", "steps": [{"type": "eval"}]}, {"input": "x", "steps": [{"type": "trim", "more": 1}]},
        {"input": "x", "steps": [{"type": "replace", "pattern": "("}]}, {"input": "x", "steps": [{"type": "truncate"}]},
        {"input": "x", "steps": [{"type": "extract", "pattern": "a{99999999999}"}]},
        {"input": "x", "steps": [{"type": "truncate", "tokens": 1, "characters": 1}]},
        {"input": "x", "steps": [{"type": "replace", "pattern": "a" * 3000}]}, {"input": "x", "steps": "trim"},
        {"input": "x", "steps": [{"type": "trim"}] * 51},
    ],
)  # fmt: skip
def test_wrong_parameters_are_found_before_saving_and_when_it_runs(params):
    assert rules(KIND, params)
    assert set(rules(KIND, params)) <= {"params", "unknown_field"}
    with pytest.raises(OperationFailed) as caught:
        made_by(KIND, params)
    assert caught.value.code == "validation_error"


@pytest.mark.parametrize(
    "params", [{"input": "{{ x"}, {"input": "x", "steps": [{"type": "template", "template": "{% x"}]}]
)
def test_templates_are_checked_before_saving(params):
    assert rules(KIND, params) == ["template_syntax"]


def test_a_regular_expression_is_not_parsed_as_a_template():
    params = {"input": "x{{y", "steps": [{"type": "replace", "pattern": r"{{"}]}
    assert rules(KIND, {**params, "input": "x"}) == []


@given(st.text(max_size=200), st.integers(0, 50), st.sampled_from(["start", "end"]))
def test_truncating_by_tokens_keeps_its_promise(text, tokens, keep):
    from tract_jupyter.context import ApproximateCounter

    params = {"input": {"text": text}, "steps": [{"type": "pick", "path": ["text"]}]}
    params["steps"].append({"type": "truncate", "tokens": tokens, "keep": keep})
    if "{" in text:
        return
    short = made_by(KIND, params).value
    assert ApproximateCounter().count_text(short) <= tokens
    assert text.startswith(short) if keep == "start" else text.endswith(short)
    if ApproximateCounter().count_text(text) <= tokens:
        assert short == text


@given(st.text(alphabet="ab.", max_size=30), st.text(alphabet="ab", max_size=5))
def test_replace_works_like_re_sub(text, replacement):
    import re

    for pattern in ("a", "b*", "(?:ab)+|b", r"\."):
        step = {"type": "replace", "pattern": pattern, "replacement": replacement}
        assert transformed(text, step) == re.sub(pattern, replacement, text)
