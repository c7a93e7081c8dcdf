"""Runs the scenarios of `loop/` and our own of `loop_scenarios.json` with `loop/driver.py`, in three dialects.

    python tests/vectors/loop_driver.py [--wire responses] [options of loop/driver.py]

`--wire responses` has `openai` speak Responses. Each request is judged by the official SDK as well, down to the keys.
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
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "loop"), str(HERE.parents[1])]
os.environ.setdefault("LOOP_PRODUCT", str(HERE / "loop_product.py"))

import driver  # noqa: E402 # of the given files, which import each other by these names
import play  # noqa: E402
import server  # noqa: E402

from tests.llm import sdk  # noqa: E402
from tests.vectors.responses_server import ResponsesServer  # noqa: E402

OWN = HERE / "loop_scenarios.json"
CHAT_ONLY = {"BUD-09"}
"""What only chat completions have: usage in a stream has to be asked for."""
USED = {
    "anyio", "docstring_parser", "genai_prices", "h11", "httpcore", "httpx", "pydantic", "sqlalchemy", "tenacity",
    "tract_jupyter",
}  # fmt: skip
"""The packages that a process which talks imports; those that the server judges with are others."""
given_check, given_load, given_prepare = driver.check, play.load, driver.prepare


def load():
    """Return the given scenarios and our own."""
    found = [*given_load(), *json.loads(OWN.read_text(encoding="utf-8"))]
    if os.environ.get("LOOP_WIRE") == "responses":
        return [one for one in found if one["id"] not in CHAT_ONLY]
    return found


def check(scenario, dialect, stream, observed, server):
    """Check as the given files do, and have the SDK judge each request."""
    responses = isinstance(server, ResponsesServer)
    judged = [] if scenario.get("allow_violations") else [
        f"request {one['n']}: {problem}"
        for one in server.requests
        if isinstance(one["body"], dict)
        for problem in sdk.problems_of(one["path"], one["body"])
    ]  # fmt: skip
    for one in server.requests if responses and scenario["expect"].get("stable_prefix") else ():
        one["body"] |= {"messages": one["body"]["input"], "system": one["body"].get("instructions")}
    fails, warns = given_check(scenario, dialect, stream, observed, server)
    return [*judged, *fails], warns


driver.load, driver.check = load, check


class KilledProcess:
    """A process that a scenario kills, or that goes on after it: the part of `subprocess.Popen` that the driver uses."""

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
    """Stands for `subprocess` in the driver: processes are forked from one that has imported what they need.

    A scenario is killed many times, twice a second of imports each. The process was forked itself before there were any
    threads, and runs nothing; what it imports is what this one has imported by then.
    """

    def __init__(self):
        words, self._words = os.pipe()
        self._answers, answers = os.pipe()
        if os.fork() == 0:
            os.close(self._words)
            with open(words) as asked, open(answers, "w") as told:
                self._serve(asked, told)
            os._exit(0)
        os.close(words)
        os.close(answers)
        self._words, self._answers = open(self._words, "w"), open(self._answers)

    def _serve(self, asked, told):
        for line in asked:
            names, words = json.loads(line)
            for name in names:
                importlib.import_module(name)
            pid = os.fork()
            if pid == 0:
                self._run(words)
            print(pid, file=told, flush=True)
            print(os.waitpid(pid, 0)[1], file=told, flush=True)

    def _run(self, words):
        status = 1
        try:
            driver.child(words)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def Popen(self, command):
        names = [name for name in list(sys.modules) if name.partition(".")[0] in USED]
        print(json.dumps([names, command[command.index("--child") + 1 :]]), file=self._words, flush=True)
        return KilledProcess(int(self._answers.readline()), self._answers)

    def run(self, command, *, timeout, check):
        status = self.Popen(command).wait(timeout)
        assert not (check and status), f"the second process ended with {status}"


def prepare(actor, scenario, dialect, stream, given_actor, *more):
    """Prepare as the given files do, also what is killed with the actor that is asked for."""
    return given_prepare(scenario, dialect, stream, actor, *more)


def warm_up():
    """Import what the server judges with, so that no request waits for it while a turn's seconds are counted."""
    import jsonschema

    assert jsonschema
    for dialect in ("openai", "anthropic"):
        server.validate(dialect, {}, {"messages": []}, "")


def main(words):
    """Run what is asked for; returns 1 if something fails."""
    if "--wire" in words:
        place = words.index("--wire")
        os.environ["LOOP_WIRE"] = words[place + 1]
        del words[place : place + 2]
    if os.environ.get("LOOP_WIRE") == "responses":
        driver.ModelServer = ResponsesServer
    actor = words[words.index("--actor") + 1] if "--actor" in words else "sync"
    driver.prepare = partial(prepare, actor)
    driver.subprocess = Forking()
    warm_up()
    sys.argv[1:] = [
        *words,
        *([] if "--dialect" in words or "LOOP_WIRE" not in os.environ else ["--dialect", "openai"]),
    ]
    return driver.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
