"""The parent of an agent's process. It ends all processes of the agent when the kernel or the agent ends.

It runs alone, as `python guard.py KERNEL_PID COMMAND ...`, and imports the standard library only. It is the first
process of a new session. Processes of the agent that leave the group become its children, so it finds them as well.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.1
_EOF_SECONDS = 0.7
_TERM_SECONDS = 1.0
_KILL_SECONDS = 1.5


def main(kernel: int, command: list[str]) -> int:
    """Run a command until it ends, the kernel ends, or SIGTERM arrives. Return its exit code."""
    with suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        agent = subprocess.Popen(command)  # noqa: S603 # the user chose it
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        return 1
    for descriptor in (0, 1):  # the pipes belong to the agent alone
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)
        os.close(null)
    while agent.poll() is None and not asked and os.getppid() == kernel:
        time.sleep(_POLL_SECONDS)
    if agent.poll() is None and not asked:
        _wait(agent, _EOF_SECONDS)  # the pipes of a dead kernel are closed
    code = agent.poll()
    _end_all(agent)
    return code if code is not None and code >= 0 else 1


def _end_all(agent: subprocess.Popen[bytes]) -> None:
    _signal_all(signal.SIGTERM)
    _wait(agent, _TERM_SECONDS)
    end = time.monotonic() + _KILL_SECONDS
    while _descendants() and time.monotonic() < end:
        _signal_all(signal.SIGKILL)
        agent.poll()
        _reap()
        time.sleep(_POLL_SECONDS / 4)


def _wait(agent: subprocess.Popen[bytes], seconds: float) -> None:
    end = time.monotonic() + seconds
    while (agent.poll() is None or _descendants()) and time.monotonic() < end:
        _reap()
        time.sleep(_POLL_SECONDS / 4)


def _signal_all(number: signal.Signals) -> None:
    found = _descendants()
    for pid in found:
        with suppress(OSError):
            os.kill(pid, number)
    if not found and number == signal.SIGTERM:
        with suppress(OSError):  # a system without /proc; this process only notes the signal
            os.killpg(0, number)


def _reap() -> None:
    """Collect ended processes that became children of this one. `Popen` keeps the exit code of the agent."""
    with suppress(OSError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants() -> list[int]:
    """Return the running processes below this one."""
    parents: dict[int, int] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208 # quicker to import than pathlib
            if name.isdecimal():
                with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                    if state not in {b"Z", b"X"}:
                        parents[int(name)] = int(parent)
    known = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in known and pid not in known}:
        known |= more
    return sorted(known - {os.getpid()})


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
