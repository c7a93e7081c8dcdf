"""`verify` computes the root hash of each run again, and reads the commits of its turn."""

from __future__ import annotations

import json
import re

import pytest
from sqlalchemy import text

import tract_jupyter
from tests.review.scripted import ScriptedClient
from tests.runs.stories import AFTER, RUN, after, before, numbered, whole
from tract_jupyter import Tract, verify_store
from tract_jupyter.__main__ import main
from tract_jupyter.exceptions import RunError, StoreError, UndecidedError
from tract_jupyter.models import canonical_json
from tract_jupyter.runs import RunLog, SqlCommitLog
from tract_jupyter.runs.profile import OperationProfile, run_operation
from tract_jupyter.storage import Database, RunCommitRows, RunEventRows


def store_run(url, tract_id, events):
    """Store the events of a run, and its commit reports, as a run does."""
    database = Database(url=url)
    log = RunLog(database, RunEventRows(tract_id), events[0].run_id)
    reports = SqlCommitLog(database, RunCommitRows(tract_id))
    for event in events:
        log.add(event.data)
        if event.type == "commit.finished":
            with database.write() as connection:
                reports.add(connection, event.run_id, event.data.hook, event.data.report)
    log.flush()
    database.close()


@pytest.fixture
def turn(any_store, store_url):
    """A tract with a run whose reply was rewritten."""
    opened = any_store()
    opened.user("Where am I?")
    said = opened.assistant("In Rome")
    better = opened.assistant("In Rome.", edit=said.commit_hash)
    store_run(store_url, opened.tract_id, whole([*before(said.commit_hash), *after(better.commit_hash)]))
    return opened


def change(url, statement, **values):
    database = Database(url=url)
    with database.write() as connection:
        assert connection.execute(text(statement), values).rowcount
    database.close()


def problems(tract):
    return [damage.problem for damage in tract.verify() if damage.where.startswith("run ")]


def test_verify_finds_no_problem_in_an_unchanged_store(turn, store_url):
    """R58: also for a running run, or one that was cut off by a crash."""
    assert turn.verify() == []
    for length in (1, 8, 15):
        store_run(store_url, turn.tract_id, numbered(before()[:length], run_id=f"{length:032}"))
    assert turn.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE run_events SET data_json = replace(data_json, 'wet', 'dry') WHERE seq = 7", "do not match its root hash"),
        ("UPDATE run_events SET data_json = replace(data_json, 'In Rome', 'In Pisa') WHERE seq = 17", "do not match its root"),
        ("UPDATE run_events SET data_json = '{}' WHERE seq = 7", "Event 7 of run .* is damaged"),
        ("DELETE FROM run_events WHERE seq = 5", "Event 5 of run .* is missing"),
        ("DELETE FROM run_events WHERE seq = 1", "Event 1 of run .* is missing"),
        ("DELETE FROM run_events", "it has a commit at after_main_llm, but no events"),
        ("UPDATE run_commits SET report_json = '{}' WHERE hook = 'after_main_llm'", "its report of after_main_llm differs"),
    ],
)  # fmt: skip
def test_verify_reports_each_kind_of_change(turn, store_url, statement, problem):
    """R58, R57: each event counts, and a missing event is found."""
    change(store_url, statement)
    assert any(re.search(problem, told) for told in problems(turn)), problems(turn)


def test_a_run_does_not_go_on_after_its_end(turn, store_url):
    """R13: an added event is reported."""
    change(
        store_url,
        "INSERT INTO run_events (tract_id, run_id, seq, event_type, data_json, created_at) "
        "SELECT tract_id, run_id, seq + 1, 'run.resumed', '{}', created_at FROM run_events WHERE seq = :last",
        last=len(whole()),
    )
    assert problems(turn) == ["it has events after its end"]


def test_verify_compares_the_commits_of_a_turn_with_the_run(any_store, store_url):
    """R49, R58: the original reply, and the rewritten one."""
    tract = any_store()
    said, other = tract.assistant("In Rome"), tract.assistant("In Pisa")
    store_run(store_url, tract.tract_id, whole([*before(other.commit_hash), *after(said.commit_hash)]))
    assert problems(tract) == [
        f"commit {other.commit_hash[:12]} does not have the text that the run recorded",
        f"commit {said.commit_hash[:12]} does not have the text that the run recorded",
    ]  # fmt: skip


def test_commits_that_gc_has_removed_are_not_missed(any_store, store_url):
    """R49: the log has their text."""
    tract = any_store()
    store_run(store_url, tract.tract_id, whole([*before("a" * 64), *after("b" * 64)]))
    assert tract.verify() == []


def test_a_tract_sees_its_own_runs(turn, any_store, store_url):
    """R57: only its own."""
    other = any_store(tract_id="2" * 32)
    change(store_url, "DELETE FROM run_events WHERE seq = 5")
    assert other.verify() == []


# --- the whole store


def test_every_run_of_a_store_has_a_root_hash(turn, store_url):
    """R58: a run and its replay have the same."""
    store_run(store_url, turn.tract_id, whole(run_id="b" * 32))
    store_run(store_url, turn.tract_id, numbered(before(), run_id="c" * 32))
    (verified,) = verify_store(store_url)
    first, second, third = verified.runs
    assert (verified.tract_id, verified.damaged) == (turn.tract_id, ())
    assert [run.run_id[0] for run in verified.runs] == ["a", "b", "c"]
    assert first.root_hash == second.root_hash == whole()[-1].data.root_hash
    assert (first.status, third.status, third.root_hash) == ("done", "running", None)


def test_the_command_prints_them(turn, store_url, capsys):
    """R58: one line per run, one per damage; the exit code tells whether there is damage."""
    assert main(["verify", store_url]) == 0
    root = whole()[-1].data.root_hash
    unsigned = f"{turn.tract_id}: not yours: start of run {RUN}: not signed by you\n"  # the test stored it
    assert capsys.readouterr().out == f"{turn.tract_id}: run {RUN} done {root}\n{unsigned}"
    change(store_url, "UPDATE run_events SET data_json = replace(data_json, 'wet', 'dry')")
    assert main(["verify", store_url]) == 1
    assert "root hash; one of them was changed" in capsys.readouterr().out


def test_a_waiting_run_whose_turn_has_another_reply_is_aborted_in_every_view(tmp_path, spec, capsys):
    """R13: `verify`, `t.runs` and `replay` agree, also for a waiting run."""
    checked = run_operation(
        "check", "dynamic", operation="citation_check", fields={"urls": ["a"]}, order=1, into="system"
    )
    with Tract.open(tmp_path / "t.db") as tract:
        tract.configure_llm(ScriptedClient("On the mat."))
        tract.register_operation(spec(unhandled="ask"))
        tract.user("Where is it?")
        with pytest.raises(UndecidedError):
            tract.generate(profile=OperationProfile.of("p", [checked]))
        (waiting,) = tract.runs()
        assert [root.status for root in tract.runs.roots()] == [waiting.status] == ["waiting"]
        with pytest.raises(RunError, match="has not ended, .* Resume it, or wait for its end"):
            tract.runs.replay(waiting.run_id)
        tract.generate()
        (run,) = tract.runs()
        assert (run.run_id, run.status, tract.runs.get(run.run_id).status) == (
            waiting.run_id,
            "aborted",
            "aborted",
        )
        with pytest.raises(RunError, match="was aborted, so it cannot be replayed"):
            tract.runs.replay(run.run_id)
    assert main(["verify", str(tmp_path / "t.db")]) == 0
    assert f"run {run.run_id} aborted -\n" in capsys.readouterr().out


@pytest.mark.parametrize("events", [numbered(before(), run_id="c" * 32), whole(run_id="c" * 32)])
def test_a_run_that_cannot_be_read_is_damaged(turn, store_url, capsys, events):
    store_run(store_url, turn.tract_id, events)
    change(store_url, "UPDATE run_events SET data_json = '[' WHERE run_id = :run", run="c" * 32)
    assert main(["verify", store_url]) == 1
    assert f"run {'c' * 32} damaged -\n" in capsys.readouterr().out


def test_verify_reads_a_store_by_its_path_and_refuses_a_missing_one(tmp_path, capsys):
    """R57: a missing store is not created."""
    with Tract.open(tmp_path / "t.db") as tract:
        tract.user("x")
    assert main(["verify", str(tmp_path / "t.db")]) == 0
    assert capsys.readouterr().out == ""
    assert verify_store(tmp_path / "t.db")[0].runs == ()
    for name in ("none.db", "a folder"):
        with pytest.raises(StoreError, match="there is no store"):
            verify_store(tmp_path / name)
    assert main(["verify", str(tmp_path / "none.db")]) == 2
    assert tract_jupyter.verify(tmp_path) == []
    assert not (tmp_path / "none.db").exists()


def test_the_stored_report_of_a_commit_is_canonical_json():
    """R58: so that both can be compared."""
    report = numbered(after())[4].data.report
    assert json.loads(canonical_json(report)) == report
    assert report["hook"] == AFTER
