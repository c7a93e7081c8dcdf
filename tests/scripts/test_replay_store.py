"""The log of an earlier run in the store: changed by others, of killed processes; laws."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from tests.scripts.desk import FAILS, Desk
from tract_jupyter import Tract


def change(url, statement, **values):
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE script_calls SET calls_json = replace(calls_json, 'put 2', 'gone')",
        "UPDATE script_calls SET signature = ''",
        "UPDATE script_calls SET created_at = '2020-01-01T00:00:00.000000+00:00'",
        "UPDATE script_calls SET position = position + 1",
        "UPDATE script_calls SET calls_json = 'no JSON'",
    ],
)
def test_a_changed_log_is_not_used(desk, own_store, statement):
    desk.run(FAILS)
    change(own_store, statement)
    result = desk.run(FAILS)
    assert result.replayed_count == 0
    assert "you did not sign" in result.notes[0]
    assert desk.made == ["look 1", "put 2", "look 1", "put 2"]
    assert desk.run(FAILS).notes[0].startswith("2 calls were answered")  # the changed log was deleted


@pytest.mark.parametrize("column", ["script_hash", "notebook_id", "tract_id"])
def test_a_log_moved_to_another_script_notebook_or_tract_is_not_used(desk, own_store, column):
    desk.run(FAILS)
    other = desk.run("tools.put(n=5)\n1 / 0", notebook_id="other")
    values = {"script_hash": other.script_hash, "notebook_id": "other", "tract_id": "x"}
    change(
        own_store,
        f"UPDATE script_calls SET {column} = :value WHERE notebook_id = 'main'",
        value=values[column],
    )
    for code, notebook_id in ((FAILS, "main"), (FAILS, "other"), (other.code, "main")):
        assert desk.run(code, notebook_id=notebook_id).replayed_count == 0


def test_the_log_of_another_user_is_not_used(opened, data_dir):
    opened().run(FAILS)
    (data_dir / "tract_jupyter" / "secret").write_bytes(b"x" * 32)
    second = opened()
    assert "you did not sign" in second.run(FAILS).notes[0]
    assert len(second.made) == 4


def test_with_a_damaged_secret_a_script_runs_without_a_log(desk, data_dir):
    desk.run(FAILS)
    (data_dir / "tract_jupyter" / "secret").write_bytes(b"x")
    result = desk.run(FAILS)
    assert (result.error.name, result.replayed_count) == ("ValueError", 0)
    assert all("is damaged" in note for note in result.notes)
    assert len(result.notes) == 2  # nothing is read or stored


def test_the_log_of_a_run_in_another_live_process_is_not_used(desk, own_store):
    desk.run(FAILS)
    from tract_jupyter.review import this_process

    host = this_process().split(":")[0]
    change(own_store, "UPDATE script_calls SET running = :p", p=f"{host}:{os.getppid()}:ab")
    assert desk.run(FAILS).notes == ()
    assert desk.made == ["look 1", "put 2", "look 1", "put 2"]
    change(own_store, "UPDATE script_calls SET running = :p", p=f"{host}:{os.getpid()}:another")
    assert desk.run(FAILS).replayed_count == 2


@pytest.mark.slow
@given(
    calls=st.lists(st.tuples(st.sampled_from(["look", "put"]), st.integers(0, 3)), min_size=1, max_size=8),
    stops=st.lists(st.integers(0, 8), max_size=3),
)
@settings(max_examples=25, deadline=None)
def test_whatever_stops_it_each_call_is_made_once(calls, stops):
    with Tract.open() as tract:
        desk = Desk(tract, [])
        code = "for n, (name, value) in enumerate(calls):\n    if n == stop: raise ValueError(n)\n"
        code += "    getattr(tools, name)(n=value)\nn"
        desk.variables["calls"] = calls
        for stop in (*stops, -1):
            desk.variables["stop"] = stop
            result = desk.run(code)
            if result.succeeded:
                break
        assert result.succeeded
        assert desk.made == [f"{name} {value}" for name, value in calls]


KILLED = """
import os, signal, sys
from pathlib import Path
from tract_jupyter import Tract
from tract_jupyter.toolkit import Permission

tract = Tract.open("store.db")
tract.executor.permission = lambda *_: Permission.ALLOW

@tract.tool
def put(n: int) -> int:
    \"\"\"Write a line.\"\"\"
    if n == 3 and not Path("again").exists():
        Path("again").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with open("written.txt", "a") as file:
        print(n, file=file)
    return n

result = tract.scripts.run("[tools.put(n=n) for n in range(4)]", backend=sys.argv[1])
print(result.value, result.replayed_count)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there is no such signal")
@pytest.mark.parametrize("backend", ["kernel", "sandbox"])
def test_calls_of_a_killed_process_are_not_repeated(tmp_path, backend):
    def run():
        return subprocess.run(
            [sys.executable, "-c", KILLED, backend],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert run().returncode == -signal.SIGKILL
    second = run()
    assert second.stdout == "[0, 1, 2, 3] 3\n", second.stderr
    assert (tmp_path / "written.txt").read_text().split() == ["0", "1", "2", "3"]
