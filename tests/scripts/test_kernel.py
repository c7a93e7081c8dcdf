"""Scripts in the kernel: their output, their endings, and their limits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, ScriptFailedError, ScriptRaisedError, ScriptSyntaxError
from tract_jupyter.review import bound_lines
from tract_jupyter.scripts import OutputCapture, ScriptLimits, ScriptStatus
from tract_jupyter.toolkit import Traits


def kinds(result):
    return [(output.kind, output.text) for output in result.outputs]


def test_a_script_calls_tools_and_its_output_is_captured(tract):
    result = tract.scripts.run(
        "import sys\nprint('branch', tools.status()['branch'])\nprint('late', file=sys.stderr)\nprint('end')\n6 * 7"
    )
    assert result.succeeded
    assert kinds(result) == [("stdout", "branch main\n"), ("stderr", "late\n"), ("stdout", "end\n")]
    assert result.value == 42
    (call,) = result.calls
    assert (call.tool, call.line, call.success) == ("status", 2, True)
    assert result.savings.calls == 1
    assert sys.stdout.__class__.__name__ != "_Routed"


def test_a_note_tells_the_model_about_figures_that_cannot_be_sent(tract, monkeypatch):
    class Figure:
        canvas = property(lambda self: SimpleNamespace(figure=self))

    helpers, drawn = ModuleType("matplotlib._pylab_helpers"), [Figure()]
    helpers.Gcf = SimpleNamespace(get_all_fig_managers=lambda: drawn)
    monkeypatch.setitem(sys.modules, "matplotlib._pylab_helpers", helpers)
    tract.scripts.notebooks.namespace("main").update(drawn=drawn, Figure=Figure)
    assert tract.scripts.run("drawn.append(Figure())").notes == (
        "1 figure drawn for the user in the notebook",
    )
    run = tract.scripts.prepare("drawn.append(Figure())", author="agent:chat")
    assert tract.scripts.execute(run).notes == (
        "1 figure drawn for the user in the notebook; 1 cannot be sent to you",
    )
    assert tract.scripts.run("1 + 1").notes == ()


def test_output_of_other_threads_is_not_captured(tract, capsys):
    go_on, printed = threading.Event(), threading.Event()

    def elsewhere():
        go_on.wait(10)
        print("not mine")
        printed.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    tract.scripts.notebooks.namespace("main").update(go_on=go_on, printed=printed)
    result = tract.scripts.run("go_on.set()\nprinted.wait(10)\nprint('mine')", notebook_id="main")
    thread.join()
    assert result.stdout == "mine\n"
    assert capsys.readouterr().out == "not mine\n"


def test_variables_belong_to_their_notebook(tract):
    tract.scripts.run("rows = [1, 2]\ndef double():\n    return [2 * row for row in rows]")
    assert tract.scripts.run("double()").value == [2, 4]
    assert tract.scripts.run("rows", notebook_id="other").error.name == "NameError"
    assert tract.scripts.notebooks.variables("main") == {"rows": "list[2]", "double": "function"}
    assert tract.scripts.run("rows", fresh=True).error.name == "NameError"
    tract.scripts.notebooks.namespace("other")["x"] = 1
    assert tract.scripts.notebooks.reset("other") == 1
    assert tract.scripts.notebooks.sizes() == {"main": 0, "other": 0}


@pytest.mark.parametrize("notebook_id", ["", "a b", "../x", "x" * 65, 7])
def test_ids_of_notebooks_are_checked(tract, notebook_id):
    with pytest.raises(ScriptFailedError, match="invalid id"):
        tract.scripts.run("1", notebook_id=notebook_id)


def test_an_unknown_notebook_error_lists_existing_notebooks(tract):
    tract.scripts.run("1", notebook_id="first")
    with pytest.raises(ScriptFailedError, match="'frist'.*first"):
        tract.scripts.notebooks.variables("frist")


def test_await_at_the_top_level(tract):
    code = "import asyncio\nasync def one():\n    return 1\nx = await one()\nawait asyncio.sleep(0, x + 1)"
    assert tract.scripts.run(code).value == 2

    async def cell():  # its thread has a running loop, like the main thread of a kernel
        here = asyncio.current_task()
        value = tract.scripts.run(code).value
        await asyncio.sleep(0)
        return value, asyncio.current_task() is here

    assert asyncio.run(cell()) == (2, True)


def test_an_exception_keeps_earlier_output_and_its_traceback_only_has_script_lines(tract):
    result = tract.scripts.run("print('before')\ndef broken(n):\n    return 1 / n\nbroken(0)")
    assert (result.status, result.stdout) == (ScriptStatus.FAILED, "before\n")
    assert (result.error.name, result.error.message) == ("ZeroDivisionError", "division by zero")
    assert result.error.traceback.count("File ") == 2
    assert "return 1 / n" in result.error.traceback
    with pytest.raises(ScriptRaisedError, match="ZeroDivisionError") as caught:
        result.check()
    assert caught.value.result is result


def test_a_failed_call_can_be_caught_and_its_traceback_has_no_package_frames(tract):
    result = tract.scripts.run(
        "try:\n    tools.get_commit(commit_hash='nope')\nexcept ToolExecutionError as error:\n    reason = error.reason\n"
        "print(reason)\ntools.get_commit(commit_hash='nope')"
    )
    assert "nope" in result.stdout
    assert result.error.name == "ToolExecutionError"
    assert "tract_jupyter" not in result.error.traceback
    assert [call.success for call in result.calls] == [False, False]


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("raise SystemExit", "completed", ""),
        ("import sys\nsys.exit(0)", "completed", ""),
        ("raise SystemExit('bad')", "failed", "bad"),
        ("raise KeyboardInterrupt", "interrupted", ""),
        ("raise GeneratorExit('x')", "failed", "x"),
        ("def f(): f()\nf()", "failed", "maximum recursion depth exceeded"),
    ],
)
def test_code_that_would_end_the_process_only_ends_the_script(tract, code, status, message):
    result = tract.scripts.run(code)
    assert result.status == status
    assert (result.error.message if result.error else "") == message


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "while True:\n    try:\n        while True: pass\n    except Exception: pass",
        "try:\n    while True: pass\nfinally:\n    tools.status()",
        "for _ in iter(int, 1): tools.status()",
    ],
)
def test_a_script_that_does_not_end_is_stopped(tract, code):
    result = tract.scripts.run(code, limits=ScriptLimits(seconds=0.2, calls=None))
    assert result.status is ScriptStatus.TIMED_OUT
    with pytest.raises(ScriptRaisedError, match="exceeded its time limit"):
        result.check()
    assert tract.scripts.run("1").succeeded  # the stop request is cleared
    assert len(tract.events("script")) == 2  # the store is valid


def test_a_thread_that_outlives_its_script_calls_nothing_any_more(tract):
    code = (
        "import threading\ngo = threading.Event()\nsaid = []\ndef later():\n    go.wait(10)\n    try:\n"
        "        tools.commit(content={'content_type': 'dialogue', 'role': 'user', 'text': 'x'})\n"
        "    except ToolDenied as error:\n        said.append(error.reason)\n"
        "thread = threading.Thread(target=later, daemon=True)\nthread.start()"
    )
    assert tract.scripts.run(code).succeeded
    namespace = tract.scripts.notebooks.namespace("main")
    namespace["go"].set()
    namespace["thread"].join(10)
    assert namespace["said"] == ["the script has ended"]
    assert tract.head is None


def test_other_threads_and_other_tracts_are_not_the_scripts(tract):
    began, go = threading.Event(), threading.Event()

    def elsewhere():
        began.wait(10)
        tract.tools.commit(content={"content_type": "dialogue", "role": "user", "text": "mine"})
        go.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with Tract.open() as other:

        def of_other():
            other.tools.commit(content={"content_type": "dialogue", "role": "user", "text": "mine"})
            found.append(other.scripts.run("1").value)

        found = []
        tract.scripts.notebooks.namespace("main").update(began=began, go=go, of_other=of_other)
        code = (
            "import threading\nbegan.set()\ngo.wait(10)\n"
            "thread = threading.Thread(target=of_other)\nthread.start()\nthread.join()"
        )
        result = tract.scripts.run(code)
        thread.join(10)
        assert (result.call_count, found) == (0, [1])
        assert tract.head is not None
        assert other.head is not None


def test_calls_of_a_scripts_threads_are_the_scripts(tract):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    found = list(pool.map(lambda _: tools.status()['branch'], range(8)))\nfound"
    )
    result = tract.scripts.run(code)
    assert result.value == ["main"] * 8
    assert result.call_count == 8
    assert {call.line for call in result.calls} == {3}


FORKS = """
import warnings
from tract_jupyter import Tract

warnings.simplefilter("ignore")  # Python 3.12 and later warn of forks beside threads; here it is what is looked at
tract = Tract.open("store.db")
result = tract.scripts.run('''
import os
child = os.fork()
if not child:
    try:
        tools.status()
    except ToolDenied as error:
        os.write(1, error.reason.encode())
        raise
left = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
tools.status()
left
''')
print(f"|{result.status}|{result.value}|{result.call_count}|{len(tract.events('script'))}")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_of_a_script_cannot_make_calls(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    refusal, *rest = told.strip().split("|")
    assert refusal == "the script forked; only its original process can make calls"
    assert rest == ["completed", "1", "1", "1"]


def test_calls_side_by_side_are_not_deep(tract, add):
    together = threading.Barrier(8)

    def meet() -> int:
        """Wait for the others."""
        return together.wait(20)

    add(meet, traits=Traits(read_only=True))
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
        "    met = sorted(pool.map(lambda _: tools.meet(), range(8)))\nmet"
    )
    assert tract.scripts.run(code, limits=ScriptLimits(depth=1)).value == list(range(8))


def test_tools_that_call_tools_have_a_depth(tract, add):
    def deeper(n: int) -> int:
        """Call itself."""
        return tract.tools.deeper(n=n + 1)

    add(deeper, traits=Traits(read_only=True))
    assert (
        "at most 3 levels deep"
        in tract.scripts.run("tools.deeper(n=0)", limits=ScriptLimits(depth=3)).error.message
    )


def test_a_request_of_another_thread_does_not_belong_to_the_script(tract):
    """An agent's toolset used beside a script."""
    channel = tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="no"))
    content = {"content_type": "dialogue", "role": "user", "text": "x"}
    agent = tract.toolset(actor="agent:1")
    tract.scripts.notebooks.namespace("main").update(agent=agent, content=content)
    code = (
        "import threading\nthread = threading.Thread(target=lambda: agent.execute('commit', {'content': content}))\n"
        "thread.start()\nthread.join()"
    )
    result = tract.scripts.run(code)
    assert result.call_count == 0
    assert channel.shown[0][0].why.startswith("agent:1 wants")


def test_a_writing_call_without_a_channel_is_refused_and_the_script_can_catch_it(tract):
    content = {"content_type": "dialogue", "role": "user", "text": "x"}
    code = f"try:\n    tools.commit(content={content})\nexcept ToolDenied as error:\n    print(error.reason)"
    result = tract.scripts.run(code)
    assert "no user is available" in result.stdout
    assert tract.head is None
    assert result.calls[0].success is False


def test_the_request_shows_where_the_argument_values_come_from(tract):
    channel = tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    code = (
        "def note(n):\n    topic = {'content_type': 'dialogue', 'role': 'user', 'text': f'number {n}'}\n"
        "    return tools.commit(content=topic, message='m' + str(n), operation='append')\nnote(7)['message']"
    )
    assert tract.scripts.run(code).value == "m7"
    request, _ = channel.shown[0]
    table = next(table for table in request.tables if table.title == "Sources of the values")
    assert [(row.name, row.value) for row in table.rows] == [
        ("content", "topic"),
        ("message", "'m' + str(n)"),
    ]
    assert table.rows[0].description.startswith("topic = {'content_type': 'dialogue'")
    assert table.rows[1].description == "n = 7"
    assert request.code[0].marked == 3
    lines = list(bound_lines(request))
    assert lines[lines.index("Sources of the values:") :][1] == "content: topic"


def test_the_limit_of_calls(tract):
    code = "for n in range(5):\n    try:\n        tools.status()\n    except ToolExecutionError as error:\n        print(n, error.reason)"
    result = tract.scripts.run(code, limits=ScriptLimits(calls=3))
    assert result.stdout.splitlines() == [
        f"{n} the script has reached its limit of 3 tool calls" for n in (3, 4)
    ]


def test_the_limit_of_results(tract, add):
    def big() -> str:
        """Give back much."""
        return "x" * 1_000

    add(big, traits=Traits(read_only=True))
    result = tract.scripts.run("for n in range(5): tools.big()", limits=ScriptLimits(result_bytes=2_500))
    assert "2,500 bytes of results" in result.error.message
    assert result.call_count == 4


@pytest.mark.parametrize(
    "bounds",
    [
        {"calls": 0},
        {"seconds": -1},
        {"depth": None},
        {"memory": "x"},
        {"calls": True},
        {"seconds": float("nan")},
        {"calls": float("inf")},
    ],
)
def test_a_limit_is_positive(bounds):
    with pytest.raises(ContentError, match="positive number"):
        ScriptLimits(**bounds)


def test_a_script_runs_no_script(tract):
    tract.scripts.notebooks.namespace("main")["tract"] = tract
    result = tract.scripts.run("tract.scripts.run('1')")
    assert "cannot run another script" in result.error.message


@pytest.mark.slow
def test_much_output_keeps_its_beginning_and_its_end(tract):
    result = tract.scripts.run(
        "for n in range(100_000): print(n)", limits=ScriptLimits(output_characters=1_000)
    )
    assert result.stdout.startswith("0\n1\n2\n")
    assert result.stdout.endswith("99998\n99999\n")
    assert len(result.stdout) <= 1_000
    assert "characters left out" in result.stderr
    assert len(str(result.to_dict())) < 2_000


def test_a_progress_bar_leaves_one_line(tract):
    code = "import sys\nfor n in range(1000):\n    sys.stderr.write(f'\\r{n}/999')\nprint()"
    assert tract.scripts.run(code).stderr == "999/999"


def test_tqdm_leaves_a_line_for_each_bar(tract):
    code = "from tqdm import tqdm\nfor _ in tqdm(range(500), mininterval=0):\n    tools.status()\nfor _ in tqdm('ab'): pass"
    result = tract.scripts.run(code)
    assert [line.split("|")[0] for line in result.stderr.splitlines()] == ["100%", "100%"]
    assert "500/500" in result.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = (", "line 1.*never closed"),
        ("a = 1\n  b = 2", "line 2"),
        ("%ls", "magics and ! belong to cells"),
        ("!ls", "magics and ! belong to cells"),
        ("x = '\0'", "null"),
        ("(" * 5_000, "cannot be parsed|too many"),
    ],
)
def test_invalid_python_is_refused_before_anything_runs(tract, code, message):
    with pytest.raises(ScriptSyntaxError, match=message):
        tract.scripts.run(code)
    assert tract.scripts.results.maxlen
    assert not tract.scripts.results


@pytest.mark.parametrize("code", [None, b"1", "x" * 1_000_001])
def test_an_invalid_or_too_long_script_text_is_refused(tract, code):
    with pytest.raises(ScriptFailedError, match="a text of up to"):
        tract.scripts.run(code)


def test_a_script_that_removes_tools_harms_itself_only(tract):
    assert tract.scripts.run("del tools\nlen = None").succeeded
    assert tract.scripts.run("tools.status()['branch']").value == "main"
    assert tract.scripts.run("tools.status = 1").error.name == "AttributeError"


def test_each_run_is_an_event(tract):
    tract.scripts.run("tools.status()\n1 / 0")
    event = tract.events("script")[0]
    assert event.data["code"] == "tools.status()\n1 / 0"
    assert (event.data["status"], event.data["tool_calls"]) == ("failed", 1)
    assert event.data["error"] == "ZeroDivisionError: division by zero"


def test_totals_add_up(tract):
    for _ in range(3):
        tract.scripts.run("tools.status()")
    assert (tract.scripts.runs, tract.scripts.savings.calls) == (3, 3)
    assert tract.scripts.savings.saved == sum(result.savings.saved for result in tract.scripts.results)


def test_a_capture_of_many_small_pieces_is_bounded():
    capture = OutputCapture(10_000)
    for n in range(100_000):
        capture.write("stdout", f"{n}\n")
    text = "".join(output.text for output in capture.outputs() if output.kind == "stdout")
    assert len(text) <= 10_000
