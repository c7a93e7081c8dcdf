"""State that survives a kill at any moment; and settings saved by other writers."""

from __future__ import annotations

import os
import signal
import sqlite3
import warnings
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.review.scripted import call, reply, said
from tract_jupyter import Orchestrator, OrchestratorConfig, OrchestratorError, Tract, auto_approve
from tract_jupyter.models import Trigger
from tract_jupyter.storage import Database

SUMMARY = "They counted birds."
KEPT = "KEEP: the lake freezes in week 5."
NEXT = "Week 6: no birds."


def model(messages, **options):
    """Compress, pin the summary, end: depending on the conversation."""
    replies = sum(one["role"] == "assistant" for one in messages)
    if replies == 0:
        return reply("It is full.", call("compress", {"content": SUMMARY, "reasoning": "full"}, "c1"))
    if replies == 1:
        return reply(None, call("annotate", {"target_hash": "HEAD", "priority": "pinned"}, "c2"))
    return "Done."


def tidier(messages, **options):
    """Compress, tag the summary, end."""
    given = model(messages, **options)
    if sum(one["role"] == "assistant" for one in messages) == 1:
        return reply(None, call("tag", {"commit_hash": "HEAD", "tag": "tidy"}, "c2"))
    return given


def orchestrator(tract):
    return Orchestrator(tract, OrchestratorConfig(on_proposal=auto_approve), model)


def prepare(path, by):
    """Write four messages. If a policy runs the orchestrator, set one, and another that pins a message."""
    with Tract.open(path) as tract:
        for week in range(4):
            tract.user(f"Week {week}: {week * 7} birds.")
        if by == "policy":
            tract.autonomy.ceiling = "autonomous"
            tract.policies.add("pin", patterns=["KEEP"], autonomy="autonomous")
            tract.orchestrator.config = OrchestratorConfig(
                autonomy_ceiling="autonomous", triggers=[Trigger(commits=1)]
            )


def run_and_end(path, number, by):
    """Run the orchestrator directly or by a policy, and end the process as kill -9 does, after some
    transactions."""
    with Tract.open(path) as tract:
        tract.models.use(tidier, operation="orchestrate")
        left, write = [int(number)], Database.write

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
        if by == "policy":
            tract.user(KEPT)
        else:
            made.run("it is full")
    return 7


def warm_up():
    """Do the work once in the process that forks the others, to load its imports."""
    begin = Database.write
    for by in ("person", "policy"):
        with TemporaryDirectory() as folder:
            path = Path(folder, "t.db")
            prepare(path, by)
            run_and_end(path, 0, by)
            Database.write = begin


def answer_doubts(tract):
    """Decide as the user would: do not repeat completed actions."""
    for stored in tract.review.inbox():
        pending = tract.operations.rebuild(stored)
        texts = [message.content for message in tract.compile().messages]
        priorities = [message.priority for message in tract.compile().messages]
        is_done = "pinned" in priorities
        if pending.tool_name == "compress":
            is_done = SUMMARY in texts
        elif pending.tool_name == "tag":
            is_done = bool(tract.tags.list())
        if is_done:
            pending.reject("it is done already")
        else:
            pending.approve()


def killed(forker, path, number, by):
    """Run in a process that is killed after some transactions; return False if it ended before."""
    code = forker.run("tests.orchestrator.test_kept:run_and_end", path, number, by, timeout=60).returncode
    assert code in {7, -signal.SIGKILL}
    return code != 7


def change(folder, what, old, new):
    """Change a text in one row of the store."""
    with closing(sqlite3.connect(folder / "t.db")) as connection, connection:
        assert connection.execute(f"UPDATE {what}", {"old": old, "new": new}).rowcount == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_killed_after_any_transaction_ends_without_repetition(tmp_path, forker):
    outcomes = set()
    for number in range(1, 100):
        path = tmp_path / f"{number}.db"
        prepare(path, "person")
        if not killed(forker, path, number, "person"):
            break
        with Tract.open(path) as tract:
            made = orchestrator(tract)
            try:
                result = made.resume()
            except OrchestratorError as error:
                assert "run() starts" in str(error)
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_policy_run_killed_after_any_transaction_ends_without_repetition(
    tmp_path,
    forker,
):
    """One policy pins the new commit, and another one starts the orchestrator."""
    outcomes = set()
    for number in range(1, 100):
        path = tmp_path / f"{number}.db"
        prepare(path, "policy")
        is_over = not killed(forker, path, number, "policy")
        with Tract.open(path) as tract:
            tract.models.use(tidier, operation="orchestrate")
            outcomes |= finished(tract, number)
            texts = [text for _, text in said(tract)]
            assert [text for text in texts if text != NEXT] == [SUMMARY, KEPT], number
            priorities = {message.content: message.priority for message in tract.compile().messages}
            assert priorities[KEPT] == "pinned", number
            assert len(tract.events("compress")) == 1, number
            assert [tag.count for tag in tract.tags.list() if tag.name == "tidy"] == [1], number
            assert tract.verify() == []
            assert tract.review.inbox() == []
        if is_over:
            break
    assert number > 15
    assert outcomes == {"told", "resumed", "waiting", "begun anew"}


def finished(tract, number):
    """Finish a killed run as the user would; return the necessary steps."""
    outcomes = set()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rows = {row.name: row for row in tract.policies.list()}
    assert set(rows) == {"auto-pin", "orchestrator"}
    if told:
        assert "a process died while it ran" in str(told[0].message)
        assert len(tract.events("policy.interrupted")) == len(told) == 1
        outcomes.add("told")
    made = tract.orchestrator
    try:
        result = made.resume()
        outcomes.add("resumed")
    except OrchestratorError as error:
        assert "run() starts" in str(error)
        outcomes.add("begun anew")
        tract.user(NEXT, priority="pinned")  # the policies run again
        result = made.resume()
    for _ in range(3):
        if result.outcome != "waiting":
            break
        outcomes.add("waiting")
        answer_doubts(tract)
        result = made.resume()
    assert (result.outcome, result.text) == ("answer", "Done."), number
    return outcomes


def test_settings_with_a_foreign_signature_are_not_used(tmp_path):
    with Tract.open(tmp_path / "t.db") as t:
        t.orchestrator.config = OrchestratorConfig(autonomy_ceiling="autonomous", task_context="birds")
    change(tmp_path, "settings SET settings_json = replace(settings_json, :old, :new)", "birds", "obey")
    with Tract.open(tmp_path / "t.db") as t:
        with pytest.warns(UserWarning, match="are not yours"):
            config = t.orchestrator.config
        assert (config.autonomy_ceiling, config.task_context, config.triggers) == (
            "collaborative",
            None,
            (),
        )
        t.orchestrator.config = OrchestratorConfig(max_steps=2)
        assert t.orchestrator.problem == ""
    with Tract.open(tmp_path / "t.db") as t:
        assert t.orchestrator.config.max_steps == 2


def test_a_raised_autonomy_level_in_the_store_is_not_used_at_resume(tmp_path):
    """Both ceilings allow more than the requested level."""
    with Tract.open(tmp_path / "t.db") as t:
        t.user("Week 1.")
        t.user("Week 2.")
        t.autonomy.ceiling = "autonomous"
        t.orchestrator.config = OrchestratorConfig(autonomy_ceiling="autonomous")
        t.models.use(model, operation="orchestrate")
        assert t.orchestrate("it is full", "collaborative").outcome == "waiting"
    run = "commits SET metadata_json = replace(metadata_json, :old, :new) WHERE metadata_json LIKE '%orchestrator_run%'"
    change(tmp_path, run, '"autonomy":"collaborative"', '"autonomy":"autonomous"')
    with Tract.open(tmp_path / "t.db") as t:
        t.models.use(model, operation="orchestrate")
        result = t.orchestrator.resume()
        assert (result.outcome, result.autonomy, t.events("compress")) == ("waiting", "collaborative", [])


@pytest.mark.parametrize("planted", [False, True])
def test_a_call_changed_in_the_store_needs_approval_at_resume(tmp_path, planted):
    """The run was requested at the level autonomous, and both ceilings allow it now."""
    with Tract.open(tmp_path / "t.db") as t:
        t.user("Week 1.")
        t.user("Week 2.")
        t.orchestrator.config = OrchestratorConfig(autonomy_ceiling="autonomous")
        t.models.use(model, operation="orchestrate")
        assert t.orchestrate("it is full", "autonomous").outcome == "waiting"
    if planted:
        call = "commits SET metadata_json = replace(metadata_json, :old, :new) WHERE metadata_json LIKE '%tool_calls%'"
        change(tmp_path, call, SUMMARY, "Obey.")
    with Tract.open(tmp_path / "t.db") as t:
        t.autonomy.ceiling = "autonomous"
        t.models.use(model, operation="orchestrate")
        result = t.orchestrator.resume()
        assert result.outcome == ("waiting" if planted else "answer")
        assert len(t.events("compress")) == (0 if planted else 1)


def test_a_run_continues_after_another_process_decides(tmp_path):
    with Tract.open(tmp_path / "t.db") as t:
        t.user("Week 1.")
        t.user("Week 2.")
        made = Orchestrator(t, llm_callable=model)
        result = made.run()
        assert (result.outcome, result.text) == ("waiting", "It is full.")
        assert "resume() continues after the decisions" in result.note
        with Tract.open(tmp_path / "t.db") as other:
            (stored,) = other.review.inbox()
            assert "It is full." not in stored.title
            other.operations.rebuild(stored).approve()
        assert made.resume().steps[0].result.success
        assert said(t) == [("assistant", SUMMARY)]
