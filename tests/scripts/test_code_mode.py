"""Code mode: a model sees three tools, and calls the others from scripts, with the same approvals."""

from __future__ import annotations

import sys
import types

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter.context import default_counter
from tract_jupyter.scripts import ScriptStatus
from tract_jupyter.toolkit import CODE_MODE, Permission, ToolConfig, ToolProfile

BACKENDS = ["sandbox", "kernel"]
WEATHER = {"Rome": "sunny, 31 degrees", "Oslo": "rain, 9 degrees"}


@pytest.fixture
def world(tract):
    """Tools that record their calls."""
    done = []

    def get_weather(city: str) -> str:
        """Tells the weather in a city."""
        done.append(("get_weather", city))
        return WEATHER.get(city, "unknown city")

    def add(a: int, b: int) -> int:
        """Adds two whole numbers."""
        done.append(("add", a, b))
        return a + b

    def send_mail(to: str, text: str) -> str:
        """Sends a mail."""
        done.append(("send_mail", to, text))
        return f"sent as M-{len(done)}"

    tract.tool(get_weather, read_only=True)
    tract.tool(add, read_only=True)
    tract.tool(send_mail)
    return done


@pytest.fixture
def model(tract, world):
    return tract.toolset("code", actor="agent:1")


@pytest.fixture
def approving(tract):
    channel = tract.reviewer.channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 10)
    return channel


def execute(model, code, backend="sandbox"):
    result = model.execute("notebook_execute", {"code": code, "backend": backend})
    assert result.success, result.error
    return result.output


IMPORTING = r"""import json, re, math
from tools import get_weather, add
w = get_weather(city='Rome')
print(json.dumps({'t': int(re.search(r'\d+', w).group()), 's': add(a=2, b=math.floor(3.9))}))"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_tools_are_imported_like_a_module(model, world, approving, backend):
    told = execute(model, IMPORTING, backend)
    assert told["output"] == '{"t": 31, "s": 5}\n'
    assert world == [("get_weather", "Rome"), ("add", 2, 3)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "code",
    [
        "import tools\ntools.add(a=1, b=2)",
        "import tools as t\nt.add(1, 2)",
        "import json, tools\ntools.add(1, 2)",
        "from tools import add as plus\nplus(1, 2)",
        "def f():\n    from tools import add\n    import tools\n    return add(1, 2)\nf()",
        "from tools import add\nfor _ in range(1):\n    x = add(1, 2)\nx",
    ],
)
def test_ways_to_import_them(model, approving, code, backend):
    assert execute(model, code, backend)["result"] == "3"


def test_a_module_of_the_users_own_keeps_its_name(tract, world, monkeypatch):
    own = types.ModuleType("tools")
    own.add = lambda a, b: "mine"
    monkeypatch.setitem(sys.modules, "tools", own)  # removed after the test: other tests use the same process
    tract.scripts.notebooks.user_namespace = {"tools": own}
    assert tract.scripts.run("from tools import add\nadd(1, 2)").value == "mine"
    assert tract.scripts.run("from tools import add\nadd(1, 2)", notebook_id="other").value == 3


def test_an_import_error_shows_its_line(tract, world):
    result = tract.scripts.run("x = 1\nfrom tools import ad")
    assert "no tool 'ad'. Did you mean 'add'?" in result.error.message
    assert "line 2" in result.error.traceback


@pytest.mark.parametrize("backend", BACKENDS)
def test_discovery_is_the_same_from_within(model, approving, backend):
    code = "from tools import tools_search\nfound = tools_search(query='weather')\nprint(found)\nprint(tools.tools_describe(names=found[0].partition(':')[0]))"
    told = execute(model, code, backend)
    assert "['get_weather: Tells the weather in a city.']" in told["output"]
    assert "def get_weather(city: str) -> str:" in told["output"]
    assert model.execute("tools_search", {"query": "weather"}).output == [
        "get_weather: Tells the weather in a city."
    ]
    assert (
        "def get_weather(city: str) -> str:"
        in model.execute("tools_describe", {"names": "get_weather"}).output
    )


def test_a_tool_that_is_not_shown_is_called_from_a_script(model, world):
    result = model.execute("send_mail", {"to": "bo@example.org", "text": "hi"})
    assert (result.success, result.denied, world) == (False, True, [])
    assert "notebook_execute(code='print(tools.send_mail(...))')" in result.error
    assert default_counter().count_text(result.error) <= 60


def test_a_write_inside_a_script_is_asked_about(tract, model, world, approving):
    told = execute(model, "r = tools.send_mail(to='bo@example.org', text='hi')\nprint(r)")
    assert world == [("send_mail", "bo@example.org", "hi")]
    assert "M-1" in told["output"]
    assert [request.title for request, status in approving.shown if status == "pending"] == [
        "Call tool send_mail"
    ]


def test_a_refusal_reaches_the_script_and_the_model(tract, model, world):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="not to Bo"))
    code = (
        "try:\n    tools.send_mail(to='bo', text='x')\nexcept ToolDenied as error:\n    print('no:', error)"
    )
    told = execute(model, code)
    assert "no: send_mail: not to Bo" in told["output"]
    assert told["failed_calls"] == ["send_mail: not to Bo"]
    assert world == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lock_holds_for_calls_of_scripts(tract, model, world, approving, backend):
    tract.executor.lock_tool("add", "not today")
    told = execute(
        model, "try:\n    tools.add(1, 2)\nexcept ToolExecutionError as error:\n    print(error)", backend
    )
    assert "not today" in told["output"]
    assert world == []


def test_permission_holds_for_calls_of_scripts(tract, model, world):
    usual = tract.executor.permission
    tract.executor.permission = lambda tool, actor: (
        Permission.DENY if tool.name == "get_weather" else usual(tool, actor)
    )
    told = execute(model, "tools.get_weather('Rome')")
    assert "has no permission" in told["output"]
    assert world == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tool_missing_in_the_profile_is_refused_in_scripts(tract, world, approving, backend):
    narrow = ToolProfile("narrow", {"add": ToolConfig()}).as_code_mode()
    model = tract.toolset(narrow, actor="agent:1")
    assert execute(model, "tools.add(1, 2)", backend)["result"] == "3"
    told = execute(model, "tools.get_weather('Rome')", backend)
    assert told["status"] == "failed"
    assert "no tool 'get_weather' in the profile 'narrow'" in told["output"]
    assert world == [("add", 1, 2)]


def test_a_profile_that_shows_scripts_alone_still_binds_them(tract, world):
    alone = ToolProfile("alone", {"notebook_execute": ToolConfig()})
    told = execute(tract.toolset(alone), "tools.add(1, 2)")
    assert "no tool 'add' in the profile 'alone'" in told["output"]


def test_calls_of_scripts_are_counted_and_bounded(tract, model, world):
    told = execute(model, "for n in range(2_000): tools.add(n, 1)")
    assert told["status"] == "failed"
    assert "limit of 1,000 tool calls" in told["output"]
    assert len(world) == 1_000


def test_a_paused_script_continues_with_its_original_profile(tract, model, world):
    told = execute(model, "tools.send_mail(to='bo', text='hi')\ntools.get_weather('Rome')")
    assert told["status"] == "paused"
    (waiting,) = tract.review.inbox()
    tract.operations.rebuild(waiting).approve()
    assert [done[0] for done in world] == ["send_mail", "get_weather"]
    result = tract.scripts.results[-1]
    assert (result.status, result.savings.calls) == (ScriptStatus.COMPLETED, 2)


def test_the_output_before_an_exception_is_reported_with_it(model):
    told = execute(model, "print('before')\nx = 1 / 0\nprint('after')")
    assert told["status"] == "failed"
    assert told["output"].startswith("before\n")
    assert told["output"].endswith("ZeroDivisionError: division by zero\n")
    assert "after" not in str(told)


def test_the_model_gets_output_result_and_call_count_of_a_script(model):
    told = execute(model, "w = tools.get_weather('Rome')\nprint('logged')\nw.upper()")
    assert told["output"] == "logged\n"
    assert told["result"] == "'SUNNY, 31 DEGREES'"
    assert told["tool_calls"] == 1
    assert told["tokens_saved"] > 0
    assert "failed_calls" not in told


def test_the_output_of_a_script_for_the_model_is_limited(model):
    told = execute(model, "print('x' * 1_000_000)\n'y' * 1_000_000")
    assert len(str(told)) < 25_000
    loud = "for n in range(100):\n    try:\n        tools.add(a='x' * 5_000 + str(n), b=1)\n    except ToolExecutionError:\n        pass"
    told = model.execute("notebook_execute", {"code": f"import json\n{loud}"}).output
    assert len(str(told)) < 25_000


def test_three_tools_are_all_that_a_model_carries(tract, model):
    def do(n: int) -> int:
        """Do something that takes a line to describe, as tools of servers do."""
        return n

    for number in range(200):
        tract.tool(do, name=f"do_{number}")
    assert set(model.tools()) == set(CODE_MODE)
    count = default_counter().count_text
    shown = sum(count(str(tool)) for tool in model.schemas())
    assert shown + count(tract.scripts.get_system_instructions()) < 2_200
    assert sum(count(str(tool)) for tool in tract.as_tools("full")) > 10 * shown


def test_a_later_decision_about_a_kernel_script_keeps_the_tools_of_the_model(tract, world):
    few = ToolProfile("few", {"notebook_execute": ToolConfig(), "add": ToolConfig()})
    code = "print(tools.add(a=1, b=2))\ntools.get_weather(city='Rome')"
    model = tract.toolset(few, actor="agent:1")
    waits = model.execute("notebook_execute", {"code": code, "backend": "kernel"})
    assert "needs a decision" in waits.error
    (stored,) = tract.review.inbox()
    result = tract.reviewer.asked_here(stored.pending_id).approve()
    assert result.stdout == "3\n"
    assert "no tool 'get_weather' in the profile 'few'" in result.error.message
    assert world == [("add", 1, 2)]
