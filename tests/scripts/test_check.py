"""The check before the sandbox: it reports certain errors before anything runs, and nothing else."""

from __future__ import annotations

import pytest

from tests.scripts.ordinary import ORDINARY
from tract_jupyter.toolkit import ToolDefinition

OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "value"), ORDINARY)
def test_ordinary_scripts_run(shop, code, value):
    result = shop.scripts.run(code, backend="sandbox")
    assert (result.status, result.error, result.value) == ("completed", None, value)


def test_there_are_enough_of_them():
    assert len(ORDINARY) >= 40
    assert len(dict(ORDINARY)) == len(ORDINARY)


def told(tract, code):
    """Return the message of the check; None if the script ran."""
    error = tract.scripts.run(code, backend="sandbox").error
    return error.message if error is not None and error.name == "TypeCheckError" else None


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("tools.putt(text='a')", "line 1: Module `tools` has no member `putt`. Did you mean 'put'?"),
        ("x = 1\nfrom tools import putt", "line 2: Module `tools` has no member `putt`. Did you mean 'put'?"),
        ("import tools as t\nt.putt", "line 2: Module `tools` has no member `putt`."),
        ("for r in tools.rows():\n    tools.putt(r)", "line 2: Module `tools` has no member `putt`."),
        ("[tools.putt(r) for r in tools.rows()]", "has no member `putt`"),
        ("while True:\n    tools.putt()", "has no member `putt`"),
        ("try:\n    tools.putt()\nfinally:\n    pass", "has no member `putt`"),
        ("if tools.putt():\n    pass", "has no member `putt`"),
        ("tools.add(a='x')", "`tools.add`: 'b' is missing (str)"),
        ("tools.add('x')", "`tools.add`: 'b' is missing (str)"),
        ("x = tools.find(q='a')\ntools.add(a=x)", "line 2: `tools.add`: 'b' is missing"),
        ("from tools import add as plus\nplus(x := 'a')", "`tools.add`: 'b' is missing"),
        ("tools.put(text='a', m=1)", "'m' is unknown."),
        ("x = 'a'\ntools.put(text=x, m=x)", "'m' is unknown."),
        ("x = 'a'\ntools.put(x, 1, 2)", "takes at most 2 by position (text, n), got 3"),
        ("tools.put('a', text='b')", "got 'text' twice, by position and by name"),
        ("tools.put(text=5)", "'text' should be a valid string, got 5 (int)"),
        ("tools.put(text='a', n='1')", "'n' should be a valid integer, got '1' (str)"),
        ("tools.put(text=None)", "'text' should be a valid string, got None"),
        ("tools.save(rows=[{'q': None}])", "'rows'[0]['q']"),
        ("import numpy", "line 1: There is no module `numpy` in the sandbox."),
        ("import numpy.linalg as la", "There is no module `numpy.linalg` in the sandbox."),
        ("from pandas import DataFrame", "There is no module `pandas` in the sandbox."),
        ("print(undefined)", "line 1: Name `undefined` used when not defined."),
        ("for x in undefined:\n    pass", "Name `undefined` used when not defined."),
    ],
)
def test_certain_errors_are_reported_before_the_script_runs(shop, code, problem):
    message = told(shop, code)
    assert problem in message
    assert message.endswith("Nothing of the script ran")
    result = shop.scripts.run(f"print('begins')\n{code}", backend="sandbox")
    assert (result.status, result.error.name, result.stdout) == ("failed", "TypeCheckError", "")


@pytest.mark.parametrize(
    "code",
    [
        "tools = object()\ntools.putt()",
        "def f(tools):\n    tools.putt()",
        "import json as tools\ntools.putt()",
        "from tools import put\nput = print\nput(1, 2, 3, 4)",
        "print(lambda: undefined)",
        "def f():\n    undefined()\n    tools.putt()",
        "class A:\n    x = 1\n    def f(self):\n        return undefined",
        "assert True, undefined",
        "1 < 2 < 3 < undefined",
        "(tools.putt(x) for x in tools.rows())",
        "[tools.putt(x) for x in tools.rows() if x is None]",
        "with thing() as x:\n    tools.putt()\ndef thing(): pass",
        "hasattr(tools, 'putt') and tools.putt()",
        "getattr(tools, 'putt', None)",
        "tools.put.__name__",
        "import subprocess",
        "__file__",
    ],
)
def test_uncertain_errors_are_left_to_the_run(shop, code):
    assert told(shop, code) is None


def test_names_of_earlier_scripts_are_known(shop):
    first = (
        "import json\ndef count():\n    global total\n    total = 1\ncount()\n"
        "match [1, 2]:\n    case [head, *tail]:\n        pass\n[x for x in 'ab']"
    )
    assert shop.scripts.run(first, backend="sandbox").succeeded
    assert shop.scripts.run("json.dumps([total, head, tail])", backend="sandbox").value == "[1, 1, [2]]"
    variables = shop.scripts.sandbox.variables("main")
    assert variables.pop("count") == "function"
    assert variables == {"json": "module", "total": "int", "head": "int", "tail": "list"}


def test_a_schema_that_allows_more_is_left_to_the_call(tract):
    tract.executor.add(
        ToolDefinition.from_schema("open_tool", "Takes anything.", OPEN_SCHEMA, lambda **values: values)
    )
    assert told(tract, "x = 1\ntools.open_tool(b=x)") is None
    assert "'a' should be a valid string" in told(tract, "tools.open_tool(a=1)")


@pytest.mark.slow
def test_many_problems_are_cut(shop):
    error = shop.scripts.run("tools.putt()\n" * 10_000, backend="sandbox").error
    assert ", and 19 more" in error.message
    assert error.traceback.count("line ") == 20


def test_the_run_names_the_nearest_tool_too(shop):
    result = shop.scripts.run("def f():\n    return tools.putt()\nf()", backend="sandbox")
    assert result.error.message == "module 'tools' has no attribute 'putt'. Did you mean 'put'?"
    result = shop.scripts.run("def f():\n    from tools import putt\nf()", backend="sandbox")
    assert result.error.message.endswith(". Did you mean 'put'?")
