"""A changed variable has a line that says what changed: two values with the same type and size look different."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from tests.rehearsal.copies import findings_of
from tract_jupyter.rehearsal import Rehearser


def first(x):
    return x


def second(x):
    return x + 1


class Model:
    """A class of the user."""


class Loud:
    """A value whose class must not run in the kernel."""

    def __eq__(self, other):
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "code", "line"),
    [
        ({"url": "http://good", "n": 1}, "x['url'] = 'http://evil'", "['url']: 'http://good' → 'http://evil'"),
        ({"a": {"b": [1, 2]}}, "x['a']['b'][1] = 9", "['a']['b'][1]: 2 → 9"),
        ({"a": 1}, "x['b'] = 2; del x['a']", "['b']: 2 added; ['a']: removed"),
        ({"a": 1, "b": 2}, "x['a'] = x.pop('a')", "another order of keys"),
        ({1: 2}, "x[1] = True", "[1]: 2 → True"),
        ([1, 2, 3], "x[1] = 99", "[1]: 2 → 99"),
        ([1, 2, 3], "x.append(4)", "1 item added"),
        ((1, 2), "x = (1, 5)", "[1]: 2 → 5"),
        (list(range(9)), "x[:] = x[::-1]", "[0]: 0 → 8; [1]: 1 → 7; [2]: 2 → 6; 5 more changes"),
        ({1, 2}, "x.add(3); x.remove(1)", "3 added; 1 removed"),
        ("a" * 70 + "old", "x = 'a' * 70 + 'new'", "…'aaaaaaaaold' → …'aaaaaaaanew'"),
        (b"a" * 70, "x = b'a' * 69 + b'b'", "changed from byte 69 on"),
        ("a" * 2_000_000, "x = x[:-1] + 'b'", "changed from character 1,999,999 on"),
        (np.arange(6).reshape(2, 3), "x[1, 2] = 0", "[1, 2]: 5 → 0"),
        (np.array([1.0, np.nan]), "x[0] = 2", "[0]: 1.0 → 2.0"),
        (pd.Series([1, 2, 3]), "x[2] = 5", "1 value of values changed"),
        ({"t": pd.DataFrame({"a": [1, 2]})}, "x['t'].loc[0, 'a'] = 7", "['t']: 1 value of a changed"),
        ([0] * 200_000, "x[-1] = 1", "only the first 100,000 parts were compared"),
        (pd.DataFrame({"a": [1]}), "x.attrs['a'] = 1", "other attributes, the same cells"),
        (1, "x = 2", ""),
        ("short", "x = 'other'", ""),
        ([1], "x = {}", ""),
    ],
)  # fmt: skip
def test_the_line_of_a_changed_value_says_what_changed(workspace, value, code, line):
    (effect,) = findings_of(code, {"x": value, "np": np}, workspace).effects.variables
    assert effect.detail == line


@pytest.mark.parametrize(
    ("values", "states", "detail"),
    [
        ((first, second), ("function first", "function second"), "the same object as b"),
        ((print, len), ("function print", "function len"), "the same object as b"),
        ((int, Model), ("class int", "class Model"), "the same object as b"),
        ((Model(), Model()), ("Model", "Model"), "the same object as b"),
    ],
)
def test_a_name_that_gets_another_object_of_the_kernel_names_it(workspace, values, states, detail):
    effects = findings_of("a = b", dict(zip("ab", values, strict=True)), workspace).effects
    (effect,) = effects.variables
    assert (effect.before, effect.after, effect.detail) == (*states, detail)
    assert effects.defines_functions == effect.after.startswith("function")


def test_cells_that_differ_look_different(workspace):
    namespace = {"x": pd.DataFrame({"a": ["x" * 90 + "good", 1, "a b", *"abcdefghijk"]}, dtype=object)}
    code = "x.loc[:2, 'a'] = ['x' * 90 + 'evil', '1', 'a\\nb']"
    (effect,) = findings_of(code, namespace, workspace).effects.variables
    for row in effect.table.sample:
        assert row.before != row.after
    assert effect.table.sample[0].before[0].endswith("good")


def test_a_function_in_a_collection_is_named(workspace):
    namespace = {"handlers": {"a": first}, "other": second}
    (effect,) = findings_of("handlers['a'] = other", namespace, workspace).effects.variables
    assert effect.detail == "['a']: function first → function second"


def test_no_class_of_the_user_runs(workspace):
    namespace = {"x": [Loud(), 1], "y": [Loud()]}
    (effect,) = findings_of("x[1] = y[0]", namespace, workspace).effects.variables
    assert effect.problem


def test_secrets_are_not_cut(workspace, rehearser):
    secret = "k3y-" + "0123456789abcdef" * 3
    made: Rehearser = rehearser("basic", secrets=lambda: [secret])
    rehearsal = made.rehearse("x = 'a' * 100", {"x": f"key={secret} and more text"})
    (effect,) = rehearsal.effects.variables
    assert secret[:8] not in str(effect)
    rehearsal.discard()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (list(range(1_000_000)), "x[-1] = 5"),
        ("a" * 20_000_000, "x = x[:-1] + 'b'"),
        (np.zeros(20_000_000), "x[-1] = 5"),
        (dict.fromkeys(range(1_000_000)), "x[999_999] = 5"),
    ],
    ids=["list", "text", "array", "keys"],
)
def test_large_values_are_compared_fast(workspace, value, code):
    began = time.thread_time()
    (effect,) = findings_of(code, {"x": value}, workspace).effects.variables
    assert effect.detail
    assert time.thread_time() - began < 10
