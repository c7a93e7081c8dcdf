"""kill -9 after every statement of a commit and what policies do about it; and several processes on one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tract_jupyter import Tract
from tract_jupyter.policy import PolicyWarning
from tract_jupyter.storage import Database


def commit_and_end(path, stop):
    """Commit a message to which the policy applies, and print the number of transactions.

    After the end of transaction number `stop`, the process is killed.
    """
    ends, write, is_armed = 0, Database.write, False

    @contextmanager
    def counted(database):
        nonlocal ends
        with write(database) as connection:
            yield connection
        ends += is_armed
        if is_armed and ends == int(stop):
            os.kill(os.getpid(), signal.SIGKILL)

    Database.write = counted
    with Tract.open(path) as tract:
        tract.policies.evaluator.orchestrate = lambda reason, autonomy: tract.assistant("by the orchestrator")
        is_armed = True
        tract.user("KEEP this")
        is_armed = False
    print(ends)


def prepared(path, kind):
    with Tract.open(path) as tract:
        tract.user("first")
        if kind == "orchestrate":
            tract.policies.add("orchestrate", commits=1, autonomy="autonomous")
        else:
            tract.policies.add("pin", patterns=["KEEP"], autonomy="autonomous")
        tract.autonomy.ceiling = "autonomous" if kind != "propose" else "collaborative"


def run(forker, path, stop):
    done = forker.run("tests.policy.test_killed:commit_and_end", path, stop)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done


def warm_up():
    """Do the work once in the process that forks the others."""
    begin = Database.write
    for kind in ("pin", "propose", "orchestrate"):
        with TemporaryDirectory() as folder:
            path = Path(folder, "t.db")
            prepared(path, kind)
            commit_and_end(path, 0)
            Database.write = begin


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pin", "propose", "orchestrate"])
def test_killed_after_each_thing_that_was_stored(tmp_path, forker, kind):
    path = tmp_path / "whole.db"
    prepared(path, kind)
    steps = int(run(forker, path, 0).stdout)
    assert steps >= 2
    for stop in range(1, steps + 1):
        path = tmp_path / f"{stop}.db"
        prepared(path, kind)
        assert run(forker, path, stop).returncode == -signal.SIGKILL
        check(path, kind, stop)


def check(path, kind, stop):
    with Tract.open(path) as tract:

        def by_it():
            return [info for info in tract.log(None) if info.message == "by the orchestrator"]

        def told(outcome):
            return len(tract.events(f"policy.{outcome}"))

        kept = [info for info in tract.log(None) if info.message == "KEEP this"]
        assert len(kept) == 1, stop  # it was stored first
        before, is_cut = len(by_it()), told("began") > told("executed")
        with pytest.warns(PolicyWarning, match="a process died while it ran") if is_cut else nullcontext():
            policies = tract.policies
        assert told("interrupted") == is_cut
        policies.evaluator.orchestrate = lambda reason, autonomy: tract.assistant("by the orchestrator")
        policies.list()
        assert (told("interrupted"), len(by_it())) == (is_cut, before)
        tract.user("next")
        if kind == "orchestrate":
            assert len(by_it()) == before + 1
        else:
            tract.user("and next")
            priority = tract.get_commit(kept[0].commit_hash).priority
            assert (priority, tract.status().waiting) == (
                ("normal", 1) if kind == "propose" else ("pinned", 0)
            )
            outcome = "policy.proposed" if kind == "propose" else "policy.executed"
            assert [event.event_type for event in policies.log()] == [outcome]
        assert tract.verify() == []


SHARED = """
import sys
from tract_jupyter import Tract
with Tract.open(sys.argv[1], lock_timeout=60) as tract:
    tract.policies
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(10):
        tract.user(f"{sys.argv[2]} {number}")
"""


@pytest.mark.slow
def test_two_processes_on_one_store_do_nothing_twice(tmp_path):
    path = tmp_path / "t.db"
    with Tract.open(path) as tract:
        tract.autonomy.ceiling = "autonomous"
        kept = [tract.user(f"KEEP {number}") for number in range(5)]
        tract.policies.add("pin", patterns=["KEEP"], autonomy="autonomous")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED, str(path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for name in "ab"
    ]  # fmt: skip
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("\n")
        one.stdin.flush()
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(lambda one: one.communicate(timeout=120), both))
    assert [one.returncode for one in both] == [0, 0], ends
    with Tract.open(path) as tract:
        targets = [event.data["params"]["target_hash"] for event in tract.policies.log()]
        assert sorted(targets) == sorted(info.commit_hash for info in kept)
        assert {tract.get_commit(info.commit_hash).priority for info in kept} == {"pinned"}
        assert sum(info.operation == "annotate" for info in tract.log(None)) == 5
