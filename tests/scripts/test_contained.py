"""The contained backend: full Python with packages, without approval, and without access to the
user's data."""

from __future__ import annotations

import json
import os

import pytest

from tests.rehearsal.conftest import skip_unless
from tests.review.fakes import FakeChannel, answering
from tract_jupyter.exceptions import ScriptFailedError
from tract_jupyter.rehearsal import Backups, Rehearser
from tract_jupyter.review import CHAT

pytestmark = pytest.mark.xdist_group("contained")


@pytest.fixture
def workspace(tract, tmp_path, monkeypatch):
    """A workspace with a file and an importable module, a variable, and an environment variable, all private."""
    skip_unless("basic")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private.csv").write_text("seven tits")
    (tmp_path / "private_module.py").write_text("birds = 'seven tits'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FAVOURITE", "seven tits")
    tract.scripts.notebooks.user_namespace = {"table": "seven tits"}
    tract.reviewer.channel = FakeChannel()
    return tmp_path


@pytest.fixture(params=["full", "basic"])
def level(request, tract, workspace, monkeypatch):
    """Each isolation level that this machine permits."""
    made = Rehearser(workspace, Backups(workspace / "b"), level=skip_unless(request.param))
    monkeypatch.setattr(tract.scripts.rehearsing, "_rehearser", lambda: made)
    return request.param


def execute(tract, code, **more):
    arguments = {"code": code, "backend": "contained", **more}
    return tract.executor.execute("notebook_execute", arguments, actor=CHAT)


@pytest.mark.slow
def test_a_models_script_runs_at_once_with_packages(tract, workspace):
    done = execute(
        tract, "import statistics\nclass A(list): pass\nprint(len(A('ab')))\nstatistics.mean([1, 2])"
    )
    assert done.success
    assert (done.output["status"], done.output["output"], done.output["result"]) == (
        "completed",
        "2\n",
        "1.5",
    )
    assert tract.reviewer.channel.shown == []
    assert execute(tract, "a = 1").success
    assert "NameError" in execute(tract, "a").output["output"]  # variables are not kept
    assert tract.scripts.notebooks.user_namespace == {"table": "seven tits"}


PRIVATE = """
import contextlib, gc, os, pathlib, sys
found = [repr(globals().get("table")), repr(dict(os.environ))]
def look(*names):
    for name in names:
        with contextlib.suppress(Exception):
            found.append(pathlib.Path(name).read_text(errors="replace"))
look({file!r}, "private.csv", {module!r}, "/proc/self/environ", "/proc/1/environ", "/proc/{kernel}/environ")
with contextlib.suppress(Exception):
    import private_module
    found.append(private_module.birds)
found += [repr(one) for one in gc.get_objects() if type(one) in (str, dict)]
print("seven " + "tits" in " ".join(found).replace("'seven ' 'tits'", ""), len(found) > 10)
"""


def test_a_contained_script_cannot_access_private_data_of_the_user(tract, level, workspace):
    file, module = str(workspace / "private.csv"), str(workspace / "private_module.py")
    done = execute(tract, PRIVATE.format(file=file, module=module, kernel=os.getpid()))
    assert done.output["output"] == "False True\n", (done.error, done.output)


def test_a_contained_script_cannot_write_files_or_connect_and_notes_the_attempt(tract, level, workspace):
    target = workspace / "private.csv"
    done = execute(tract, f"try: open({str(target)!r}, 'w')\nexcept OSError: pass\nimport socket\ns = socket.socket()\n"
                          "s.settimeout(1)\ns.connect(('192.0.2.1', 443))")  # fmt: skip
    assert done.output["status"] == "failed"
    assert "192.0.2.1" in " ".join(done.output["notes"])
    assert target.read_text() == "seven tits"


def test_its_calls_need_their_own_approval(tract, workspace):
    booked = []

    @tract.tool
    def book(room: str) -> int:
        """Book a room."""
        booked.append(room)
        return len(booked)

    tract.reviewer.channel = FakeChannel(answering("approve"), answering("full"))
    code = "from tools import book\nprint(book(room='A'))\ntry: book(room='B')\nexcept ToolExecutionError as e: print(e)"
    done = execute(tract, code)
    assert done.output["output"].startswith("1\n"), json.dumps(done.output)
    assert "full" in done.output["output"]
    assert booked == ["A"]


def test_its_figures_are_sent(tract, workspace):
    pytest.importorskip("matplotlib")
    done = execute(
        tract, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.gcf().savefig('a.png')\nplt.show()"
    )
    assert done.success
    assert any("Removed at the end of the script: " in note for note in done.output["notes"])


def test_contained_is_refused_without_isolation_and_for_the_users_notebook(tract, workspace, monkeypatch):
    monkeypatch.setattr("tract_jupyter.rehearsal.rehearser.probe", lambda: ("none", "No namespaces here."))
    done = execute(tract, "1")
    assert not done.success
    assert "No namespaces here." in done.error
    with pytest.raises(ScriptFailedError, match="cannot access the user's variables"):
        tract.scripts.run("1", backend="contained", notebook_id="user")
