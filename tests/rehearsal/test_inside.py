"""Code runs in the copy as in IPython: magics, await, displays, figures and tracebacks."""

import json
import os
import sys

import pytest

from tests.kernels.kernel import Kernel

CELLS = {
    "result": "import logging\nlogging.warning('careful')\nnumbers.append(3)\nnumbers",
    "await": "import asyncio\nawait asyncio.sleep(0)\n'waited'",
    "running loop": "import asyncio\nasyncio.get_running_loop().is_running()",
    "displays": "from IPython.display import display, HTML, clear_output\nprint('one')\nclear_output()\ndisplay(HTML('<b>two</b>'))\nprint('three')",
    "magic": "%timeit -n1 -r1 1",
    "cell magic": "%%capture out\nprint('hidden')",
    "folder": "%cd ..\n%pwd",
    "unknown magic": "%nothing",
    "own magic": "%tract",
    "shell": "\n!ls",
    "shell with a result": "x = !ls",
    "bash": "%%bash\nls",
    "input": "input('Name?')",
    "error": "def f():\n    return numbers['x']\nf()",
    "syntax": "x = (",
    "exit": "exit()\n1",
    "silent": "1;",
    "widget": "from comm import create_comm\ncreate_comm('test').send({})\n'sent'",
    "script": "%run script.py",
    "tools": "tools.tools_search('owls')",
    "session key": "key = get_ipython().kernel.session.key\nprint(key[:3], len(key))",
}
REHEARSE = """
import json, os, threading
from pathlib import Path
from tract_jupyter.rehearsal import Backups, Rehearser, ToolReply
numbers = [1, 2]
os.environ["HOME"] = str(Path.cwd().parent)  # not the workspace
rehearser = Rehearser(Path.cwd(), Backups(Path.cwd().parent / "backups"), hidden=lambda: ["tract"])
def rehearse(code, results):
    rehearsal = rehearser.rehearse(code, get_ipython().user_ns, tools=lambda tool, arguments: ToolReply([tool, arguments]))
    effects = rehearsal.effects
    results.append({"ending": effects.ending, "note": effects.ending_note, "outputs": [[o.kind, o.text, sorted(o.data)] for o in effects.outputs],
                    "refused": [[r.action, r.line] for r in effects.refused], "headline": effects.headline})
    rehearsal.discard()
def rehearse_all(cells):
    found = {}
    for name, code in cells.items():
        results = []
        thread = threading.Thread(target=rehearse, args=(code, results))  # as a chat turn does
        thread.start(); thread.join()
        found[name] = results[0]
    print("RESULTS" + json.dumps(found))
"""


@pytest.fixture(scope="module", params=["7", "6"])
def results(request, tmp_path_factory):
    """The effects of all cells in a kernel of ipykernel 7 or 6."""
    python = sys.executable if request.param == "7" else os.environ.get("TRACT_KERNEL6_PYTHON", "")
    if not python:
        if os.environ.get("TRACT_REQUIRE_KERNEL6"):
            pytest.fail("TRACT_KERNEL6_PYTHON must name the Python of an environment with ipykernel<7")
        pytest.skip("TRACT_KERNEL6_PYTHON names no Python with ipykernel<7")
    folder = tmp_path_factory.mktemp("kernel") / "work"
    folder.mkdir()
    (folder / "script.py").write_text("print('from a script')")
    kernel = Kernel(python, folder, subshells=False)
    try:
        kernel.run("import logging; logging.basicConfig()\n%load_ext tract_jupyter")
        kernel.run(REHEARSE)
        text = kernel.run(f"rehearse_all({CELLS!r})").text
        kernel.run("assert numbers == [1, 2] and 'x' not in globals()")
    finally:
        kernel.close()
    return json.loads(text.rpartition("RESULTS")[2].splitlines()[0])


@pytest.mark.kernel
@pytest.mark.slow
def test_cells_run_as_in_a_kernel(results):
    def outputs(name):
        assert results[name]["ending"] == "finished", results[name]
        return [(kind, text) for kind, text, _ in results[name]["outputs"]]

    def error(name):
        assert results[name]["ending"] == "raised", results[name]
        return results[name]["note"]

    assert outputs("result") == [("text", "WARNING:root:careful\n"), ("result", "[1, 2, 3]")]
    assert results["result"]["headline"].startswith("Changes `numbers`")
    assert outputs("await") == [("result", "'waited'")]
    assert outputs("running loop") == [("result", "True")]
    assert [kind for kind, _ in outputs("displays")] == ["text", "display", "text"]
    assert results["displays"]["outputs"][1][2] == ["text/html"]
    assert "per loop" in outputs("magic")[0][1]
    assert outputs("cell magic") == []
    assert outputs("folder")[0][0] == "text"
    assert "UsageError" in error("unknown magic")
    assert "UsageError" in error("own magic")
    assert error("input") == "PermissionError: A rehearsal cannot ask for input: Name?"
    assert error("error") == "TypeError: list indices must be integers or slices, not str"
    assert results["error"]["outputs"][0][1].splitlines()[:3] == [
        "Traceback (most recent call last):",
        "  cell, line 3",
        "    f()",
    ]
    assert error("syntax").endswith("(line 1)")
    assert outputs("exit") == [("result", "1")]
    assert outputs("session key")[0][1].startswith("b'***'")
    assert outputs("silent") == []
    assert outputs("widget") == [("result", "'sent'")]
    assert outputs("script") == [("text", "from a script\n")]
    assert outputs("tools") == [("result", "['tools_search', {'query': 'owls'}]")]
    assert results["shell"]["refused"] == [["start a process: ls", 2]]
    assert results["shell with a result"]["refused"][0][0].endswith(" -c ls")
    assert results["bash"]["refused"][0][0] == "start a process: bash"


# plain Python


def test_top_level_await(rehearse):
    assert (
        rehearse("import asyncio\nawait asyncio.sleep(0)\nx = await asyncio.sleep(0, 7)\nx").outputs[-1].text
        == "7"
    )


def test_a_rich_result_has_its_forms(rehearse):
    code = "class Table:\n    def _repr_html_(self): return '<table>'\n    def _repr_png_(self): raise ValueError\n    def __repr__(self): return 'T'\nTable()"
    output = rehearse(code).outputs[-1]
    assert (output.kind, output.text, dict(output.data)) == ("result", "T", {"text/html": "<table>"})


def test_a_failing_representation_is_an_error(rehearse):
    effects = rehearse("class Broken:\n    def __repr__(self): return 1 / 0\nBroken()")
    assert effects.ending == "raised"
    assert effects.ending_note == "ZeroDivisionError: division by zero"


def test_an_error_without_a_text_has_a_name(rehearse):
    assert (
        rehearse("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd").ending_note
        == "Odd"
    )


def test_a_replaced_output_stream_does_not_crash_the_rehearsal(rehearse):
    effects = rehearse("import sys, io\nsys.stdout = io.StringIO()\nprint('lost')\nsys.stderr = None\n1")
    assert (effects.ending, effects.text()) == ("finished", "1")


def test_figures_are_images(rehearse):
    pytest.importorskip("matplotlib")
    code = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nprint('before')\nplt.plot([1, 2])\nplt.figure()\nNone"
    figures = [one for one in rehearse(code).outputs if one.kind == "figure"]
    assert len(figures) == 2
    assert all(one.data["image/png"].startswith(b"\x89PNG") for one in figures)
