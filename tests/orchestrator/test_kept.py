"""What survives the end of the process, at any moment; and settings that somebody else saved."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from tests.hooks.fakes import call, reply, said
from tract_jupyter import Orchestrator, OrchestratorConfig, OrchestratorError, Tract, auto_approve
from tract_jupyter.storage import Database

SUMMARY = "They counted birds."
PROGRAM = "import sys; from tests.orchestrator.test_kept import run_and_end; run_and_end(sys.argv[1], int(sys.argv[2]))"


def model(messages, **options):
    """Compresses, then pins what it wrote, then is done: as the conversation says."""
    replies = sum(one["role"] == "assistant" for one in messages)
    if replies == 0:
        return reply("It is full.", call("compress", {"content": SUMMARY, "reasoning": "full"}, "c1"))
    if replies == 1:
        return reply(None, call("annotate", {"target_hash": "HEAD", "priority": "pinned"}, "c2"))
    return "Done."


def orchestrator(tract):
    return Orchestrator(tract, OrchestratorConfig(on_proposal=auto_approve), model)


def run_and_end(path, number):
    """Run, and end the process as kill -9 does after so many transactions."""
    with Tract.open(path) as tract:
        left, write = [number], Database.write

        @contextmanager
        def counted(database):
            is_outer = not database.in_transaction
            with write(database) as connection:
                yield connection
            left[0] -= is_outer
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        made = orchestrator(tract)
        Database.write = counted
        made.run("it is full")
    os._exit(7)


def answer_doubts(tract):
    """Decide as a person who looks: what was done is not done again."""
    for stored in tract.review.inbox():
        pending = tract.operations.rebuild(stored)
        texts = [message.content for message in tract.compile().messages]
        priorities = [message.priority for message in tract.compile().messages]
        is_done = texts == [SUMMARY] if pending.tool_name == "compress" else "pinned" in priorities
        if is_done:
            pending.reject("it is done already")
        else:
            pending.approve()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_after_any_transaction_it_goes_on_or_is_told_and_nothing_is_done_twice(tmp_path):
    outcomes = set()
    for number in range(1, 100):
        path = tmp_path / f"{number}.db"
        with Tract.open(path) as tract:
            for week in range(4):
                tract.user(f"Week {week}: {week * 7} birds.")
        code = subprocess.run(
            [sys.executable, "-c", PROGRAM, path, str(number)], timeout=60, check=False
        ).returncode
        if code == 7:  # it came to its end
            break
        assert code == -signal.SIGKILL
        with Tract.open(path) as tract:
            made = orchestrator(tract)
            try:
                result = made.resume()
            except OrchestratorError as error:
                assert "run() begins" in str(error)
                outcomes.add("told")
                result = made.run()
            for _ in range(3):
                if result.outcome != "waiting":
                    break
                outcomes.add("waiting")
                answer_doubts(tract)
                result = made.resume()
            assert (result.outcome, result.text) == ("answer", "Done."), number
            assert said(tract) == [("assistant", SUMMARY)], number
            assert tract.compile().messages[0].priority == "pinned", number
            assert len(tract.events("compress")) == 1, number
            assert len(tract.log(None, op_filter="annotate")) == 1, number
            assert tract.verify() == []
            assert tract.review.inbox() == []
    assert number > 10
    assert "told" in outcomes


def test_settings_that_somebody_else_saved_are_not_used(tmp_path):
    with Tract.open(tmp_path / "t.db") as t:
        t.orchestrator.config = OrchestratorConfig(autonomy_ceiling="autonomous", task_context="birds")
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("UPDATE settings SET settings_json = replace(settings_json, 'birds', 'obey')")
        connection.commit()
    with Tract.open(tmp_path / "t.db") as t:
        with pytest.warns(UserWarning, match="are not yours"):
            config = t.orchestrator.config
        assert (config.autonomy_ceiling, config.task_context, config.triggers) == (
            "collaborative",
            None,
            None,
        )
        t.orchestrator.config = OrchestratorConfig(max_steps=2)
        assert t.orchestrator.problem == ""
    with Tract.open(tmp_path / "t.db") as t:
        assert t.orchestrator.config.max_steps == 2


def test_another_process_decides_and_the_run_goes_on(tmp_path):
    with Tract.open(tmp_path / "t.db") as t:
        t.user("Week 1.")
        t.user("Week 2.")
        made = Orchestrator(t, llm_callable=model)
        result = made.run()
        assert (result.outcome, result.text) == ("waiting", "It is full.")
        assert "resume() goes on once they are decided" in result.note
        with Tract.open(tmp_path / "t.db") as other:
            (stored,) = other.review.inbox()
            assert "It is full." not in stored.title
            other.operations.rebuild(stored).approve()
        assert made.resume().steps[0].result.success
        assert said(t) == [("assistant", SUMMARY)]
