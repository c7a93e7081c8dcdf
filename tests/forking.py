"""Processes that are forked from one that has imported what they need.

Some tests end a process after each of its transactions, or run many programs. The imports of such a process take longer
than its work, and so do its first statements and calls: a module can define `warm_up`, which does the work once in the
process that forks. It must leave no thread.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parents[1]
USED = {"genai_prices", "httpx", "pydantic", "sqlalchemy", "tract_jupyter"}


class Forker:
    """Runs functions in processes of their own, one after the other. It starts at the first one."""

    def __init__(self):
        self._server = None

    def run(self, place, *words, timeout=200):
        """Call a function with texts, and wait for the end of its process.

        Args:
            place: "module:function". The modules that the package has imported in this process are imported before.
            words: the function's arguments.
            timeout: seconds; then the process ends with SIGALRM.

        Returns:
            The ended process, with its output as text.
        """
        words = list(map(str, words))
        job = {
            "place": place, "words": words, "timeout": timeout, "environ": dict(os.environ), "folder": str(Path.cwd()),
            "imports": [name for name in list(sys.modules) if name.partition(".")[0] in USED],
        }  # fmt: skip
        server = self._server = self._server or self._started()
        try:
            print(json.dumps(job), file=server.stdin, flush=True)
            answer = json.loads(server.stdout.readline())
        except BaseException:  # a test that took too long: what it started must not answer the next one
            self.close()
            raise
        return subprocess.CompletedProcess([place, *words], **answer)

    def close(self):
        """End the process that forks, and what it waits for."""
        server, self._server = self._server, None
        if server is not None:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()

    def _started(self):
        return subprocess.Popen(
            [sys.executable, "-m", "tests.forking"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip


def serve():
    """Read jobs, one line each, and answer each one when its process has ended."""
    warm = set()
    for line in sys.stdin:
        job = json.loads(line)
        for name in job["imports"]:
            with suppress(ImportError):  # a test has made it, and it is gone
                importlib.import_module(name)
        name, _, function = job["place"].partition(":")
        module = importlib.import_module(name)
        if name not in warm and hasattr(module, "warm_up"):
            with redirect_stdout(sys.stderr):  # answers are on stdout
                module.warm_up()
        warm.add(name)
        with TemporaryFile() as stdout, TemporaryFile() as stderr:
            pid = os.fork()
            if pid == 0:
                work(getattr(module, function), job, (stdout.fileno(), stderr.fileno()))
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            answer = {"returncode": status, "stdout": text_of(stdout), "stderr": text_of(stderr)}
        print(json.dumps(answer), flush=True)


def text_of(file):
    """Return what a process has written."""
    file.seek(0)
    return file.read().decode(errors="replace")


def work(function, job, outputs):
    """Call the function in this process, and end it."""
    signal.alarm(job["timeout"])
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environ"])
    for number, target in enumerate((os.open(os.devnull, os.O_RDONLY), *outputs)):
        os.dup2(target, number)
    status = 1
    try:
        status = function(*job["words"]) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
