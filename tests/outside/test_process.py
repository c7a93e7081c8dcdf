"""The process of an agent: its end in all cases, and broken output."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.outside.conftest import command, writing
from tract_jupyter.exceptions import OutsideAgentError
from tract_jupyter.outside import LONGEST_LINE, AgentLeft, AgentMessage, AgentProcess, MessageQueue

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the list of processes")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except OSError:
        return False


def is_gone(pid, seconds):
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)  # another process ends
    return not is_alive(pid)


@pytest.mark.slow
@pytest.mark.parametrize("ignores_end", [False, True])
def test_stop_ends_the_agent_and_all_that_it_started(chat, known, log, tract, ignores_end):
    steps = [
        [
            "spawn",
            sys.executable,
            "-S",
            "-c",
            "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
        ]
    ]
    chat(known(prompts=[steps], log=log.place, ignores_end=ignores_end))
    (child,) = log.entries("child")
    assert is_alive(child)
    assert tract.outside.running == ("fake",)
    began = time.monotonic()
    assert tract.outside.stop() == ("fake",)
    assert time.monotonic() - began < 5
    assert is_gone(child, 0.5)
    assert tract.outside.running == ()
    assert tract.outside.default == ""


KERNEL = """
import os, sys
from tract_jupyter import Tract
with Tract.open() as tract:
    tract.chat("Go.", agent=sys.argv[1])
    print("ready", flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_killed_kernel_leaves_no_process(log, tmp_path):
    steps = [["spawn", sys.executable, "-S", "-c", "import time; time.sleep(60)"]]
    agent = command(prompts=[steps], log=log.place, ignores_end=True)
    killed = subprocess.run(
        [sys.executable, "-c", KERNEL, agent], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert killed.stdout == "ready\n", killed.stderr
    (child,) = log.entries("child")
    assert is_gone(child, 5)


def test_broken_output_is_bounded_and_ends_the_agent():
    inbox = MessageQueue()
    code = "import sys; print('{\"a\": 1}'); print('[' * 99); sys.stderr.write('e' * 1_000_000); "
    code += f"sys.stdout.write('x' * {LONGEST_LINE + 10}); sys.stdout.flush()"
    process = AgentProcess([sys.executable, "-S", "-c", code], Path.cwd(), os.environ, inbox)
    first, second = inbox.take(20), inbox.take(20)
    assert first == AgentMessage({"a": 1})
    assert isinstance(second, AgentLeft)
    assert "more than 16,000,000 bytes" in second.why
    assert len(second.why) < 1_000
    process.close()
    assert not process.is_running


def test_an_agent_that_ends_its_guard_is_ended_with_its_group():
    code = "import os, time; os.kill(os.getppid(), 9); print('{\"pid\": %d}' % os.getpid(), flush=True); time.sleep(60)"
    inbox = MessageQueue()
    process = AgentProcess([sys.executable, "-S", "-c", code], Path.cwd(), os.environ, inbox)
    pid = inbox.take(20).data["pid"]
    process.close()
    assert is_gone(pid, 5)


@pytest.mark.parametrize("depth", [150, 980, 100_000])
def test_a_deep_message_ends_the_agent(depth):
    inbox = MessageQueue()
    code = (
        f"print('{{\"a\":' + '[' * 50 + ']' * 50 + '}}'); print('[' * {depth} + ']' * {depth}); print('[]')"
    )
    process = AgentProcess([sys.executable, "-S", "-c", code], Path.cwd(), os.environ, inbox)
    assert isinstance(inbox.take(20), AgentMessage)
    left = inbox.take(20)
    assert isinstance(left, AgentLeft)
    assert left.why.startswith("it sent a message with more than 100 nested levels.")
    process.close()


def test_a_full_inbox_waits_for_its_reader():
    inbox = MessageQueue()
    inbox.put("big", 60_000_000)
    import threading

    done = []
    thread = threading.Thread(target=lambda: (inbox.put("next", 10_000_000), done.append(1)))
    thread.start()
    thread.join(0.1)
    assert not done
    assert inbox.take(1) == "big"
    assert inbox.take(1) == "next"
    thread.join(5)
    assert done
    assert inbox.take(0) is None


def test_a_closed_tract_ends_its_agents_in_a_turn(known, tract, log):
    agent = known(prompts=[writing()], log=log.place, dies_at=["session/prompt"])
    with pytest.raises(OutsideAgentError):
        tract.chat("Go.", agent=agent)
    tract.close()
