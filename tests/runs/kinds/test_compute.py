"""Kind `compute` and its registered functions."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.runs.kinds.operations import made_by, performed, rules
from tract_jupyter.exceptions import RunError
from tract_jupyter.runs import FUNCTIONS, Functions, SystemUpdate, UiInline, run_function
from tract_jupyter.runs.kinds import ComputeKind, OperationFailed, OperationOutput, Services, Skipped

KIND = ComputeKind()


@run_function("tests.shout")
def shout(given, arguments):
    """At module level: other processes import it."""
    return {"run": given.run_id, "said": arguments["text"].upper()}


def computed(function, arguments=None, **given):
    return made_by(
        KIND, {"function": "f", "arguments": arguments or {}}, Services(functions={"f": function}), **given
    )


def test_a_function_gets_the_context_and_arguments_from_templates():
    params = {"function": "tests.shout", "arguments": {"text": "{{ art.word.value }}!"}}
    assert made_by(KIND, params, art={"word": "hey"}).value == {"run": "r1", "said": "HEY!"}


def test_arguments_keep_their_types():
    arguments = {
        "n": "{{ art.n.value }}",
        "list": ["{{ art.n.value | plus: 1 }}"],
        "none": "{{ nothing }}",
        "as": "it is",
    }
    got = computed(lambda _, given: given, arguments, art={"n": 3}).value
    assert got == {"n": 3, "list": [4], "none": None, "as": "it is"}


def test_effects_are_taken_as_effects():
    """R3: an operation produces explicit effects."""
    one, two = SystemUpdate(mode="append", payload="x"), UiInline(role="user", content="y")
    assert computed(lambda *_: one).effects == (one,)
    assert computed(lambda *_: [one, two]).effects == (one, two)


@pytest.mark.parametrize("value", [None, [], {}, "text", 0, [1, {"a": None}]])
def test_any_json_is_a_value(value):
    made = computed(lambda *_: value)
    assert (made.value, made.effects) == (value, None)


def test_a_function_may_return_debug_data_or_a_skip():
    assert computed(lambda *_: OperationOutput(1, debug={"x": 1})).debug == {"x": 1}
    assert computed(lambda *_: Skipped("not_today")).reason == "not_today"


@pytest.mark.parametrize(
    "garbage", [object(), {1, 2}, float("nan"), "\ud800", {"a": b"x"}, Counter, (x for x in "ab")]
)
def test_garbage_is_a_validation_error(garbage):
    """R54, R55: an error with a code, not an arbitrary return value."""
    with pytest.raises(OperationFailed, match="no JSON form") as caught:
        computed(lambda *_: garbage)
    assert caught.value.code == "validation_error"


def test_an_exception_in_a_function_becomes_an_operation_error():
    """R53: no exception escapes an operation."""

    def failing(*_):
        raise KeyError("x")

    result = performed("compute", {"function": "f"}, Services(functions={"f": failing}))
    assert (result.status, result.error.code) == ("error", "operation_error")
    assert "KeyError" in result.error.message


def test_a_function_that_is_not_registered():
    with pytest.raises(OperationFailed, match=r"no function 'tests.shuot'.*'tests.shout'") as caught:
        made_by(KIND, {"function": "tests.shuot"})
    assert caught.value.code == "validation_error"


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "tests.runs.kinds.test_compute.shout", "shout"]
)
def test_a_python_import_path_is_not_a_function_name(name):
    with pytest.raises(OperationFailed, match="There is no function"):
        made_by(KIND, {"function": name})


@pytest.mark.parametrize(
    "params",
    [{}, {"function": ""}, {"function": 1}, {"function": "f", "arguments": []}, {"function": "f", "x": 1}],
)
def test_wrong_parameters(params):
    assert rules(KIND, params)
    assert set(rules(KIND, params)) <= {"params", "unknown_field"}


def test_templates_are_checked():
    assert rules(KIND, {"function": "f", "arguments": {"a": ["{{ x"]}}) == ["template_syntax"]


def test_a_template_that_cannot_be_rendered_has_its_code():
    result = performed(
        "compute", {"function": "f", "arguments": {"a": "{{ nosuch(1) }}"}}, Services(functions={"f": print})
    )
    assert (result.status, result.error.code) == ("error", "template_render_error")


def test_registering():
    functions = Functions()

    @functions.register()
    def count(_, arguments):
        return len(arguments)

    assert functions["count"] is count
    assert (list(functions), len(functions)) == (["count"], 1)
    functions.register("count")(count)
    with pytest.raises(RunError, match="in use by"):
        functions.register("count")(shout)
    functions.register("count", replace=True)(shout)
    assert functions["count"] is shout
    assert "tests.shout" in FUNCTIONS


async def _waits(_, arguments):
    return arguments


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("f", 3),
        ("f", lambda: 1),
        ("f", lambda one, two, three: 1),
        ("f", _waits),
        ("a b", shout),
        ("", shout),
        (5, shout),
        (None, lambda a, b: 1),
    ],
)
def test_invalid_functions_cannot_be_registered(name, function):
    with pytest.raises(RunError):
        Functions().register(name)(function)


def test_register_works_without_parentheses():
    """A decorator without them registers the function, as `tract.tool` does."""
    functions = Functions()

    @functions.register
    def count(context, arguments):
        return 1

    assert functions["count"] is count
    with pytest.raises(RunError, match="Invalid function name '<lambda>'"):
        functions.register(lambda context, arguments: 1)
