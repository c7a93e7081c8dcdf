"""Scripts in the sandbox: they reach the outside only through tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.effects import adversarial, effects_of
from tests.review.fakes import FakeChannel, click
from tract_jupyter.scripts import ScriptLimits, ScriptStatus
from tract_jupyter.toolkit import Traits

NOTE = {"content_type": "dialogue", "role": "user", "text": "x"}


@pytest.fixture
def run(tract):
    def run_in_sandbox(code, **options):
        return tract.scripts.run(code, backend="sandbox", **options)

    return run_in_sandbox


def test_a_sandbox_script_calls_tools_and_prints(tract, run):
    result = run("found = tools.status()\nprint('on', found['branch'])\nlen(found)")
    assert (result.status, result.stdout, result.backend) == ("completed", "on main\n", "sandbox")
    assert result.value == len(tract.executor.execute("status", {}).output)
    assert [(call.tool, call.line) for call in result.calls] == [("status", 1)]


def test_positional_arguments_and_helpers(tract, run, search):
    assert run("tools.web_search('x', 2)[0]").succeeded
    assert run("from tools import web_search\nweb_search(query='y')[0]").succeeded
    assert run("def f(q):\n    return tools.web_search(query=q)\n[f(q) for q in 'ab']").calls[1].line == 2


@pytest.mark.parametrize("call", ["{}", "value={{'a': ({},)}}"])
@pytest.mark.parametrize(
    "value", ["len", "str", "{1, 2}", "b'x'", "...", "{1: 2}", "float('nan')", "ValueError('x')", "datetime.date(2026, 1, 1)"]
)  # fmt: skip
def test_a_tool_gets_only_plain_data(tract, run, value, call):
    got = []

    @tract.tool(read_only=True)
    def show(value: Any) -> str:
        """Show a value."""
        got.append(value)
        return "shown"

    result = run(f"import datetime\ntools.show({call.format(value)})")
    assert (got, result.error.name) == ([], "RuntimeError")
    assert "no JSON form" in result.error.message
    assert run("tools.show(value={'a': (1, [None, 2.5], 'x')})").succeeded
    assert got == [{"a": [1, [None, 2.5], "x"]}]


def test_variables_are_kept_until_a_fresh_run(run):
    assert run("rows = [1, 2]\ndef double(x):\n    return 2 * x").succeeded
    assert run("[double(x) for x in rows]").value == [2, 4]
    assert run("rows", notebook_id="other").error.name == "TypeCheckError"
    assert run("rows", fresh=True).error.name == "TypeCheckError"


def test_a_failing_script_does_not_change_the_variables(run):
    run("n = 1")
    assert run("n = 2\n1 / 0").error.name == "ZeroDivisionError"
    assert run("n").value == 1


def test_errors_of_tools_can_be_caught(tract, run):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="no"))
    code = "try:\n    tools.get_commit(commit_hash='nope')\nexcept ToolExecutionError as error:\n    print(error)"
    assert "nope" in run(code).stdout
    code = f"try:\n    tools.commit(content={NOTE})\nexcept ToolDenied as error:\n    print('denied:', error)"
    assert run(code).stdout.startswith("denied: commit: ")


def test_errors_in_calls_are_reported_before_anything_runs(run, search):
    result = run("print('begins')\ntools.web_serch(query='x')\nundefined\nimport numpy")
    assert (result.error.name, result.stdout) == ("TypeCheckError", "")
    assert result.error.message.startswith(
        "line 2: Module `tools` has no member `web_serch`. Did you mean 'web_search'?, and 2 more"
    )
    assert "line 4" in result.error.traceback


@pytest.mark.parametrize(
    ("code", "name", "hint"),
    [
        ("def f():\n    yield 1\nf()", "NotImplementedError", "subset of Python"),
        ("class A(Exception): pass", "NotImplementedError", "subset of Python"),
        ("open('x.txt').read()", "PermissionError", "no files"),
        ("import os\nos.environ['HOME']", "RuntimeError", "no environment"),
        ("import os\nos.listdir('/')", "PermissionError", "no files"),
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("assert 1 == 2", "AssertionError", "1 == 2"),
        ("x = [0] * 10**12", "MemoryError", "memory limit"),
        ("def f(): return f()\nf()", "RecursionError", "recursion"),
    ],
)
def test_the_error_for_a_missing_feature_has_a_hint(run, code, name, hint):
    error = run(code).error
    assert error.name == name
    assert hint in error.message


def test_tracebacks_have_the_scripts_lines(run):
    result = run("def broken(n):\n    return 1 / n\nbroken(0)")
    assert "line 3" in result.error.traceback
    assert "return 1 / n" in result.error.traceback
    assert f'File "<script:{result.script_hash[:12]}>"' in result.error.traceback


@pytest.mark.parametrize(
    "code", ["while True: pass", "x = 10 ** (10 ** 8)", "for _ in iter(int, 1): tools.status()"]
)
def test_a_script_that_does_not_end_is_stopped(run, code):
    result = run(code, limits=ScriptLimits(seconds=0.3, calls=None))
    assert result.status in {ScriptStatus.TIMED_OUT, ScriptStatus.FAILED}
    assert run("1").value == 1


def test_output_is_bounded(run):
    result = run("for n in range(100_000): print(n)", limits=ScriptLimits(output_characters=1_000))
    assert result.stdout.startswith("0\n1\n")
    assert result.stdout.endswith("99999\n")
    assert len(result.stdout) <= 1_000


def test_the_limit_of_calls(run):
    code = "for n in range(5):\n    try:\n        tools.status()\n    except RuntimeError as error:\n        print(n, error)"
    assert len(run(code, limits=ScriptLimits(calls=3)).stdout.splitlines()) == 2


def test_results_that_have_no_json_form_do_not_enter(tract, run, add):
    def odd() -> object:
        """Give back an object of Python's."""
        return object()

    add(odd, traits=Traits(read_only=True))
    assert "has no JSON form" in run("tools.odd()").error.message


def test_the_panel_shows_the_line_that_asks(tract, run):
    tract.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "approve", edits={"message": "changed"})
    )
    result = run(f"print('one')\nmade = tools.commit(content={NOTE}, message='as it was')\nmade['message']")
    assert result.value == "changed"
    request, _ = tract.reviewer.channel.shown[0]
    block = request.code[0]
    assert (block.marked, block.title) == (2, f"Asked by <script:{result.script_hash[:12]}>, line 2")


def test_a_rejection_reaches_the_script_with_its_reason(tract, run):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="not now"))
    code = f"try:\n    tools.commit(content={NOTE})\nexcept ToolDenied as error:\n    print(error)\n'went on'"
    result = run(code)
    assert result.stdout == "commit: not now\n"
    assert result.value == "went on"


SETUP = """
from tract_jupyter.scripts import ScriptLimits
tract.scripts.run("tools.status()", backend="sandbox")  # everything is loaded, the worker runs
"""
RUN = """
def run(code):
    return str(tract.scripts.run(code, backend="sandbox", fresh=True, limits=ScriptLimits(seconds=1)).status)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_dangerous_snippet_has_an_effect(tmp_path):
    snippets = dict(adversarial())
    found = effects_of(snippets, SETUP + RUN, own_code="<script", folder=tmp_path)
    assert {name: effects for name, (_, effects) in found.items() if effects} == {}
    assert len(found) == len(snippets) >= 2 * 99


def test_a_script_that_failed_makes_its_calls_again(desk):
    code = "tools.put(n=1)\ntools.put(n=-1)"
    for _ in range(2):
        result = desk.run(code, backend="sandbox")
        assert (result.status, result.replayed_count, desk.rows()) == (ScriptStatus.FAILED, 0, 0)
    assert desk.made == ["put 1", "put -1"] * 2
