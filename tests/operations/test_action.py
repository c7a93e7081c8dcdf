"""Compiling an action: signature, text, line numbers and refused code."""

from __future__ import annotations

import inspect
import linecache
import traceback
from typing import Any

import pytest

from tract_jupyter.exceptions import ParameterError, SpecError
from tract_jupyter.operations import ActionDef, compile_action


def action(code: str, params: dict[str, str] | None = None, **parts: Any) -> ActionDef:
    return ActionDef("go", "Go on.", params or {}, code, **parts)


def test_compile_simple_action():
    assert compile_action(action("return pending + 1"))(41) == 42


def test_compile_action_with_params():
    run = compile_action(action("return [pending, word, times]", {"word": "str", "times": "int"}))
    assert run("p", word="a", times=2) == ["p", "a", 2]


def test_compile_action_with_defaults():
    run = compile_action(action("return a, b", {"a": "int", "b": "int"}, defaults={"b": 7}))
    assert run(None) == (None, 7)
    assert run(None, b=8) == (None, 8)


def test_mutable_defaults_are_not_shared():
    given = {"seen": []}
    run = compile_action(action("seen.append(1)\nreturn seen", {"seen": "list[int]"}, defaults=given))
    assert [run(None), run(None)] == [[1], [1]]
    given["seen"].append(9)
    assert run(None) == [1]
    assert inspect.signature(run).parameters["seen"].default == []


def test_compile_action_syntax_error_raises():
    with pytest.raises(SpecError, match=r"line 2: .*never closed") as caught:
        compile_action(action("x = 1\ny = (\n"))
    assert isinstance(caught.value, ValueError)
    assert (caught.value.line, caught.value.action) == (2, "go")


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        ("x = 1\nbreak", 2, "outside loop"),
        ("\n\ncontinue", 3, "loop"),
        ("nonlocal x", 1, "nonlocal"),
        ("from os import *", 1, "module level"),
        ("global pending", 1, "global"),
        ("if True:\npass", 2, "indented block"),
        ("x = 1\n  y = 2", 2, "ndent"),
        ("async with x: pass", 1, "outside async"),
        ("await x", 1, "await"),
        ("yield 1", None, "yield"),
        ("if pending:\n    x = yield", None, "yield"),
        ("", None, "no code"),
        (" \n\t\n", None, "no code"),
        ("# nothing\n# at all", None, "no code"),
        ("x = '\0'", None, "null"),
        ("x = '\ud800'", None, "surrogate"),
        pytest.param("x = " + "(" * 500, 1, "nested", id="parentheses"),
        pytest.param("x = " + "-" * 200_000 + "1", None, "nested too deeply", id="signs"),
        pytest.param("x" + ".a" * 60_000, None, r"compiled: \S", id="attributes"),
    ],
)
def test_compile_action_refuses_code_that_can_never_run(code, line, words):
    with pytest.raises(SpecError, match=words) as caught:
        compile_action(action(code))
    assert caught.value.action == "go"
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_generator_inside_is_fine():
    code = "def count():\n    yield 1\n    yield 2\nasync def later():\n    await x\nreturn list(count())"
    assert compile_action(action(code))(None) == [1, 2]


def test_compiled_function_has_correct_signature():
    run = compile_action(action("pass", {"strict": "bool", "urls": "list[str]"}, required=["urls"]))
    assert list(inspect.signature(run).parameters) == ["pending", "urls", "strict"]
    assert inspect.signature(run).parameters["urls"].default is inspect.Parameter.empty
    assert inspect.signature(run).parameters["strict"].default is None
    assert (run.__name__, run.__doc__) == ("go", "Go on.")


def test_compiled_function_has_type_annotations():
    run = compile_action(action("pass", {"a": "bool", "b": "list[str]", "c": "int | None", "d": "Any"}))
    annotations = {p.name: p.annotation for p in inspect.signature(run).parameters.values()}
    assert annotations == {
        "pending": inspect.Parameter.empty,
        "a": bool,
        "b": list[str],
        "c": int | None,
        "d": Any,
    }


def test_compiled_function_traceback_shows_source_name():
    run = compile_action(action('\ntext = """a\nb"""\n\nraise KeyError(text)  # here'))
    with pytest.raises(KeyError) as caught:
        run(None)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno) == ("<action:go>", 5)
    assert frame.line == "raise KeyError(text)  # here"
    linecache.checkcache()
    assert linecache.getline("<action:go>", 2) == 'text = """a\n'


def test_traceback_of_an_action_of_an_operation_names_both():
    run = compile_action(action("1 / 0"), operation="op")
    with pytest.raises(ZeroDivisionError) as caught:
        run(None)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == "<action:op.go>"


def test_compiled_action_runtime_error_propagates():
    with pytest.raises(KeyError, match="nowhere"):
        compile_action(action('return {}["nowhere"]'))(None)
    with pytest.raises(TypeError, match="NoneType"):
        compile_action(action("return 1 + pending"))(None)


def test_compiled_action_required_param_missing_raises():
    run = compile_action(action("return n", {"n": "int"}, required=["n"]))
    with pytest.raises(ParameterError, match=r"'n' is missing \(int\)") as caught:
        run(None)
    assert isinstance(caught.value, TypeError | ValueError)
    with pytest.raises(ParameterError, match="'n' should be a valid integer, got None"):
        run(None, n=None)


def test_required_after_optional():
    run = compile_action(action("return a, b", {"a": "int", "b": "int"}, required=["b"]))
    assert list(inspect.signature(run).parameters) == ["pending", "b", "a"]
    assert run(None, 2) == (None, 2)
    assert run(None, 2, 1) == (1, 2)
    assert run(None, a=1, b=2) == (1, 2)


def test_positional_and_keyword_calls():
    run = compile_action(action("return a, b", {"a": "int", "b": "str"}))
    assert run(None, 1, "x") == run(None, 1, b="x") == run(None, b="x", a=1) == (1, "x")
    with pytest.raises(ParameterError, match="at most 2 by position"):
        run(None, 1, "x", 3)
    with pytest.raises(ParameterError, match="'a' twice"):
        run(None, 1, a=2)
    with pytest.raises(ParameterError, match="'aa' is unknown. Did you mean 'a'"):
        run(None, aa=2)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", True),
        ("bool", 1),
        ("str", b"x"),
        ("list[str]", ["a", 1]),
        ("dict[str, int]", {"a": "1"}),
        ("float", True),
    ],
)
def test_arguments_are_checked_at_each_call(kind, value):
    run = compile_action(action("raise AssertionError('it ran')", {"x": kind}))
    with pytest.raises(ParameterError, match="'x'"):
        run(None, x=value)


def test_the_text_of_strings_over_several_lines_is_kept():
    code = 'text = """one\n  two\n\n\tthree\\\n"""\nreturn text'
    assert compile_action(action(code))(None) == "one\n  two\n\n\tthree"


def test_an_indented_string_keeps_its_indentation_inside_a_block():
    code = "if True:\n    text = '''\n  x\n'''\nreturn text"
    assert compile_action(action(code))(None) == "\n  x\n"


def test_nothing_is_executed_at_compile_time(tmp_path):
    target = tmp_path / "written"
    code = f"def f(x=open({str(target)!r}, 'w').close()): pass\nclass A: open({str(target)!r}, 'w').close()"
    run = compile_action(action(code, {"a": "int"}, defaults={"a": 3}))
    assert not target.exists()
    run(None)
    assert target.exists()


def test_a_parameter_hides_a_builtin_and_each_action_has_its_own_globals():
    first = compile_action(
        action("global shared\nshared = 1\nreturn print", {"print": "int"}, defaults={"print": 5})
    )
    second = compile_action(action("return 'shared' in globals()"))
    assert first(None) == 5
    assert second(None) is False
