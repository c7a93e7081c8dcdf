"""Code that would never end: it is stopped by its limits, by Ctrl-C, by Stop, and with the process that runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.review.scripted import call, reply
from tract_jupyter.models import Allowance
from tract_jupyter.sandbox import ErrorHints, IsolatedCode, SandboxLimits, SandboxPool, attempt_isolated
from tract_jupyter.scripts import ScriptLimits

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent")


def nested(depth):
    lines = [f"{'    ' * level}def f{level}(a={level}):" for level in range(depth)]
    return "\n".join([*lines, f"{'    ' * depth}return a"])


ENDLESS = {
    "functions within functions": nested(60),
    "deeper": nested(90),
    "a chain of conditions": "x = tools.log(limit=1)\ny = "
    + " or ".join(f"(x and {n})" for n in range(1_000)),
    "a loop": "while True: pass",
    "a loop of calls": "while True:\n    tools.status()",
}
HINTS = ErrorHints("", "", "")


@pytest.fixture
def ctrl_c():
    """Sends Ctrl-C in a moment, as a user does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    yield timer.start
    timer.join()
    signal.signal(signal.SIGINT, before)


def is_sound(tract):
    return tract.scripts.run("1 + 1", backend="sandbox").value == 2


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_its_limits_stop_it(tract, code):
    result = tract.scripts.run(code, backend="sandbox", limits=ScriptLimits(seconds=0.3))
    assert result.status in {"timed_out", "failed"}  # the interpreter refuses some of them by itself
    assert result.seconds < 10
    assert is_sound(tract)


@pytest.mark.parametrize("code", [ENDLESS["functions within functions"], ENDLESS["a loop"]])
def test_ctrl_c_stops_a_script_of_the_main_thread(tract, ctrl_c, code):
    ctrl_c()
    result = tract.scripts.run(code, backend="sandbox", limits=ScriptLimits(seconds=60))
    assert result.status == "interrupted"
    assert is_sound(tract)


def test_ctrl_c_stops_an_action(ctrl_c):
    pool = SandboxPool()
    code = IsolatedCode("", "def f():\n    while True: pass", "f()", "<f>", HINTS)
    ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        attempt_isolated(pool, code, {}, print, SandboxLimits(seconds=60, memory=None))
    assert pool.in_use == []
    pool.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stop", "limit"])
def test_a_turn_that_ends_stops_it(tract, way):
    def model(messages, **_):
        if messages[-1]["role"] == "tool":
            return reply("done")
        if way == "stop":
            threading.Timer(0.3, tract.loop.stop).start()
        return reply(None, call("notebook_execute", {"code": nested(60)}))

    tract.models.use(model)
    result = tract.chat("go", tools="code", limits=Allowance(seconds=1 if way == "limit" else 60))
    assert result.outcome == ("stopped" if way == "stop" else "limit")
    assert is_sound(tract)


KILLED = """
import os
from tract_jupyter import Tract
tract = Tract.open(":memory:")
def die() -> None:
    print(*tract.sandboxes.in_use, flush=True)
    if FORKS and os.fork() == 0:
        os.read(0, 1)  # a child of the process lives on
        os._exit(0)
    threading.Timer(0.2, os.kill, (os.getpid(), 9)).start()
import threading
tract.tool(die, read_only=True)
tract.scripts.run("tools.die()\\nwhile True: pass", backend="sandbox")
"""


@pytest.mark.slow
@pytest.mark.parametrize("forks", [False, True])
def test_a_worker_ends_with_its_process(forks):
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", KILLED.replace("FORKS", str(forks))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    worker = int(child.stdout.readline())
    assert child.wait(30) == -signal.SIGKILL
    for _ in range(400):
        if not computes(worker):
            break
        threading.Event().wait(0.05)
    else:
        os.kill(worker, signal.SIGKILL)
        pytest.fail("the worker computes on")
    child.communicate()


def computes(pid):
    """Return True if a process lives. A zombie does not."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()[:1] not in {"", "Z"}


def test_closing_the_pool_leaves_no_process():
    pool = SandboxPool()
    with pool.checkout() as session:
        (worker,) = pool.in_use
        assert session.monty.feed_run("1 + 1") == 2
    assert pool.in_use == []
    pool.close()
    assert not computes(worker)
