"""Nothing survives a rehearsal: neither its end, nor kill -9 of the kernel, of the supervisor or of the copy."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KERNEL = """
import sys, threading
from pathlib import Path
from tract_jupyter.rehearsal import Backups, Rehearser
rehearser = Rehearser(Path.cwd(), Backups(Path.cwd().parent / "backups"), level=sys.argv[1])
code = sys.argv[2]
print("ready", flush=True)
effects = rehearser.rehearse(code, {"numbers": [1]}).effects
print(effects.ending, effects.ending_note, flush=True)
sys.stdin.read()
"""
SLEEP = "import time\nopen('/dev/null').read()\nprint('x', flush=True)\ntime.sleep(600)"
FORKS = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: os.setsid()\n        time.sleep(600)\ntime.sleep(600)"
IMMORTAL = "import signal, time, ctypes\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n" + FORKS  # fmt: skip


def below(pid):
    """Return the processes below a process: {pid: start time}."""
    found, waiting = {}, [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                for child in task.read_text().split():
                    found[int(child)] = start_of(int(child))
                    waiting.append(int(child))
            except OSError:
                continue
    return found


def start_of(pid):
    """Return the start time of a process, which tells it from a later one with the same number; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def until(condition, seconds=20.0):
    """Wait for a condition on processes, which report nothing."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.01)


def living(processes):
    return [pid for pid, start in processes.items() if start is not None and start_of(pid) == start]


@pytest.fixture
def start(level, workspace):
    """Starts a kernel that rehearses code, and waits until the copy has the expected number of processes."""
    kernels = []
    temporary = workspace.parent / "tmp"
    temporary.mkdir()

    def run(code, count):
        (workspace / "data.csv").write_text("old")
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL, level, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=workspace,
            env={**os.environ, "TMPDIR": str(temporary)},
        )  # fmt: skip
        kernels.append(kernel)
        assert kernel.stdout.readline() == "ready\n"
        until(lambda: len(below(kernel.pid)) >= count)
        return kernel

    yield run
    for kernel in kernels:
        kernel.kill()
        kernel.communicate()


def codes(level):
    return [(SLEEP, 2)] if level == "basic" else [(SLEEP, 2), (IMMORTAL, 2 + 6)]


def test_kill_of_the_kernel_ends_everything(start, level, workspace):
    mounts = Path("/proc/self/mounts").read_text()
    for code, count in codes(level):
        kernel = start(code, count)
        processes = below(kernel.pid)
        kernel.kill()
        kernel.wait()
        until(lambda processes=processes: not living(processes))
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not list((workspace.parent / "tmp").iterdir())
    assert [(path.name, path.read_text()) for path in workspace.iterdir()] == [("data.csv", "old")]


@pytest.mark.parametrize("victim", ["supervisor", "copy"])
def test_kill_of_a_part_ends_the_rehearsal(start, level, victim):
    code, count = codes(level)[-1]
    kernel = start(code, count)
    processes = below(kernel.pid)
    supervisor = min(processes)
    os.kill(supervisor if victim == "supervisor" else min(below(supervisor)), signal.SIGKILL)
    assert kernel.stdout.readline().startswith("crashed the copy ended")
    until(lambda: not living(processes))
    assert kernel.poll() is None


def test_the_end_of_the_code_ends_all_its_processes(rehearse):
    before = below(os.getpid())
    effects = rehearse(FORKS.rpartition("\n")[0] + "\n'end'")
    assert effects.outputs[-1].text == "'end'"
    until(lambda: living(below(os.getpid())) == living(before))


@pytest.mark.slow
def test_kill_at_any_time_leaves_nothing(level, workspace):
    """The kernel dies at each of some moments of short rehearsals."""
    loop = KERNEL.replace('print("ready", flush=True)\n', 'print("ready", flush=True)\nwhile True: rehearser.rehearse("open(\'x\', \'w\')" * (sys.argv[1] == "full"), {}).discard()\n')  # fmt: skip
    mounts = Path("/proc/self/mounts").read_text()
    for number in range(6):
        kernel = subprocess.Popen(
            [sys.executable, "-c", loop, level, ""], stdout=subprocess.PIPE, text=True, cwd=workspace
        )
        assert kernel.stdout.readline() == "ready\n"
        until(lambda kernel=kernel: below(kernel.pid))
        time.sleep(0.004 * number)  # another step each time
        processes = below(kernel.pid)
        kernel.kill()
        kernel.communicate()
        until(lambda processes=processes: not living(processes))
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not list(workspace.iterdir())
