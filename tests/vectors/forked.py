"""Processes of a scenario that is killed, forked from one that has imported what they need.

There are dozens of kills in each variant, two processes for each, and a second or two of imports in each process.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import threading
import traceback

USED = {
    "anyio", "docstring_parser", "genai_prices", "h11", "httpcore", "httpx", "pydantic", "sqlalchemy", "tenacity",
    "tract_jupyter",
}  # fmt: skip
"""The packages that a process which talks imports; those that the server judges with are others."""


class ForkedProcess:
    """One process: the part of `subprocess.Popen` that the driver uses."""

    def __init__(self, pid, ended):
        self._pid = pid
        self._ended = ended
        self._lock = threading.Lock()
        self._is_over = False

    def kill(self):
        with self._lock:
            if not self._is_over:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout):
        assert select.select([self._ended], [], [], timeout)[0], f"a process did not end within {timeout} s"
        with self._lock:  # its id may be another one's from now on
            self._is_over = True
            return int(self._ended.readline())


class Forking:
    """Stands for `subprocess` in the driver.

    Make one before there are any threads: it forks the process that others are forked from, which imports what this one
    has imported by then and runs nothing.

    Args:
        child: what a process does, given the words after `--child`.
    """

    def __init__(self, child):
        asking, words = os.pipe()
        told, answers = os.pipe()
        if os.fork() == 0:
            os.close(words)
            os.close(told)
            self._serve(child, os.fdopen(asking), os.fdopen(answers, "w"))
            os._exit(0)
        os.close(asking)
        os.close(answers)
        self._words, self._answers = os.fdopen(words, "w"), os.fdopen(told)

    def _serve(self, child, asking, answers):
        for line in asking:
            names, words = json.loads(line)
            for name in names:
                importlib.import_module(name)
            pid = os.fork()
            if pid == 0:
                self._run(child, words)
            print(pid, file=answers, flush=True)
            print(os.waitpid(pid, 0)[1], file=answers, flush=True)

    def _run(self, child, words):
        status = 1
        try:
            child(words)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def Popen(self, command):  # noqa: N802 # as in `subprocess`
        names = [name for name in list(sys.modules) if name.partition(".")[0] in USED]
        print(json.dumps([names, command[command.index("--child") + 1 :]]), file=self._words, flush=True)
        return ForkedProcess(int(self._answers.readline()), self._answers)

    def run(self, command, *, timeout, check):
        status = self.Popen(command).wait(timeout)
        assert not (check and status), f"the second process ended with {status}"
